"""This is a request's body as it arrives. Both protocols' bodies have in common how long one waits
for a piece of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from svc_cluster.http.message import BODY_IDLE_SECONDS, BodyTimeoutError


class StreamedBody:
    """Base of the adapters' bodies. Subclasses say how a piece is received."""

    __slots__ = ()

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
