"""HTTP as bytes that are made once and said on many connections: what an attacker would do who
wants much for little."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import Sequence
from typing import Final, Self

import hpack

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)

Headers = Sequence[tuple[str, str]]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def block(headers: Headers) -> bytes:
    """A block of headers that leaves nothing in the table, so that it can be said again."""
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    return encoder.encode(headers)


def hello() -> bytes:
    return PREFACE + frame(SETTINGS, 0, 0)


def request(stream: int, encoded: bytes, *, ends: bool = True) -> bytes:
    return frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, encoded)


def head(method: str, path: str, authority: str, token: str, *more: tuple[str, str]) -> Headers:
    return [
        (":method", method),
        (":scheme", "http"),
        (":authority", authority),
        (":path", path),
        ("authorization", f"Bearer {token}"),
        *more,
    ]


class Line:
    """One connection that says bytes and takes, or does not take, what comes."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def call(cls, port: int) -> Self:
        """Raises OSError."""
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        except BaseException:
            connection.close()
            raise
        return cls(connection)

    async def say(self, data: bytes) -> str:
        """`said`, or `ended` where the other side is gone."""
        try:
            await self._loop.sock_sendall(self.socket, data)
        except OSError:
            return "ended"
        return "said"

    async def ended(self) -> None:
        """Take what comes until the other side ends it."""
        with contextlib.suppress(OSError):
            while await self._loop.sock_recv(self.socket, 256 * 1024):
                pass

    def vanish(self) -> None:
        """Close it with a reset, whatever is under way."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
        self.socket.close()

    def close(self) -> None:
        self.socket.close()


async def at_once(count: int, port: int, words: bytes, *, workers: int = 64) -> list[Line]:
    """So many connections that have said this; fewer where the other side takes no more."""
    lines: list[Line] = []
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            try:
                line = await Line.call(port)
            except OSError:
                continue
            if await line.say(words) == "said":
                lines.append(line)
            else:
                line.close()

    await asyncio.gather(*(work() for _ in range(workers)))
    return lines


async def state_of(lines: Sequence[Line]) -> Counter[str]:
    """Which are still open, without waiting; what has come meanwhile is taken."""
    found: Counter[str] = Counter()
    for line in lines:
        try:
            while True:
                if not line.socket.recv(256 * 1024):
                    found["ended"] += 1
                    break
        except BlockingIOError:
            found["open"] += 1
        except OSError:
            found["ended"] += 1
    return found
