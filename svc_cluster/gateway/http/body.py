"""A request's body as it arrives: what both protocols' bodies have in common is how much of it is
taken, and how long one waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from svc_cluster.gateway.http.message import (
    BODY_IDLE_SECONDS,
    BodyTimeoutError,
    BodyTooLargeError,
)

BODY_BYTES_PER_SECOND_MIN: Final = 1024
"""A body that is read as a whole arrives at least this fast, after the first BODY_IDLE_SECONDS."""


class StreamedBody:
    """Base of the adapters' bodies. Subclasses say how a piece is received."""

    __slots__ = ()

    def declared_bytes(self) -> int | None:
        """The length that the client has announced; None when it has not."""
        raise NotImplementedError

    def complete(self) -> bytes | None:
        """All that is left, when all of it has arrived; None while more is to come."""
        raise NotImplementedError

    async def receive(self) -> bytes:
        """The next piece; empty at the end. Raises BodyBrokenError, ClientGoneError."""
        raise NotImplementedError

    def pause(self) -> None:
        """Take nothing more from the client until the next `receive`, where that is possible."""

    def abandon(self) -> None:
        """The rest will not be read: the connection cannot carry another request behind it."""
        raise NotImplementedError

    async def read(self, limit_bytes: int) -> bytes:
        data = self.complete()
        if data is not None:
            if len(data) > limit_bytes:
                raise BodyTooLargeError
            return data
        declared = self.declared_bytes()
        if declared is not None and declared > limit_bytes:
            self.abandon()
            raise BodyTooLargeError
        loop = asyncio.get_running_loop()
        end_at = loop.time() + BODY_IDLE_SECONDS
        pieces: list[bytes] = []
        size = 0
        while True:
            slowest = end_at + size / BODY_BYTES_PER_SECOND_MIN
            piece = await self._receive_by(min(slowest, loop.time() + BODY_IDLE_SECONDS))
            if not piece:
                return b"".join(pieces)
            size += len(piece)
            if size > limit_bytes:
                self.abandon()
                raise BodyTooLargeError
            pieces.append(piece)

    async def chunks(self, idle_seconds: float | None = BODY_IDLE_SECONDS) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        while True:
            by = None if idle_seconds is None else loop.time() + idle_seconds
            piece = await self._receive_by(by)
            if not piece:
                return
            yield piece

    async def _receive_by(self, time: float | None) -> bytes:
        """`time` is on the loop's clock."""
        try:
            async with asyncio.timeout_at(time):
                return await self.receive()
        except TimeoutError:
            self.abandon()
            raise BodyTimeoutError from None
