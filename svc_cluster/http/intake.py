"""How much is taken in for a connection before anybody reads it.

A connection begins with little: many that send slowly, to a gateway that is busy, would otherwise
each have their backlog read at one stroke. One that sends fast gets more, in the kernel and in
HTTP/2's window; so many at a time do.

What comes over HTTP/1.1 before its turn is counted on all connections together, and what finds no
room is not kept.

What has arrived over HTTP/2 of bodies that are not read on, because they wait for room, is counted.
As long as all of it is within a bound the window of its connection is opened again for others;
beyond that only once it is read. So the gateway holds this bound at most, and the windows of the
connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final

from prometheus_client import Gauge

RECEIVE_BYTES_FIRST: Final = 16 * 1024
"""The kernel's buffer is about twice that."""
RECEIVE_BYTES_FAST: Final = 512 * 1024
FAST_MAX: Final = 256
"""Connections with a large buffer at one time."""
UNREAD_BYTES_MAX: Final = 16 * 1024 * 1024
AHEAD_BYTES_MAX: Final = 4 * 1024 * 1024
"""What has come over HTTP/1.1 before its turn, on all connections together: behind requests that
are being answered, and of bodies that are not whole."""
UNREAD_SHARE: Final = 8
"""Beside the budget of all bodies, one part in so many of it may be unread."""
_FAST_BYTES: Final = 128 * 1024
_FAST_SECONDS: Final = 1.0
"""So much in so long makes a connection a fast one."""


def begin_small(listening: socket.socket) -> None:
    """For a socket that does not listen yet: its connections inherit it."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES_FIRST)


def keep_alive_probes(transport: asyncio.BaseTransport) -> None:
    """Let the kernel find out that the other end is gone without a word."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):  # it is closing
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


class Intakes:
    """The Intakes know of all connections of one gateway which are fast, and how much is not read
    yet."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        unread_bytes_max: int = UNREAD_BYTES_MAX,
        gauge: Gauge | None = None,
    ) -> None:
        """`unread_bytes_max`: of bodies over HTTP/2, beside the windows of their connections.
        `gauge` shows what is unread, and what was sent ahead."""
        self.loop = loop
        self.fast = 0
        self.ahead = 0
        """What is there before its turn over HTTP/1.1, in bytes; at most the bound."""
        self._unread = 0
        self._unread_max = unread_bytes_max
        self._gauge = gauge

    def arrived(self, size: int) -> bool:
        """So much more is unread. Whether others may send as much meanwhile."""
        self._count(size)
        return self._unread <= self._unread_max

    def taken(self, size: int) -> None:
        """It was read, or dropped."""
        self._count(-size)
        assert self._unread >= 0, "what is taken has arrived"

    def sent_ahead(self, size: int) -> bool:
        """So much more, or less, has come before its turn. Returns whether there is room; where
        there is none it is not counted."""
        if size > 0 and self.ahead + size > AHEAD_BYTES_MAX:
            return False
        self.ahead += size
        assert self.ahead >= 0, "what goes has come"
        self._count(0)
        return True

    def _count(self, size: int) -> None:
        self._unread += size
        if self._gauge is not None:
            self._gauge.set(self._unread + self.ahead)


class Ahead:
    """This is what one connection has sent before its turn."""

    __slots__ = ("_intakes", "bytes")

    def __init__(self, intakes: Intakes) -> None:
        self._intakes = intakes
        self.bytes = 0

    def hold(self, size: int) -> bool:
        """So much is there now, in all. Returns whether there is room; without it nothing has
        changed."""
        more = size - self.bytes
        if more and not self._intakes.sent_ahead(more):
            return False
        self.bytes = size
        return True

    def release(self) -> None:
        """Its turn has come, or nobody keeps it."""
        self.hold(0)


class Intake:
    """This is the intake of one connection."""

    __slots__ = ("_begun", "_intakes", "_is_fast", "_received", "_transport")

    def __init__(self, intakes: Intakes, transport: asyncio.BaseTransport) -> None:
        self._intakes = intakes
        self._transport = transport
        self._is_fast = False
        self._received = 0
        self._begun = intakes.loop.time()

    @property
    def is_fast(self) -> bool:
        return self._is_fast

    def received(self, size: int) -> None:
        """So many bytes have been read."""
        if self._is_fast:
            return
        self._received += size
        if self._received < _FAST_BYTES:
            return
        now = self._intakes.loop.time()
        if now - self._begun <= _FAST_SECONDS and self._intakes.fast < FAST_MAX:
            self._enlarge()
        self._received = 0
        self._begun = now

    def _enlarge(self) -> None:
        sock = self._transport.get_extra_info("socket")
        if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
            return
        with contextlib.suppress(OSError):  # it is closing
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES_FAST)
            self._is_fast = True
            self._intakes.fast += 1

    def close(self) -> None:
        """The connection has ended, or is another's, which begins with little again."""
        if not self._is_fast:
            return
        self._is_fast = False
        self._intakes.fast -= 1
        if not self._transport.is_closing():
            sock = self._transport.get_extra_info("socket")
            with contextlib.suppress(OSError):  # it is closing nevertheless
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES_FIRST)
