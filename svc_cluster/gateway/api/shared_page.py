"""A page that changes all the time, and that anybody may ask for as often as they like.

It is made for all together who have asked before its making begins, in each coding once; whoever
comes later waits for the next. So nobody is told what was before they asked, and however many ask,
one page is being made. Pages that were made may be held by clients that do not read them: beyond
ANEW_BURST at once a few a second are made, and who asks in between gets what the last making came
to, its failure too. A making that has begun goes on to its end, whoever of those who wait leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec.compression import compress_steps
from svc_cluster.gateway.api.turns import Turns

ANEW_PER_SECOND: Final = 4.0
ANEW_BURST: Final = 200.0
"""Pages that are made as fast as they are asked for."""


class SharedPage:
    """This is one such page; `close` it."""

    def __init__(self, clock: Clock, turns: Turns) -> None:
        self._clock = clock
        self._turns = turns
        self._line = asyncio.Lock()
        self._begun = 0
        self._making: asyncio.Task[bytes] | None = None
        """The making that was begun last."""
        self._tasks = Tasks()
        """What is being made: nobody who asks has it for their own."""
        self._coded: dict[str, bytes] = {}
        """The page in the codings that somebody asked for."""
        self._left = ANEW_BURST
        self._left_at = clock.monotonic()

    async def get(self, make: Callable[[], Awaitable[bytes]], coding: str | None) -> bytes:
        """Return the page as of now, in the coding or as it is. Raises what `make` raises."""
        wanted = self._begun + 1
        async with self._line:
            if self._making is not None:
                await asyncio.wait({self._making})  # whoever began it may have left
            if self._making is None or (self._begun < wanted and self._may_begin()):
                self._begun += 1
                self._coded = {}
                self._making = self._tasks.spawn_one(_made(make), "make a shared page")
                await asyncio.wait({self._making})
            page = self._making.result()
            if coding is None:
                return page
            if coding not in self._coded:
                steps = compress_steps(coding, page)
                self._coded[coding] = await self._turns.run(steps, len(page))
            return self._coded[coding]

    async def close(self) -> None:
        """End what is being made."""
        await self._tasks.cancel_all()

    def _may_begin(self) -> bool:
        now = self._clock.monotonic()
        self._left = min(ANEW_BURST, self._left + (now - self._left_at) * ANEW_PER_SECOND)
        self._left_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


async def _made(make: Callable[[], Awaitable[bytes]]) -> bytes:
    return await make()
