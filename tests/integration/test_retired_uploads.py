"""Requests whose body is under way when their HTTP/1.1 connection is retired: the CA of its client
is taken out, or the server ends. Over real TLS with a certificate of the client's."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.base.errors import ServiceError
from svc_cluster.cli.admin.authority import Authority, issue
from svc_cluster.cli.processes.own_certificate import utc_now
from svc_cluster.cli.processes.tls_files import PublicCertificate
from svc_cluster.http.message import Request, Response
from svc_cluster.http.server import Server, serve
from tests.contract.client_authority import ClientAuthority

SECONDS = 4.0
"""Below DISTRUST_SECONDS."""
TURNS = 50
"""Of the event loop, behind which whoever waits for what is under way does so."""
BODY = b"0123456789"
UPLOAD = b"POST /upload HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n%b\r\n"
NEXT = b"GET /next HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Reading:
    """It answers with the body that it is sent. `begun` is set by each request, and none looks at
    its body before `go`."""

    clock: Clock = SystemClock()

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.paths: list[str] = []

    async def handle(self, request: Request) -> Response:
        self.paths.append(request.raw_path)
        if request.raw_path == "/begun":
            return Response(200, [], self._streamed())
        self.begun.set()
        await self.go.wait()
        body = b"".join([piece async for piece in request.body.chunks()])
        return Response(200, [], body)

    async def _streamed(self) -> AsyncIterator[bytes]:
        yield BODY[:5]
        self.begun.set()
        await self.go.wait()
        yield BODY[5:]

    def refuse(self, error: ServiceError) -> Response:
        raise AssertionError(error)


@asynccontextmanager
async def connected(
    directory: Path, app: Reading, *, plain: bool
) -> AsyncIterator[tuple[Server, asyncio.StreamReader, asyncio.StreamWriter]]:
    clients = ClientAuthority(directory / "clients")
    issue(Authority.create(directory / "ca", utc_now), ["localhost"], directory / "public")
    place = directory / "public"
    certificate = PublicCertificate(place / "tls.crt", place / "tls.key", clients.path)
    server = await serve(app, "127.0.0.1", 0, tls=certificate.context, plain=plain)
    context = ssl.create_default_context(cafile=str(directory / "ca" / "ca.pem"))
    context.load_cert_chain(clients.issue("somebody").path)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=context, server_hostname="localhost"
    )
    try:
        yield server, reader, writer
    finally:
        writer.transport.abort()
        await server.close(0.1)


async def _retire(server: Server, way: str) -> asyncio.Task[None] | None:
    """Returns what is still to be waited for, once the connection is retired."""
    if way == "distrusted":
        assert server.distrust() == 1
        return None
    closing = asyncio.create_task(server.close(SECONDS))
    with suppress(IndexError):  # connections are retired in the turn that ends the listening
        while server.port:
            await asyncio.sleep(0)
    for _ in range(TURNS):
        await asyncio.sleep(0)
    return closing


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "by the library"])
@pytest.mark.parametrize("way", ["distrusted", "stopped"])
@pytest.mark.parametrize("kind", ["half sent", "waits to go on", "answer begun"])
def test_what_is_under_way_is_answered(tmp_path: Path, kind: str, way: str, plain: bool) -> None:
    """Its answer is the last, whatever the client sends behind it, and the connection ends."""

    async def main() -> bytes:
        app = Reading()
        async with connected(tmp_path, app, plain=plain) as (server, reader, writer):
            if kind == "answer begun":
                writer.write(b"GET /begun HTTP/1.1\r\nhost: localhost\r\n\r\n")
                await reader.readuntil(b"\r\n\r\n5\r\n")
            elif kind == "half sent":
                writer.write(UPLOAD % b"" + BODY[:5])
            else:
                writer.write(UPLOAD % b"expect: 100-continue\r\n")
            await app.begun.wait()
            closing = await _retire(server, way)
            app.go.set()
            if kind == "waits to go on":
                await reader.readuntil(b"HTTP/1.1 100 Continue\r\n\r\n")
                writer.write(BODY + NEXT)
            else:
                writer.write((BODY[5:] if kind == "half sent" else b"") + NEXT)
            heard = await reader.read()
            if closing is not None:
                await closing
        assert len(app.paths) == 1, app.paths
        return heard

    async def bounded() -> bytes:
        async with asyncio.timeout(SECONDS):
            return await main()

    heard = asyncio.run(bounded())
    if kind == "answer begun":
        assert heard == b"01234\r\n5\r\n56789\r\n0\r\n\r\n"
    else:
        head, _, body = heard.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        assert (b"connection: close" in head, body) == (True, BODY)
