"""What this gateway counts of the use that is made of it, until it has told the cluster.

One operation of appending is a minute of appends of one connection to one stream: the first batch
of each carries it to the log, which counts it (`append_units`). Everything else is kept here by
minute and reported (usage_reporter.py): a gateway that is killed loses what it had not reported.
Pure but for the clock it is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.gateway.request.endpoint import Endpoint, Moves
from svc_cluster.gateway.request.request_head import RequestHead
from svc_cluster.http.message import Response
from svc_cluster.model.access import Op
from svc_cluster.model.usage import MINUTE_MS, REPORT_MINUTES_MAX, Counts, UsageReport

Place = str | None
"""A basin's name, or None: the account."""

PLACES_MAX: Final = 10_000
"""Basins that something is to be reported to; beyond that the one that waits longest loses it."""

ROW_BYTES: Final = 512
"""About what the counts of one minute take, or a connection that appends."""

APPENDING_MAX: Final = 100_000
"""Connections that append to a stream in one minute; beyond that the earliest is forgotten, and
counted once more if it goes on."""

_CREATED: Final = 201


@dataclass(slots=True)
class _Sent:
    """A report that is under way, or was and has no certain outcome."""

    report: UsageReport
    since: float
    """Monotonic seconds of the first attempt."""


class UsageLedger:
    """Counts by place and minute. `reporter` is random, of this process alone."""

    def __init__(self, clock: Clock, reporter: bytes) -> None:
        self._clock = clock
        self._reporter = reporter
        self._sequence = 0
        self._pending: dict[Place, dict[int, Counts]] = {}
        self._sent: dict[Place, _Sent] = {}
        self._appending: dict[tuple[object, str, str], None] = {}
        self._appending_minute = 0
        self.dropped = 0
        """Reports that were given up, with what they had counted."""

    # -- counting

    def append_units(self, connection: object, basin: str, stream: str) -> int:
        """1 for the first batch of the connection to the stream in this minute, else 0."""
        minute = self._minute()
        if minute != self._appending_minute:
            self._appending_minute = minute
            self._appending.clear()
        key = (connection, basin, stream)
        if key in self._appending:
            return 0
        if len(self._appending) >= APPENDING_MAX:
            del self._appending[next(iter(self._appending))]
        self._appending[key] = None
        return 1

    def units_unused(self, connection: object, basin: str, stream: str) -> None:
        """The batch that carried the unit was certainly not appended: another is to carry it."""
        self._appending.pop((connection, basin, stream), None)

    def unary_read(self, basin: str) -> None:
        self._counts(basin).read_ops_unary += 1

    def streaming_read(self, basin: str, minutes: int = 1) -> None:
        """`minutes`: that were begun."""
        self._counts(basin).read_ops_streaming += minutes

    def read_bytes(self, basin: str, metered_bytes: int) -> None:
        self._counts(basin).read_bytes += metered_bytes

    def served(self, endpoint: Endpoint, head: RequestHead, response: Response) -> None:
        """Count a request by its operation, unless it was refused. Appends and streaming reads are
        counted where they happen."""
        if response.status >= 400:
            return
        if endpoint.moves is Moves.READ:
            if isinstance(response.body, bytes):
                self.unary_read(head.basin)
            return
        counted = endpoint.counted
        if counted is None:
            return
        op = counted.op
        if counted.creating is not None and response.status == _CREATED:
            op = counted.creating
        self._op(head.basin if counted.in_basin else None, op)

    def _op(self, place: Place, op: Op) -> None:
        ops = self._counts(place).ops
        ops[op.value] = ops.get(op.value, 0) + 1

    def _counts(self, place: Place) -> Counts:
        minutes = self._pending.get(place)
        if minutes is None:
            if len(self._pending) >= PLACES_MAX:
                del self._pending[next(iter(self._pending))]
                self.dropped += 1
            minutes = self._pending[place] = {}
        minute = self._minute()
        counts = minutes.get(minute)
        if counts is None:
            if len(minutes) >= REPORT_MINUTES_MAX:  # no report tells more of them apart
                oldest = minutes.pop(min(minutes))
                minutes[min(minutes)].add(oldest)
            counts = minutes[minute] = Counts(ops={})
        return counts

    @property
    def held_bytes(self) -> int:
        """About how much all counts take."""
        rows = sum(len(minutes) for minutes in self._pending.values())
        rows += sum(len(sent.report.minutes) for sent in self._sent.values())
        return ROW_BYTES * (rows + len(self._appending))

    def _minute(self) -> int:
        return self._clock.wall_ms() // MINUTE_MS

    # -- reporting. For one caller a place at a time.

    def due(self) -> list[Place]:
        """Where there is something to be told."""
        return list(dict.fromkeys([*self._sent, *self._pending]))

    def is_due(self, place: Place) -> bool:
        return place in self._sent or place in self._pending

    def next_report(self, place: Place) -> UsageReport | None:
        """Return the report to be sent now. It is again the last one, as long as nobody has said
        that it was taken; else one of all that was counted since."""
        sent = self._sent.get(place)
        if sent is not None:
            return sent.report
        minutes = self._pending.pop(place, None)
        if minutes is None:
            return None
        self._sequence += 1
        report = UsageReport(self._reporter, self._sequence, _newest(minutes))
        self._sent[place] = _Sent(report, self._clock.monotonic())
        return report

    def sent_for_seconds(self, place: Place) -> float:
        """Since when the report that `next_report` has given out is on its way."""
        return self._clock.monotonic() - self._sent[place].since

    def taken(self, place: Place) -> None:
        """The last report counts."""
        self._sent.pop(place, None)

    def drop(self, place: Place) -> None:
        """Nobody will ever take the last report."""
        if self._sent.pop(place, None) is not None:
            self.dropped += 1


def _newest(minutes: dict[int, Counts]) -> tuple[tuple[int, Counts], ...]:
    """In order; what is older than a report can tell goes into the oldest minute that it tells."""
    ordered = sorted(minutes.items())
    old, kept = ordered[:-REPORT_MINUTES_MAX], ordered[-REPORT_MINUTES_MAX:]
    for _, counts in old:
        kept[0][1].add(counts)
    return tuple(kept)
