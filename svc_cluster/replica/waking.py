"""Those who wait for the same thing are woken a few at a time.

Thousands of reads may wait for one round of messages, or for one entry. Whoever is woken goes on in
the next turn of the event loop: all of them would make one turn of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

AT_ONCE: Final = 64
"""Woken in one turn of the loop."""

T = TypeVar("T")


class Waking(Generic[T]):
    """The line of those who are woken, in the order in which they came. All of a node share one;
    it is as long as there are requests in progress, of which the number is bounded."""

    def __init__(self, loop: asyncio.AbstractEventLoop, at_once: int = AT_ONCE) -> None:
        assert at_once > 0, "somebody has to be woken"
        self._loop = loop
        self._at_once = at_once
        self._left = at_once
        """How many may still be woken in this turn."""
        self._is_scheduled = False
        self._line: deque[tuple[Callable[[T], None], T]] = deque()

    def __len__(self) -> int:
        """How many wait for their turn."""
        return len(self._line)

    def wake(self, done: Callable[[T], None], outcome: T) -> None:
        """Call `done(outcome)`: at once where this turn has room for it, else in one of the next.
        `done` raises nothing."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._next_turn)
        if self._left > 0:
            self._left -= 1
            done(outcome)
        else:
            self._line.append((done, outcome))

    def _next_turn(self) -> None:
        self._left = self._at_once
        self._is_scheduled = bool(self._line)
        if self._is_scheduled:
            self._loop.call_soon(self._next_turn)
        while self._line and self._left > 0:
            self._left -= 1
            done, outcome = self._line.popleft()
            done(outcome)
