"""Parts of what a process keeps in memory on behalf of others, each counted within its share.

What is new takes room and is refused, without effect, where there is none; or it waits for room in
the order of asking. The share of one part is never another's, so that no part can be kept waiting
by what fills another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from svc_cluster.base.errors import UnavailableError

MIB: Final = 1024 * 1024

WAITING_MAX: Final = 16_384
"""How many may wait for room in one part; more are refused at once."""


class MemoryPart:
    """One part, counted as it comes and goes."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held = 0
        """Bytes."""

        self.refused = 0
        """How often there was no room."""

        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        """How many wait for room."""
        return len(self._waiting)

    def fits(self, size: int) -> bool:
        """What is larger than the share has it for itself."""
        return not self.held or self.held + size <= self.bytes_max

    def try_take(self, size: int) -> bool:
        """Whether there was room, which is taken then. Who waits for room comes first."""
        if self._waiting or not self.fits(size):
            return False
        self.held += size
        return True

    def take(self, size: int) -> None:
        """Raises UnavailableError, without effect, where there is no room."""
        if not self.try_take(size):
            raise self._refusal()

    async def wait(self, size: int, seconds: float | None = None) -> None:
        """Take room as soon as there is some. Raises UnavailableError when that takes longer than
        `seconds` (None: any time), or too many wait; nothing is taken then."""
        if self.try_take(size):
            return
        if len(self._waiting) >= WAITING_MAX:
            raise self._refusal()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (size, turn)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException as cause:
            if entry in self._waiting:
                self._waiting.remove(entry)
                self._let_in()  # it may have stood before smaller ones
            elif not turn.cancelled():
                self.give_back(size)
            if isinstance(cause, TimeoutError):
                raise self._refusal() from None
            raise

    def hold(self, size: int) -> None:
        """What is there already, whether there is room or not."""
        self.held += size

    def give_back(self, size: int) -> None:
        self.held -= size
        assert self.held >= 0, "more was given back than taken"
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self.fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self.held += size
                turn.set_result(None)

    def _refusal(self) -> UnavailableError:
        self.refused += 1
        return UnavailableError("the process holds as much of this kind in memory as it may")


class Holder:
    """What one holds of a part, as it changes."""

    __slots__ = ("_part", "size")

    def __init__(self, part: MemoryPart) -> None:
        self._part = part
        self.size = 0
        """Bytes."""

    def try_take(self, size: int) -> bool:
        """Does what `MemoryPart.try_take` does, beside nothing."""
        assert not self.size, "what was held is given back"
        if not self._part.try_take(size):
            return False
        self.size = size
        return True

    async def wait(self, size: int, seconds: float) -> None:
        """Does what `MemoryPart.wait` does, beside nothing."""
        assert not self.size, "what was held is given back"
        await self._part.wait(size, seconds)
        self.size = size

    def becomes(self, size: int) -> None:
        """It turned out to be so much; 0: it is over."""
        before, self.size = self.size, size
        if size > before:
            self._part.hold(size - before)
        elif size < before:
            self._part.give_back(before - size)
