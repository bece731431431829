"""Callers in the middle of their handshake when the CA of their certificate is taken out: of the
clients' port, and of a node's. Over real TLS, with the handshake in the test's own hands."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.base.errors import ServiceError
from svc_cluster.cli.admin.authority import Authority, issue
from svc_cluster.cli.processes.own_certificate import utc_now
from svc_cluster.cli.processes.tls_files import PublicCertificate
from svc_cluster.http.message import Request, Response
from svc_cluster.http.server import serve
from svc_cluster.link.tls_context import CallerTls, acceptor_context
from tests.contract.client_authority import ClientAuthority
from tests.unit.link.wires import listening_securely, two_authorities

SECONDS = 30.0
ASKED = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Caller:
    """One connection whose handshake stops before the caller's last message."""

    def __init__(self, context: ssl.SSLContext, name: str) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=name)

    async def begin(self, port: int) -> None:
        """Until the other side has shown itself, and waits for this one."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._writer.write(self._out.read())
                self._in.write(await self._reader.read(65536))
            else:
                return  # what it says last stands in `_out`

    async def end(self, words: bytes, *, hear_all: bool = False) -> bytes:
        """Say the rest, and return the first that is answered, or all; nothing where it is
        refused."""
        heard = b""
        if words:
            self._tls.write(words)
        self._writer.write(self._out.read())
        try:
            while data := await self._reader.read(65536):
                self._in.write(data)
                try:
                    heard += self._tls.read(65536)
                except ssl.SSLWantReadError:
                    continue
                if not hear_all:
                    break
        except OSError:
            pass
        finally:
            self._writer.transport.abort()
        return heard


class Hello:
    """It answers anything."""

    clock: Clock = SystemClock()

    async def handle(self, request: Request) -> Response:
        return Response(200, [("content-type", "text/plain")], b"hello")

    def refuse(self, error: ServiceError) -> Response:
        raise AssertionError(error)


def run(body: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SECONDS):
            await body

    asyncio.run(bounded())


@asynccontextmanager
async def clients_port(directory: Path) -> AsyncIterator[tuple[int, Callable[[], int], Caller]]:
    """The port, what takes the CA out, and a caller of it."""
    clients = ClientAuthority(directory / "clients")
    issue(Authority.create(directory / "ca", utc_now), ["localhost"], directory / "public")
    place = directory / "public"
    certificate = PublicCertificate(place / "tls.crt", place / "tls.key", clients.path)
    server = await serve(Hello(), "127.0.0.1", 0, tls=certificate.context)
    context = ssl.create_default_context(cafile=str(directory / "ca" / "ca.pem"))
    context.load_cert_chain(clients.issue("somebody").path)
    try:
        yield server.port, server.distrust, Caller(context, "localhost")
    finally:
        await server.close(0)


@pytest.mark.parametrize(("is_taken_out", "answer"), [(False, b"HTTP/1.1 200"), (True, b"")])
def test_a_client_in_its_handshake(tmp_path: Path, is_taken_out: bool, answer: bytes) -> None:
    """What was begun under the CAs of before gets no answer; the same one otherwise does."""

    async def body() -> None:
        async with clients_port(tmp_path) as (port, distrust, caller):
            await caller.begin(port)
            if is_taken_out:
                assert distrust() == 0, "nobody is connected yet"
            assert (await caller.end(ASKED))[:12] == answer

    run(body())


@pytest.mark.parametrize("is_taken_out", [False, True])
def test_a_node_in_its_handshake(tmp_path: Path, is_taken_out: bool) -> None:
    """It hears no challenge, or the reason of the end right behind it."""
    first, second = two_authorities(tmp_path)
    own, caller = first.tls("node2", node=2), second.tls("node1", node=1)
    own.authority.write_bytes(first.pem + second.pem)
    caller.authority.write_bytes(first.pem)

    async def body() -> None:
        async with listening_securely(own) as pair:
            calling = Caller(CallerTls(caller).context(), "node-2.svc-cluster.internal")
            await calling.begin(pair.port)
            if is_taken_out:
                own.authority.write_bytes(first.pem)
                pair.acceptor.renew(acceptor_context(own))
            heard = await calling.end(b"", hear_all=is_taken_out)
            assert (not heard or b"a CA was taken out" in heard) == is_taken_out, heard

    run(body())
