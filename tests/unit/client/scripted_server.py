"""A server that answers requests as a test tells it to, and remembers them."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from svc_cluster.base.ids import TimestampMs
from svc_cluster.client.definite_append import RetryPatience
from svc_cluster.client.service_client import ServerAddress, ServiceClient


@dataclass(frozen=True)
class Asked:
    """A request as it came. `headers`: names in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes


Answer = tuple[int, bytes] | None
"""Status and body; None: the connection is closed without one."""


def against(
    answer: Callable[[Asked], Answer], use: Callable[[ServiceClient], Awaitable[None]]
) -> list[Asked]:
    """Run `use` with a client of a server that gives these answers; returns what was asked."""
    seen: list[Asked] = []

    conversations: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        conversations.append(task)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, *rest = head.decode("latin-1").rstrip("\r\n").split("\r\n")
                headers = dict(line.split(": ", 1) for line in rest)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                asked = Asked(first.removesuffix(" HTTP/1.1"), headers, body)
                seen.append(asked)
                told = answer(asked)
                if told is None:
                    break
                status, data = told
                writer.write(
                    b"HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n%b" % (status, len(data), data)
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            async with ServiceClient(ServerAddress(url=f"http://127.0.0.1:{port}")) as client:
                await use(client)
        finally:
            server.close()
            await asyncio.gather(*conversations, return_exceptions=True)

    asyncio.run(main())
    return seen


class WaitingClock:
    """Time that passes at once, and only where somebody waits."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def monotonic(self) -> float:
        return self._seconds

    def wall_ms(self) -> TimestampMs:
        raise AssertionError("nobody asks for the date")

    async def sleep(self, seconds: float) -> None:
        self._seconds += seconds
        await asyncio.sleep(0)


def patience(seconds: float = 60.0) -> RetryPatience:
    clock = WaitingClock()
    return RetryPatience(clock, random.Random(1), seconds, clock.sleep)
