"""Log lines about faults of ours, each with a traceback: clients could cause any number of them."""

from __future__ import annotations

from collections import deque
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.log import Logger

FAULT_LINES_MAX: Final = 20
FAULT_SECONDS: Final = 60.0
"""In any time so long there are FAULT_LINES_MAX lines of one event at most."""


class FaultLines:
    """These are the lines of whoever holds it, counted for each event by itself, of which its
    callers have a few. That lines are left out is said when it begins, and how many there were in
    the next line of the event."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: dict[str, deque[float]] = {}
        """When the latest lines of an event were written."""
        self._left_out: dict[str, int] = {}

    def tell(self, log: Logger, event: str, failure: Exception, **fields: object) -> None:
        """Write the line for `failure`, with what the caller says of it, or count it."""
        now = self._clock.monotonic()
        told = self._told.setdefault(event, deque(maxlen=FAULT_LINES_MAX))
        if len(told) == FAULT_LINES_MAX and now < told[0] + FAULT_SECONDS:
            if event not in self._left_out:
                log.warning("faults_left_out", of=event, seconds=FAULT_SECONDS)
            self._left_out[event] = self._left_out.get(event, 0) + 1
            return
        told.append(now)
        if event in self._left_out:
            fields["left_out"] = self._left_out.pop(event)
        log.error(event, exc_info=failure, **fields)
