"""How long the event loop is kept: by the clock on the wall, in processor time, and by whom.

A timer of the loop looks at the clocks every LOOK_SECONDS. uvloop runs timers first of all in a
turn of the loop, so that what its thread has used of the processor since the look before, less the
pause between the looks, was used by one turn: none is told as longer than it was. A task that the
timer wakes would come behind all that is ready, which is a turn more. What the collector of cyclic
garbage used is no part of it, and is told by itself. A thread that sleeps most of the time sees
where the loop is while a look is overdue, so that the longest turns can be told by name.

A process that has nothing to do would spend most of what it takes on these looks. So one whose loop
was idle for a moment looks seldom, until a look finds that it was used.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, Final

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.log import get_logger
from svc_cluster.base.metrics import Metrics
from svc_cluster.base.seldom import Seldom

LOOK_SECONDS: Final = 0.01
"""A look costs some 50 us of a slow machine's processor; twice as many were a twentieth of all that
one client's appends cost."""

CALM_SECONDS: Final = 0.1
"""From one look to the next while the loop has next to nothing to do."""

CALM_SHARE: Final = 0.05
"""A loop that takes less of a core has next to nothing to do."""

CALM_AFTER_SECONDS: Final = 0.25
"""For so long it must have taken less. A node with a thousand basins at rest goes over all of them
every few seconds: a longer time would have it look often for half of its life."""

TURN_SECONDS_MAX: Final = 0.02
"""Processor time that a turn may take; a longer one is told of."""

FRAMES_MAX: Final = 6
"""Innermost calls of a long turn that are told."""

Tell = Callable[[float, list[str]], None]
"""Is told of every turn: its processor time, and what it was seen doing, innermost call last."""

log = get_logger("loop")


class LoopTurns:
    """Watches the loop that it is made in, from `run` on."""

    def __init__(
        self, metrics: Metrics, *, look_seconds: float = LOOK_SECONDS, tell: Tell | None = None
    ) -> None:
        """A turn may be longer than is told by `look_seconds` at most, or by CALM_SECONDS where the
        loop was idle before it. Who is to be told of every turn has looks that are all alike."""
        self._metrics = metrics
        self._look_seconds = look_seconds
        self._pause_seconds = look_seconds
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._now = SystemClock().monotonic
        self._judged_at = self._now()
        self._used_since = 0.0
        """Processor time since the loop was last judged to be idle or not."""
        self._thread_id = threading.get_ident()
        self._due = float("inf")
        self._seen: list[str] = []
        self._ended = threading.Event()
        self._seldom = Seldom()
        self._longest = 0.0
        self._longest_seen: list[str] = []
        self._used = 0.0
        """What the thread had used when the pause began."""
        self._timer: asyncio.TimerHandle | None = None
        self._collecting_since = 0.0
        self._collecting_used = 0.0
        self._collected_used = 0.0
        """Processor time of all collections on the loop's thread so far."""

    async def run(self) -> None:
        """For ever."""
        watcher = threading.Thread(target=self._watch, name="loop turns", daemon=True)
        gc.callbacks.append(self._collected)
        watcher.start()
        try:
            self._pause(self._now(), self._used_by_now())
            await self._loop.create_future()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            gc.callbacks.remove(self._collected)
            self._ended.set()

    def _pause(self, now: float, used: float) -> None:
        self._used = used
        self._due = now + self._pause_seconds
        self._timer = self._loop.call_later(self._pause_seconds, self._look)

    def _used_by_now(self) -> float:
        """What the thread has used of the processor, without the collector."""
        return time.thread_time() - self._collected_used

    def _look(self) -> None:
        now, used_by_now = self._now(), self._used_by_now()
        late = max(now - self._due, 0.0)
        self._due = float("inf")
        used = used_by_now - self._used
        turn = max(used - self._pause_seconds, 0.0)
        self._metrics.event_loop_lag.observe(late)
        self._metrics.event_loop_turn.observe(turn)
        if turn > TURN_SECONDS_MAX:
            self._say(turn, late)
        if self._tell is not None:
            self._tell(turn, self._seen)
        self._seen = []
        self._choose_pause(now, used)
        self._pause(now, used_by_now)

    def _choose_pause(self, now: float, used: float) -> None:
        self._used_since += used
        if self._tell is not None or used > TURN_SECONDS_MAX / 2:
            self._pause_seconds = self._look_seconds
        elif now - self._judged_at < CALM_AFTER_SECONDS:
            return
        else:
            is_calm = self._used_since < CALM_SHARE * (now - self._judged_at)
            self._pause_seconds = CALM_SECONDS if is_calm else self._look_seconds
        self._judged_at, self._used_since = now, 0.0

    def _say(self, turn: float, late: float) -> None:
        """One line a minute, about the longest since the one before."""
        if turn >= self._longest:
            self._longest = turn
            self._longest_seen = self._seen
        count = self._seldom.note(self._loop.time())
        if count is not None:
            log.warning(
                "loop_turn_long",
                processor_ms=round(self._longest * 1000),
                late_ms=round(late * 1000),
                count=count,
                doing=self._longest_seen or ["it was over before it was seen"],
            )
            self._longest = 0.0

    def _watch(self) -> None:
        """On a thread of its own: where the loop is while it should be elsewhere."""
        while not self._ended.wait(self._until_overdue()):
            if self._now() - self._due < TURN_SECONDS_MAX / 2 or self._seen:
                continue
            frame = sys._current_frames().get(self._thread_id)
            if frame is not None:
                calls = traceback.extract_stack(frame, limit=FRAMES_MAX)
                self._seen = [
                    f"{call.name} {_short(call.filename)}:{call.lineno}" for call in calls
                ]

    def _until_overdue(self) -> float:
        """So long nothing is to be seen; where looks follow each other closely, so long as well."""
        if self._pause_seconds == self._look_seconds:
            return TURN_SECONDS_MAX / 2
        return min(max(self._due - self._now(), 0.0), CALM_SECONDS) + TURN_SECONDS_MAX / 2

    def _collected(self, phase: str, _info: dict[str, Any]) -> None:
        """The collector of cyclic garbage begins or ends, on whichever thread it came over."""
        if threading.get_ident() != self._thread_id:
            return
        if phase == "start":
            self._collecting_since = time.perf_counter()
            self._collecting_used = time.thread_time()
        else:
            self._collected_used += time.thread_time() - self._collecting_used
            pause = time.perf_counter() - self._collecting_since
            self._metrics.collector_pause.observe(pause)


def _short(path: str) -> str:
    """The last two parts of a file's name."""
    return "/".join(path.rsplit("/", 2)[-2:])
