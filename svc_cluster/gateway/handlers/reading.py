"""What unary and streaming reads share: their parameters, and turning results into records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svc_cluster.base.errors import InternalError, InvalidError, StreamNotFoundError
from svc_cluster.codec.records import ReadBudget, RecordOut, cut
from svc_cluster.gateway.backend import ReadResult
from svc_cluster.gateway.handlers.context import Call
from svc_cluster.gateway.http.dialect import Dialect
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

    def budget(self) -> ReadBudget:
        """What the client allows, not yet reduced by anything."""
        return ReadBudget(self.count, self.metered_bytes, self.until_ms, self.from_ms)


def parse_read(query: Query, dialect: Dialect) -> ReadRequest:
    """A read that names no start begins at the tail in the S2 dialect, else at the first retained
    record (wire contract section 5.1).

    Raises MalformedError for a value of the wrong type, InvalidError for two starts and for a time
    range without time in it.
    """
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
    default = StartKind.TAIL_OFFSET if dialect is Dialect.S2 else StartKind.FIRST_RETAINED
    kind, value = starts[0] if starts else (default, 0)
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


class Cursor:
    """Where a read of several steps stands in one stream, and what it may still return."""

    def __init__(
        self, call: Call, basin: str, stream: str, start: ReadStart, budget: ReadBudget
    ) -> None:
        self._call = call
        self._names = (basin, stream)
        self.start = start
        self.budget = budget
        self._incarnation: tuple[int, int] | None = None

    async def read(self, wait_ms: int, *, refuse_at_tail: bool = False) -> ReadResult:
        """One backend read from here on, which waits `wait_ms` or less at the tail.

        Raises StreamNotFoundError when another stream has taken the name since the first read: its
        records are not the continuation of the first one's.
        """
        budget = self.budget
        result = await self._call.services.backend.read(
            *self._names,
            self.start,
            ReadBounds(budget.count, budget.metered_bytes, budget.until_ms),
            refuse_at_tail=refuse_at_tail,
            wait_ms=min(wait_ms, READ_CALL_WAIT_MS_MAX),
        )
        return self._of_one_stream(result)

    async def follow(self, wait_ms: int) -> ReadResult:
        """As `read`, behind a first one, on the read that all followers of the stream share: its
        records may have been there for a moment, its tail without records is of now."""
        assert self.start.kind is StartKind.SEQ_NUM, "a follower has its place"
        tails = self._call.services.tails
        return self._of_one_stream(await tails.read(*self._names, self.start.value, wait_ms))

    def _of_one_stream(self, result: ReadResult) -> ReadResult:
        if self._incarnation is None:
            self._incarnation = result.incarnation
        elif self._incarnation != result.incarnation:
            raise StreamNotFoundError("the stream that was read is deleted")
        return result

    def take(self, result: ReadResult) -> list[RecordOut]:
        """The records of a result that the budget allows; the next read goes on behind them."""
        budget = self.budget
        records = cut(result.batches, result.start_seq_num, budget)
        if result.may_have_more and not result.batches and not budget.exhausted:
            # The node found that the first record is beyond the bounds. Asking again would not end.
            if budget.unbounded:
                raise InternalError("an unbounded read stopped early with nothing")
            budget.stopped = True
        next_seq_num = result.start_seq_num
        if records:
            next_seq_num = records[-1].seq_num + 1
            metrics = self._call.services.metrics
            metrics.records_read.inc(len(records))
            metrics.read_bytes.inc(sum(record.metered_bytes for record in records))
        elif result.batches and not budget.exhausted:
            next_seq_num = max(next_seq_num, result.batches[-1].placement.end_seq_num)
        self.start = ReadStart(StartKind.SEQ_NUM, next_seq_num)
        return records
