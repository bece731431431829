"""How often something happens: a mean over the last minutes, held in three numbers."""

from __future__ import annotations

from math import exp
from typing import Final

MEAN_SECONDS: Final = 300.0
"""What happened so long ago counts for a third of what happens now."""

WINDOW_SECONDS_MIN: Final = 1.0
"""The first events of a count do not pass for a rate. It is short: a count that is begun anew must
not look like rest to those who look a moment later."""


class MeanRate:
    """A count whose past fades. It is unbiased from the start: what it has seen is divided by the
    time for which it has looked, faded alike."""

    __slots__ = ("_at", "_count", "_since")

    def __init__(self, now: float) -> None:
        """`now`, here and below: monotonic seconds, which do not go back."""
        self._since = self._at = now
        self._count = 0.0

    def note(self, now: float, count: int) -> None:
        """It happened `count` times, just now."""
        self._count = self._faded(now) + count
        self._at = now

    def per_second(self, now: float) -> float:
        """The mean, 0 where nothing has happened for long."""
        window = MEAN_SECONDS * (1.0 - exp((self._since - now) / MEAN_SECONDS))
        return self._faded(now) / max(window, WINDOW_SECONDS_MIN)

    def _faded(self, now: float) -> float:
        return self._count * exp((self._at - now) / MEAN_SECONDS)
