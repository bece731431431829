"""How much work of a kind is done in one turn of the event loop, and who waits for the next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class TurnLine:
    """Workers take units of the turn until there are none; then they wait in one line. A piece of
    work costs one unit, and one more for each `unit_bytes` of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, units: int, unit_bytes: int) -> None:
        self._loop = loop
        self._units = self._left = units
        self._unit_bytes = unit_bytes
        self._is_asked = False
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def has_room(self) -> bool:
        """Whether one more piece is dealt with in this turn."""
        return self._left > 0

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for a turn."""
        return bool(self._waiting)

    def take(self, size: int) -> int:
        """A piece of so many bytes is dealt with. Returns the units that it costs."""
        cost = 1 + size // self._unit_bytes
        self._left -= cost
        if not self._is_asked:  # looked at here too: nearly every piece finds it asked
            self._ask()
        return cost

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` when there is room again. A worker waits once at a time."""
        self._waiting.append(go_on)
        self._ask()

    def _ask(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_asked = False
        self._left = self._units
        try:
            while self._waiting and self._left > 0:
                self._waiting.popleft()()
        finally:
            if self._waiting:
                self._ask()
