"""When requests are due: in an open loop at moments that no answer moves.

A generator that waits for an answer before it sends the next request asks least when the service is
slowest, and what would have been sent meanwhile is in no percentile. Here a moment that has come
stays due until a connection is free, and the latency counts from it.
"""

from __future__ import annotations

import asyncio
import heapq
import signal
from collections.abc import Iterator
from typing import Final

from svc_cluster.base.clock import Clock

_ARM_S_MIN: Final = 1e-6
"""An interval timer of nothing is none."""


class OpenLoop:
    """The moments of one part's share are evenly `1 / rate` seconds apart, from `begin` to `end`.
    `phase`, from 0 to below 1, shifts them by that part of an interval."""

    def __init__(self, begin: float, end: float, rate: float, phase: float = 0.0) -> None:
        assert rate > 0, "a rate is positive"
        self._begin, self._end, self._rate, self._phase = begin, end, rate, phase
        self._taken = 0

    def take(self) -> float | None:
        """The next moment, which is then taken; None behind the last one."""
        due = self._begin + (self._taken + self._phase) / self._rate
        if due >= self._end:
            return None
        self._taken += 1
        return due

    def rest(self) -> Iterator[float]:
        """Every moment that nobody has taken; they are taken then."""
        while (due := self.take()) is not None:
            yield due


class FineTimer:
    """Waits for moments with the kernel's interval timer, to some microseconds. An event loop's own
    timers are right to a millisecond, which is more than some answers take.

    One of a process, in its main thread.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = 0

    def __enter__(self) -> FineTimer:
        asyncio.get_running_loop().add_signal_handler(signal.SIGALRM, self._ring)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        asyncio.get_running_loop().remove_signal_handler(signal.SIGALRM)

    async def until(self, moment: float) -> None:
        """Return at `moment`, at once where it has been."""
        if self._clock.monotonic() >= moment:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._number += 1
        heapq.heappush(self._waiting, (moment, self._number, future))
        if self._waiting[0][2] is future:
            self._arm(moment)
        await future

    def _ring(self) -> None:
        now = self._clock.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)
        if self._waiting:
            self._arm(self._waiting[0][0])

    def _arm(self, moment: float) -> None:
        wait = max(_ARM_S_MIN, moment - self._clock.monotonic())
        signal.setitimer(signal.ITIMER_REAL, wait)
