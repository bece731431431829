"""The audit trail: who changed what of the control plane, when, and what came of it.

An event is written before its request is answered. While an event waits to be written, because the
place it goes to is full or gone, nothing else is begun that would be an event (`check`): what has
happened is at most as far ahead of the trail as requests were under way when it broke. Secrets,
keys and bodies are in no event; what looks like a secret all the same is taken out at the sink.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, Protocol

from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.log import get_logger, redacted

RECENT_MAX: Final = 500
"""Events that are kept in memory after they were written, to be looked at."""
REFUSALS_WAITING_MAX: Final = 1_000
"""Events of requests without effect that are kept while nothing can be written."""

Event = Mapping[str, object]
"""JSON values by name; None stands for what is not there."""

log = get_logger("audit")


class AuditSink(Protocol):
    """Where events go, one line each."""

    def write(self, event: Event) -> None:
        """Raises OSError; then nothing of the event counts as written."""
        ...

    def reopen(self) -> None:
        """Go on in a new file where there is one. Raises OSError; then the old one stays."""
        ...

    def close(self) -> None: ...


class LogSink:
    """Events as lines of the process's log."""

    def write(self, event: Event) -> None:
        log.info("control_plane_write", **event)

    def reopen(self) -> None: ...

    def close(self) -> None: ...


class AuditTrail:
    """Events in order, none lost while the process lives but refusals beyond a bound, which are
    counted."""

    def __init__(self, sink: AuditSink, on_failure: Callable[[], None] = lambda: None) -> None:
        """`on_failure` is called for each attempt to write that failed."""
        self._sink = sink
        self._on_failure = on_failure
        self._waiting: deque[Event] = deque()
        self._recent: deque[Event] = deque(maxlen=RECENT_MAX)
        self._is_broken = False
        self._lost = 0

    @property
    def waiting(self) -> int:
        """Events that could not be written yet."""
        return len(self._waiting)

    @property
    def kept(self) -> int:
        """Events in memory, written ones and those that wait."""
        return len(self._waiting) + len(self._recent)

    def recent(self, count: int) -> list[Event]:
        """The last events that were written, at most so many, the newest first."""
        return list(islice(reversed(self._recent), count))

    def record(self, event: Event, *, is_refusal: bool) -> None:
        """Write the event, or keep it until that can be done. `is_refusal`: it had no effect."""
        if is_refusal and len(self._waiting) >= REFUSALS_WAITING_MAX:
            self._lost += 1
            return
        self._waiting.append(event)
        self._write()

    def check(self) -> None:
        """Raises UnavailableError while events wait to be written. Tries once more before that."""
        if self._waiting and not self._write():
            raise UnavailableError("the audit log cannot be written; nothing was done")

    def reopen(self) -> None:
        """After the file was moved away: go on in a new one."""
        try:
            self._sink.reopen()
        except OSError as cause:
            log.error("audit_log_not_reopened", reason=cause.strerror)
            return
        self._write()

    def close(self) -> None:
        """The last event has been told."""
        self._sink.close()

    def _write(self) -> bool:
        try:
            while self._waiting:
                self._sink.write(self._waiting[0])
                self._recent.append(_told(self._waiting.popleft()))
            if self._lost:
                self._sink.write({"operation": "refusals-not-recorded", "count": self._lost})
                self._lost = 0
        except OSError as cause:
            self._on_failure()
            if not self._is_broken:
                log.error("audit_log_unwritable", reason=cause.strerror)
            self._is_broken = True
            return False
        if self._is_broken:
            log.info("audit_log_written_again")
        self._is_broken = False
        return True


def _told(event: Event) -> Event:
    """The event as the sinks have it: without what looks like a secret."""
    told: Event = json.loads(redacted(json.dumps(dict(event))))
    return told
