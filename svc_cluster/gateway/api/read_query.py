"""What unary and streaming reads share: their parameters, and turning results into records."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from svc_cluster.base.errors import InternalError, InvalidError, StreamNotFoundError
from svc_cluster.base.steps import at_once
from svc_cluster.codec.batch_codec import Open, ReadBudget
from svc_cluster.codec.plain_read import Piece, RecordForm, run_steps
from svc_cluster.codec.read_batch import forget_steps
from svc_cluster.gateway.api.auto_create import new_stream, on_stream
from svc_cluster.gateway.api.context import Call
from svc_cluster.gateway.api.turns import DEAR_BYTES
from svc_cluster.gateway.cluster.backend import ReadResult
from svc_cluster.gateway.records.encoded_part import EncodedPart, PartKey
from svc_cluster.gateway.records.fanout import RESULT_BYTES_MAX
from svc_cluster.gateway.records.tail_pushes import Pushed
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.gateway.request.negotiation import Query
from svc_cluster.gateway.request.record_key import record_key
from svc_cluster.model.read_bounds import ReadBounds, ReadStart, StartKind

READ_CALL_WAIT_MS_MAX: Final = 5_000
"""One backend read waits no longer than this."""

EARLY_BYTES: Final = 64 * 1024
"""About so much is read at once while it is not known where the first record is that counts."""

PUSHED_BYTES_MAX: Final = 16 * 1024
"""What is larger is held for its client, and counted, while it leaves."""

_U32_MAX: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class ReadQuery:
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


def parse_read(query: Query, dialect: Dialect) -> ReadQuery:
    """A read that names no start begins at the tail in the S2 dialect, else at the first retained
    record (contract 6.1).

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
    return ReadQuery(
        start=ReadStart(kind, value, clamp=query.boolean("clamp")),
        count=query.unsigned("count"),
        metered_bytes=query.unsigned("bytes"),
        until_ms=until_ms,
        wait_seconds=query.unsigned("wait", _U32_MAX),
    )


Encode = Callable[[Sequence[Piece]], Generator[None, None, bytes]]


