"""Time as a constructor argument, so that a simulated cluster lives in virtual time."""

from __future__ import annotations

import time
from typing import Protocol

from svc_cluster.base.ids import TimestampMs


class Clock(Protocol):
    """Two readings of time; neither may be taken anywhere else in the tree."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back. For deadlines and intervals."""
        ...

    def wall_ms(self) -> TimestampMs:
        """Unix milliseconds; may jump either way. For record timestamps and retention only."""
        ...


class SystemClock:
    """The machine's clocks."""

    monotonic = staticmethod(time.monotonic)
    """An append reads it dozens of times: the function itself, without a call around it."""

    def wall_ms(self) -> TimestampMs:
        return TimestampMs(time.time_ns() // 1_000_000)
