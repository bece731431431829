"""A node's clocks in the simulator: virtual time that drifts, and a wall clock that can jump."""

from __future__ import annotations

import asyncio
from typing import Final

from svc_cluster.base.ids import TimestampMs

WALL_START_MS: Final = 1_700_000_000_000
DRIFT_MAX: Final = 200e-6
"""A bad quartz: 200 parts per million."""

LOOK_S: Final = 1e-9
"""What passes from one look at a clock to the next within a turn of the event loop, in which the
time of the loop itself stands still: who kept a reading has an old one."""


class SimClock:
    """Implements `base.clock.Clock`. One per node; it outlives the node's crashes."""

    __slots__ = ("_look_s", "_looks", "_loop", "_offset_s", "_rate", "_start", "_wall_offset_ms")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        drift: float = 0.0,
        offset_s: float = 0.0,
        wall_offset_ms: int = 0,
        look_s: float = 0.0,
    ) -> None:
        """`drift` is a fraction (1e-4 gains 0.1 ms a second); `offset_s` shifts the monotonic
        clock, as on machines that were booted at different times. `look_s`: see LOOK_S."""
        assert abs(drift) < 0.5, "a drift is a fraction, not a rate"
        self._loop = loop
        self._start = loop.time()
        self._rate = 1.0 + drift
        self._offset_s = offset_s
        self._wall_offset_ms = wall_offset_ms
        self._look_s = look_s
        self._looks = 0

    def monotonic(self) -> float:
        self._looks += 1
        return self._offset_s + self._elapsed() + self._looks * self._look_s

    def wall_ms(self) -> TimestampMs:
        return TimestampMs(WALL_START_MS + self._wall_offset_ms + int(self._elapsed() * 1_000))

    def step_wall(self, by_ms: int) -> None:
        """The wall clock jumps, either way; the monotonic one does not notice."""
        self._wall_offset_ms += by_ms

    def _elapsed(self) -> float:
        return (self._loop.time() - self._start) * self._rate
