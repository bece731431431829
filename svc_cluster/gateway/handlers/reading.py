"""What unary and streaming reads share: their parameters, and turning results into records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svc_cluster.base.errors import InternalError, InvalidError
from svc_cluster.codec.records import ReadBudget, RecordOut, cut
from svc_cluster.gateway.backend import ReadResult
from svc_cluster.gateway.handlers.context import Call
from svc_cluster.gateway.http.negotiation import Query
from svc_cluster.model.read_bounds import ReadBounds, ReadStart, StartKind

READ_CALL_WAIT_MS_MAX: Final = 5_000
"""One backend read waits no longer than this."""

_U32_MAX: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A read's parameters, checked."""

    start: ReadStart
    count: int | None
    metered_bytes: int | None
    until_ms: int | None
    wait_seconds: int | None

    @property
    def from_ms(self) -> int:
        """Records below this timestamp are not asked for."""
        return self.start.value if self.start.kind is StartKind.TIMESTAMP else 0


def parse_read(query: Query) -> ReadRequest:
    """Raises MalformedError for a value of the wrong type, InvalidError for two starts and for a
    time range without time in it."""
    starts = [
        (kind, value)
        for kind, name in (
            (StartKind.SEQ_NUM, "seq_num"),
            (StartKind.TIMESTAMP, "timestamp"),
            (StartKind.TAIL_OFFSET, "tail_offset"),
        )
        if (value := query.unsigned(name)) is not None
    ]
    if len(starts) > 1:
        raise InvalidError("give one of seq_num, timestamp and tail_offset")
    kind, value = starts[0] if starts else (StartKind.FIRST_RETAINED, 0)
    until_ms = query.unsigned("until")
    if kind is StartKind.TIMESTAMP and until_ms is not None and value >= until_ms:
        raise InvalidError("until must be after timestamp")
    return ReadRequest(
        start=ReadStart(kind, value, clamp=query.boolean("clamp")),
        count=query.unsigned("count"),
        metered_bytes=query.unsigned("bytes"),
        until_ms=until_ms,
        wait_seconds=query.unsigned("wait", _U32_MAX),
    )


def take(result: ReadResult, budget: ReadBudget) -> tuple[list[RecordOut], ReadStart]:
    """The records of a result that the budget allows, and where the next read goes on."""
    records = cut(result.batches, result.start_seq_num, budget)
    if result.may_have_more and not result.batches and not budget.exhausted:
        # The node found that the first record is beyond the bounds. Asking again would not end.
        if budget.unbounded:
            raise InternalError("an unbounded read stopped early with nothing")
        budget.stopped = True
    next_seq_num = result.start_seq_num
    if records:
        next_seq_num = records[-1].seq_num + 1
    elif result.batches and not budget.exhausted:
        next_seq_num = max(next_seq_num, result.batches[-1].placement.end_seq_num)
    return records, ReadStart(StartKind.SEQ_NUM, next_seq_num)


def bounds_of(budget: ReadBudget) -> ReadBounds:
    return ReadBounds(budget.count, budget.metered_bytes, budget.until_ms)


def count_read(call: Call, records: list[RecordOut]) -> None:
    if records:
        metrics = call.services.metrics
        metrics.records_read.inc(len(records))
        metrics.read_bytes.inc(sum(record.metered_bytes for record in records))
