"""Log lines about what may come very often: one of them, and how many it stands for."""

from __future__ import annotations

from typing import Final

LINE_SECONDS: Final = 60.0


class Seldom:
    """Counts what happens, and says at most once in LINE_SECONDS that it is time for a line."""

    def __init__(self) -> None:
        self.total = 0
        self._told = 0
        self._next: float | None = None

    def note(self, now: float, count: int = 1) -> int | None:
        """It happened, `count` times, at `now` (monotonic seconds). Returns how often it did since
        the last line when one is due, otherwise None."""
        self.total += count
        if self._next is not None and now < self._next:
            return None
        self._next = now + LINE_SECONDS
        since, self._told = self.total - self._told, self.total
        return since
