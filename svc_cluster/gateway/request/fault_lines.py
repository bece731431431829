"""Log lines about faults of ours, each with a traceback: clients could cause any number of them."""

from __future__ import annotations

from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.log import Logger

FAULT_LINES_MAX: Final = 20
FAULT_SECONDS: Final = 60.0
"""In so long there are FAULT_LINES_MAX lines at most, of all events together."""


class FaultLines:
    """These are the lines of one process. The first of the next FAULT_SECONDS says how many were
    left out before it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left_out = 0
        self._lines = 0
        self._next: float | None = None
        """When the count of lines begins anew."""

    def tell(self, log: Logger, event: str, failure: Exception, **fields: object) -> None:
        """Write the line for `failure`, with what the caller says of it, or count it."""
        now = self._clock.monotonic()
        if self._next is None or now >= self._next:
            self._next = now + FAULT_SECONDS
            self._lines = 0
        if self._lines >= FAULT_LINES_MAX:
            self._left_out += 1
            return
        self._lines += 1
        if self._left_out:
            fields["left_out"], self._left_out = self._left_out, 0
        log.error(event, exc_info=failure, **fields)