class Cursor:
    """Where a read of several steps stands in one stream, and what it may still return."""

    def __init__(
        self, call: Call, basin: str, stream: str, start: ReadStart, budget: ReadBudget
    ) -> None:
        """Raises as `new_stream`, for the first read may make the stream, and as `record_key`."""
        self._call = call
        self._key = record_key(call.request)
        self._new = new_stream(call)
        self._names = (basin, stream)
        self.start = start
        self.budget = budget
        self._incarnation: tuple[int, int] | None = None
        self._is_encrypted = False
        self._seen = 0
        self.is_shared = False
        """Whether caches that serve many may keep all that was read, as far as the stream's owner
        is concerned."""
        self.portion_bytes: int | None = None
        """About how much to ask for at once; None: as much as there is."""

    @property
    def basin(self) -> str:
        return self._names[0]

    @property
    def plain_incarnation(self) -> tuple[int, int] | None:
        """Which stream it is that was read; None where its records are encrypted."""
        return None if self._is_encrypted else self._incarnation

    async def read(self, wait_ms: int, *, refuse_at_tail: bool = False) -> ReadResult:
        """One backend read from here on, which waits `wait_ms` or less at the tail.

        Raises StreamNotFoundError when another stream has taken the name since the first read: its
        records are not the continuation of the first one's.
        """

        async def ask() -> ReadResult:
            return await self._call.services.backend.read(
                *self._names,
                self.start,
                self._bounds(),
                refuse_at_tail=refuse_at_tail,
                wait_ms=min(wait_ms, READ_CALL_WAIT_MS_MAX),
                has_key=self._key is not None,
            )

        if self._incarnation is not None:
            return self._of_one_stream(await ask())
        found = await on_stream(self._call, *self._names, self._new, ask, on_read=True)
        return self._of_one_stream(found)

    def _bounds(self) -> ReadBounds:
        budget = self.budget
        if budget.from_ms > 0 and self.start.kind is not StartKind.TIMESTAMP:
            # A node does not know which records are early, and would count them.
            return ReadBounds(None, None, budget.until_ms, self.portion_bytes or EARLY_BYTES)
        return ReadBounds(budget.count, budget.metered_bytes, budget.until_ms, self.portion_bytes)

    async def follow(self, wait_ms: int, pushed: Pushed | None = None) -> ReadResult:
        """Does what `read` does, behind a first one, on the read that all followers of the stream
        share. Its records may have been there for a moment, its tail without records is of now.
        `pushed` may be given what comes meanwhile, and goes on with that (`push`)."""
        assert self.start.kind is StartKind.SEQ_NUM, "a follower has its place"
        tails = self._call.services.tails
        at = self.start.value
        return self._of_one_stream(await tails.read(*self._names, at, wait_ms, pushed))

    def push(
        self, result: ReadResult, form: str, record_form: RecordForm, encode: Encode
    ) -> EncodedPart | None:
        """Does what `take_part` does with all of `result` where that waits for nobody: it is small,
        and encoded already or soon. None: it is not so, and nothing was taken. Raises what
        `follow` and `take_part` raise."""
        key = self._part_key(result, form)
        if key is None:
            return None
        self._of_one_stream(result)
        encodings = self._call.services.tails.encodings
        part = encodings.get(key)
        if part is None and _size(result) <= DEAR_BYTES:
            opener = self._opener(result)
            begin, budget = result.start_seq_num, self.budget
            records = next(run_steps(result.batches, begin, budget, opener, record_form), None)
            if records:
                encoded = at_once(encode(records))
                part = EncodedPart.of(records, bytes(memoryview(encoded)))
                encodings.put(key, part, len(part.encoded))
        if part is None or len(part.encoded) > PUSHED_BYTES_MAX:
            return None
        if part.end_seq_num != result.batches[-1].placement.end_seq_num:
            return None
        self._went_on(result, part)
        return part

    def _of_one_stream(self, result: ReadResult) -> ReadResult:
        if self._incarnation is None:
            self._incarnation = result.incarnation
            self._is_encrypted = result.cipher is not None
            self.is_shared = result.shared_caching
        elif self._incarnation != result.incarnation:
            raise StreamNotFoundError("the stream that was read is deleted")
        self.is_shared = self.is_shared and result.shared_caching
        self._seen = max(self._seen, result.seen)
        return result

    async def go_on(self) -> ReadResult:
        """What comes next behind records that were taken: what is still at hand here, else as
        `read`. Its tail is of now only when nothing more is said to be behind it."""
        tails = self._call.services.tails
        place = (self._incarnation, self.start.value)
        found = tails.at_hand(*self._names, *place, self.portion_bytes or RESULT_BYTES_MAX)
        return await self.read(0) if found is None else found

    def bounds_behind(self, result: ReadResult) -> ReadBounds | None:
        """What may be returned behind all that `result` has, of which nothing need be taken yet.
        None: perhaps nothing, or it is not known."""
        budget = self.budget
        if budget.from_ms > 0 or not (result.may_have_more and result.batches):
            return None
        count, metered_bytes = budget.count, budget.metered_bytes
        for batch in result.batches:
            if count is not None:
                count -= batch.placement.record_count
            if metered_bytes is not None:
                metered_bytes -= batch.placement.metered_bytes
        if (count is not None and count <= 0) or (metered_bytes is not None and metered_bytes < 8):
            return None
        return ReadBounds(count, metered_bytes, budget.until_ms, self.portion_bytes)

    async def ahead(self, start: int, bounds: ReadBounds) -> ReadResult | None:
        """What is committed at `start`, of a moment no earlier than that of what was read before;
        None: nothing of this stream. Where the tail is has to be asked behind it: it is said to
        have more."""
        found = await self._call.services.backend.read(
            *self._names,
            ReadStart(StartKind.SEQ_NUM, start),
            bounds,
            refuse_at_tail=False,
            wait_ms=0,
            has_key=self._key is not None,
            committed=True,
            behind=self._seen,
        )
        if not found.batches or found.incarnation != self._incarnation:
            return None
        self._seen = max(self._seen, found.seen)
        return replace(found, may_have_more=True, tail_is_of_now=False)

    async def take(self, result: ReadResult, form: RecordForm) -> list[Piece]:
        """The records of a result that the budget allows, some of them encoded already; the next
        read goes on behind them.

        Raises KeyRequiredError and DecryptionFailedError where they are encrypted.
        """
        records: list[Piece] = []
        turns = self._call.services.turns
        is_dear = _size(result) > DEAR_BYTES
        opener = self._opener(result)
        if is_dear:
            await turns.turn()
        begin = result.start_seq_num
        for run in run_steps(result.batches, begin, self.budget, opener, form):
            records += run or ()
            if is_dear:
                await turns.turn()
        self._went_on(result, EncodedPart.of(records), whole=True)
        return records

    async def take_part(
        self, result: ReadResult, form: str, record_form: RecordForm, encode: Encode
    ) -> tuple[EncodedPart, bool]:
        """Does what `take` does, as far as may be held at once, encoded; and tells whether that was
        all of it. What is left is to be read again, with `go_on`.

        `encode` is asked only for what nobody had before who reads the same with the same key:
        `form` says what its answer depends on beside the records, of which it is given some that
        are encoded already in `record_form`. Raises also what it raises.
        """
        services = self._call.services
        budget = self.budget
        key = self._part_key(result, form)
        if key is not None:
            known = services.tails.encodings.get(key)
            if known is not None:
                return known, self._went_on(result, known)
        is_dear = _size(result) > DEAR_BYTES
        if is_dear:
            await services.turns.turn()
        opener = self._opener(result)
        runs = run_steps(result.batches, result.start_seq_num, budget, opener, record_form)
        while (records := next(runs)) is None:
            await services.turns.turn()
        encoded = b""
        if records:
            encoded = await services.turns.run(encode(records), DEAR_BYTES * is_dear)
        # Copied: encoders leave room behind what they write.
        part = EncodedPart.of(records, bytes(memoryview(encoded)))
        if is_dear:
            await services.turns.run(forget_steps(list(records)), 0)
        if records and key is not None:
            services.tails.encodings.put(key, part, len(part.encoded))
        return part, self._went_on(result, part)

    def _part_key(self, result: ReadResult, form: str) -> PartKey | None:
        """By what the encoding of a result is found; None: it is this reader's alone."""
        budget = self.budget
        if not budget.unbounded or budget.from_ms > 0 or not result.batches:
            return None
        fingerprint = self._call.services.sealer.fingerprint(self._key if result.cipher else None)
        end = result.batches[-1].placement.end_seq_num
        return (result.incarnation, result.start_seq_num, end, form, fingerprint)

    def leave(self, result: ReadResult) -> None:
        """Let go of a result of which something is left, for `go_on` to find it if it comes soon.
        Nobody knows when the client will want it."""
        self._call.services.tails.leave(*self._names, self.start.value, result)

    def _opener(self, result: ReadResult) -> Open | None:
        return self._call.services.sealer.opener(result, self._key)

    def _went_on(self, result: ReadResult, part: EncodedPart, *, whole: bool = False) -> bool:
        """Count what was taken of `result`. Returns whether that was all of it."""
        budget = self.budget
        batches = result.batches
        if result.may_have_more and not batches and not budget.exhausted:
            # The node found that the first record is beyond the bounds. Asking again would not end.
            if budget.unbounded:
                raise InternalError("an unbounded read stopped early with nothing")
            budget.stopped = True
        next_seq_num = result.start_seq_num
        if part.count:
            next_seq_num = part.end_seq_num
            budget.from_ms = 0  # timestamps never decrease
            metrics = self._call.services.metrics
            metrics.records_read.inc(part.count)
            metrics.read_bytes.inc(part.metered_bytes)
            self._call.allowance.took(part.metered_bytes)
            self._call.services.usage.read_bytes(self.basin, part.metered_bytes)
        elif batches and not budget.exhausted:
            next_seq_num = max(next_seq_num, batches[-1].placement.end_seq_num)
        self.start = ReadStart(StartKind.SEQ_NUM, next_seq_num)
        return whole or not batches or next_seq_num >= batches[-1].placement.end_seq_num


def _size(result: ReadResult) -> int:
    """Return the size of its records as they are stored."""
    return sum([len(batch.records) for batch in result.batches])
