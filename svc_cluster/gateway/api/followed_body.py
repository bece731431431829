"""The body of a streaming read: its pieces, and the way to the client for what is pushed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

from svc_cluster.http.message import PieceSink


@dataclass(frozen=True, slots=True)
class FollowedBody:
    """Implements `Attachable`. Closing it ends the pieces."""

    pieces: AsyncGenerator[bytes, None]
    attach: Callable[[PieceSink], None]

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        return self.pieces

    async def __anext__(self) -> bytes:
        return await anext(self.pieces)

    async def aclose(self) -> None:
        await self.pieces.aclose()
