"""How much the kernel takes in for a connection before it is read.

A connection begins with little: many that send slowly, to a gateway that is busy, would otherwise
each have their backlog read at one stroke, and that is memory which nobody has counted. One that
sends fast gets more; so many at a time do.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final

RECEIVE_BYTES_FIRST: Final = 16 * 1024
"""The kernel's buffer is about twice that."""
RECEIVE_BYTES_FAST: Final = 512 * 1024
FAST_MAX: Final = 256
"""Connections with a large buffer at one time."""
_FAST_BYTES: Final = 128 * 1024
_FAST_SECONDS: Final = 1.0
"""So much in so long makes a connection a fast one."""


def begin_small(listening: socket.socket) -> None:
    """For a socket that does not listen yet: its connections inherit it."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES_FIRST)


class Intakes:
    """Of all connections of one gateway: which have a large buffer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.fast = 0


class Intake:
    """Of one connection."""

    __slots__ = ("_begun", "_intakes", "_is_fast", "_received", "_transport")

    def __init__(self, intakes: Intakes, transport: asyncio.BaseTransport) -> None:
        self._intakes = intakes
        self._transport = transport
        self._is_fast = False
        self._received = 0
        self._begun = intakes.loop.time()

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
        if self._is_fast:
            self._is_fast = False
            self._intakes.fast -= 1
