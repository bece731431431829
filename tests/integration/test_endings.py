"""HTTP/1.1 connections that are being closed, of clients that read nothing. Over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest
import uvloop

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.base.errors import ServiceError
from svc_cluster.http import sniff
from svc_cluster.http.connection import TimeLimits
from svc_cluster.http.message import Connection, Request, Response
from svc_cluster.http.server import Server, serve

SECONDS = 5.0
"""Ten times the limits here."""
LIMITS = TimeLimits(header=0.2, keep_alive=0.3, write=0.5, linger=0.1)
PIECE_BYTES = 8 * 1024
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [
    asyncio.new_event_loop,
    uvloop.new_event_loop,
]


class Sending:
    """It answers `/endless` for ever, and everything else until the kernel takes no more: there is
    then less unsent than any gate is shut for."""

    clock: Clock = SystemClock()

    def __init__(self) -> None:
        self.transports: list[asyncio.WriteTransport] = []
        self.ended = asyncio.Event()

    def client_of(self, transport: asyncio.BaseTransport) -> Connection:
        self.transports.append(cast(asyncio.WriteTransport, transport))  # uvloop's is not one
        return Connection("")

    async def handle(self, request: Request) -> Response:
        async for _ in request.body.chunks():
            pass

        async def body() -> AsyncIterator[bytes]:
            transport = self.transports[-1]
            try:
                while request.raw_path == "/endless" or not transport.get_write_buffer_size():
                    yield bytes(PIECE_BYTES)
            finally:
                self.ended.set()

        return Response(200, [("content-type", "text/plain")], body())

    def refuse(self, error: ServiceError) -> Response:
        return Response(408, [("content-type", "text/plain")], b"refused")


def asked(path: str, headers: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n".encode()


async def _await_none(server: Server) -> None:
    async with asyncio.timeout(SECONDS):
        while server.connections:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "library"])
@pytest.mark.parametrize("factory", LOOPS)
@pytest.mark.parametrize(
    ("sent", "says_no_more"),
    [
        (asked("/endless"), False),
        (asked("/endless") + b"GET /next HT", False),
        (asked("/endless") + bytes(2 * 1024 * 1024), False),
        (asked("/some"), False),
        (asked("/some", "connection: close\r\n"), False),
        (asked("/some") + b"GET /next HT", False),
        (asked("/some"), True),
        (asked("/some") + asked("/more", "content-length: 10\r\n") + b"01234", True),
    ],
    ids=[
        "endless",
        "half a head",
        "too much",
        "kept alive",
        "last",
        "late head",
        "half closed",
        "half a body",
    ],
)
def test_what_nobody_reads_ends_with_its_connection(
    sent: bytes,
    says_no_more: bool,
    factory: Callable[[], asyncio.AbstractEventLoop],
    plain: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever closes it, and whoever serves it (`http1_plain`, or the library from the first byte
    on), `TimeLimits.write` later the connection is gone, and with it its place, its handler and
    what was unsent."""

    async def main() -> None:
        app = Sending()
        monkeypatch.setattr(sniff, "client_of", app.client_of)
        server = await serve(app, "127.0.0.1", 0, limits=LIMITS, plain=plain)
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        try:
            cast(asyncio.ReadTransport, writer.transport).pause_reading()
            writer.write(sent)
            if says_no_more:
                await asyncio.wait_for(app.ended.wait(), SECONDS)
                writer.write_eof()
            await _await_none(server)
            await asyncio.wait_for(app.ended.wait(), SECONDS)
        finally:
            writer.transport.abort()
            await server.close(0.1)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
