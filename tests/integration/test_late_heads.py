"""The head of a next request that does not arrive, while the answer before it is being sent.

Over a real socket, in HTTP/1.1.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.base.errors import ServiceError
from svc_cluster.http.message import Request, Response
from svc_cluster.http.server import serve

SECONDS = 30.0
ASKED = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Endless:
    """It answers with a body that goes on for ever."""

    clock: Clock = SystemClock()

    async def handle(self, request: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            yield b"the first piece"
            await asyncio.Event().wait()

        return Response(200, [("content-type", "text/plain")], body())

    def refuse(self, error: ServiceError) -> Response:
        return Response(408, [("content-type", "text/plain")], b"refused")


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "library"])
def test_no_refusal_stands_in_the_middle_of_an_answer(plain: bool) -> None:
    """The connection ends instead: a client would take the refusal for a piece of the body."""

    async def heard() -> bytes:
        server = await serve(Endless(), "127.0.0.1", 0, header_seconds=0.2, plain=plain)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            writer.write(ASKED)
            got = await reader.readuntil(b"the first piece\r\n")
            writer.write(b"GET /next HTTP/1.1\r\nho")
            async with asyncio.timeout(SECONDS):
                return got + await reader.read()
        finally:
            writer.transport.abort()
            await server.close(0)

    got = asyncio.run(heard())
    assert (got.count(b"HTTP/1.1 "), got.endswith(b"the first piece\r\n")) == (1, True), got
