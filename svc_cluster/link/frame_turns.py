"""How many frames of several conversations are dealt with in one turn of the event loop."""

from __future__ import annotations

import asyncio
from typing import Final

from svc_cluster.base.turn_line import TurnLine

TURN_FRAMES_MAX: Final = 128
"""Frames that are dealt with before others have the event loop: one read from a socket may bring
ten thousand. The dearest, a request that is refused, takes some 50 us. Each counts for one, and for
one more for each FRAME_BYTES of it."""

FRAME_BYTES: Final = 16 * 1024

SHARE_FRAMES: Final = 16
"""What one conversation has of a turn while others wait for theirs."""


class FrameTurns(TurnLine):
    """The one of all conversations that a process accepts, or that it begins."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, TURN_FRAMES_MAX, FRAME_BYTES)

    @property
    def share(self) -> int:
        """What a conversation may take that has its turn now: it deals with one frame at least."""
        return SHARE_FRAMES if self.is_awaited else TURN_FRAMES_MAX
