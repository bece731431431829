"""Reads: where one starts and which batches it takes. Whole batches; the gateway cuts at records.

A record is never looked at here. So a start by time is found to the batch, and a bound is met only
surely: the caller drops records before the start (`start_seq_num`, and those below the asked
timestamp) and behind the bounds.
"""

from __future__ import annotations

from enum import Enum
from itertools import islice
from typing import assert_never

import msgspec

from svc_cluster.base.errors import PastTailError
from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.limits import READ_BATCHES_MAX, READ_BYTES_MAX, READ_SKIPPED_BYTES_MAX
from svc_cluster.model.read_bounds import ReadBounds, ReadStart, StartKind
from svc_cluster.model.record import BatchPlacement, SequencedBatch
from svc_cluster.stream import keys
from svc_cluster.stream.batch_finder import NO_GUESS, BatchFinder, BatchGuess, HoleError, Lookups
from svc_cluster.stream.batch_row import HEADER_BYTES, decode_placement, metered_before
from svc_cluster.stream.rows import StreamState


class StoppedBy(Enum):
    """Why a read step ended."""

    TAIL = "tail"
    BOUNDS = "bounds"
    """What was taken holds everything that the bounds allow, for sure."""
    SIZE = "size"
    """The step is long enough: go on at `next_seq_num`."""


class ReadStep(msgspec.Struct, frozen=True):
    """`start_seq_num`: the first record that counts (the first batch may begin before it).
    `next_seq_num`: where to go on; at the tail, the tail."""

    start_seq_num: SeqNum
    batches: list[SequencedBatch]
    next_seq_num: SeqNum
    stopped_by: StoppedBy

    @property
    def may_have_more(self) -> bool:
        return self.stopped_by is StoppedBy.SIZE


def resolve_start(
    reader: KeyReader, stream: StreamState, start: ReadStart, *, refuse_at_tail: bool
) -> SeqNum:
    """The sequence number to read from: at least the trim point, at most the tail.

    A start by time resolves to the first record of the first batch that holds a record at or
    behind that time, or to the tail when none does. Raises PastTailError for a start beyond the
    tail that is not clamped and, with `refuse_at_tail`, for one at the tail; HoleError for a start
    by time where a batch is missing.
    """
    if needs_lookup(stream, start):
        found = _first_at(reader, stream, start.value)
        return looked_up(stream, found, refuse_at_tail=refuse_at_tail)
    return place_of(stream, start, refuse_at_tail=refuse_at_tail)


def needs_lookup(stream: StreamState, start: ReadStart) -> bool:
    """Tells whether it takes reads of the store to resolve this start. If so, `look_up_first_at`
    finds it, otherwise `place_of`."""
    return start.kind is StartKind.TIMESTAMP and start.value <= stream.last_timestamp_ms


def looked_up(stream: StreamState, found: SeqNum, *, refuse_at_tail: bool) -> SeqNum:
    """What `look_up_first_at` has found, as a place to read from. Raises as `resolve_start` does at
    the tail: a time that nothing matches is there."""
    if refuse_at_tail and found == stream.tail_seq_num:
        raise _past_tail(stream)
    return found


def place_of(stream: StreamState, start: ReadStart, *, refuse_at_tail: bool) -> SeqNum:
    """Does what `resolve_start` does, for a start that needs no reads of the store."""
    tail = stream.tail_seq_num
    match start.kind:
        case StartKind.TIMESTAMP:
            if not start.clamp:
                raise _past_tail(stream)
            seq_num: int = tail
        case StartKind.SEQ_NUM:
            if start.value > tail and not start.clamp:
                raise _past_tail(stream)
            seq_num = min(start.value, tail)
        case StartKind.TAIL_OFFSET:
            seq_num = max(tail - start.value, 0)
        case StartKind.FIRST_RETAINED:
            seq_num = stream.trim_point
        case _:
            assert_never(start.kind)
    if refuse_at_tail and seq_num == tail:
        raise _past_tail(stream)
    return SeqNum(max(seq_num, stream.trim_point))


def read_batches(
    reader: KeyReader,
    stream: StreamState,
    start_seq_num: int,
    bounds: ReadBounds,
    *,
    now_ms: TimestampMs,
    from_ms: int = 0,
    max_bytes: int = READ_BYTES_MAX,
) -> ReadStep:
    """Take batches from the one that holds `start_seq_num` on; the store must be as of `stream`.

    Batches that have expired by `now_ms` are skipped. Records below the timestamp `from_ms` do not
    count towards the bounds (the caller drops them). At least one batch is taken if there is one,
    at most READ_BATCHES_MAX, and the last one may go beyond `max_bytes` of record bytes. Raises
    HoleError when what is in the store does not reach from the start to the end of the step without
    a gap, or has another batch's value under a key: each says where it stands, and what the stream
    was before it.
    """
    taking = _Taking(stream, start_seq_num, bounds, now_ms, from_ms, max_bytes)
    if taking.is_empty:
        return taking.ended(StoppedBy.BOUNDS)
    first_key = keys.batch_key(stream.stream_id, taking.start)
    end_key = keys.batch_key(stream.stream_id, stream.tail_seq_num)
    for key, value in reader.scan(first_key, end_key):
        placement = decode_placement(value)
        if placement.end_seq_num != keys.batch_key_parts(key)[1] + 1:
            raise taking.hole(placement)  # it is another one's value
        step = taking.take(placement, value)
        if step is not None:
            return step
    return taking.at_tail()


def look_up_batches(
    stream: StreamState,
    start_seq_num: int,
    bounds: ReadBounds,
    *,
    now_ms: TimestampMs,
    from_ms: int = 0,
    max_bytes: int = READ_BYTES_MAX,
    guess: BatchGuess = NO_GUESS,
) -> Lookups[tuple[ReadStep, BatchGuess]]:
    """Does what `read_batches` does, of a store that may change meanwhile. A HoleError then says
    only that this was not to be read like this. Returned with the step is a better guess at what
    the stream's batches are like."""
    taking = _Taking(stream, start_seq_num, bounds, now_ms, from_ms, max_bytes)
    if taking.is_empty:
        return taking.ended(StoppedBy.BOUNDS), guess
    # of a start by time it is not known how many records do not count
    finder = BatchFinder(stream, taking.start, guess, bounds.count if from_ms <= 0 else None)
    if bounds.metered_bytes is not None:
        max_bytes = min(max_bytes, bounds.metered_bytes)
    while finder.next_seq_num < stream.tail_seq_num:
        values = yield finder.wanted(max_bytes - taking.taken_bytes)
        for placement, value in finder.found(values):
            step = taking.take(placement, value)
            if step is not None:
                return step, finder.guess
    return taking.at_tail(), finder.guess


class _Taking:
    """One read step on its way, over batches that come in order."""

    def __init__(
        self,
        stream: StreamState,
        start_seq_num: int,
        bounds: ReadBounds,
        now_ms: TimestampMs,
        from_ms: int,
        max_bytes: int,
    ) -> None:
        assert start_seq_num <= stream.tail_seq_num, "a start is resolved first"
        self.start = SeqNum(max(start_seq_num, stream.trim_point))
        self.is_empty = bounds.count == 0 or bounds.metered_bytes == 0
        self.taken_bytes = 0
        self._stream = stream
        self._now_ms = now_ms
        self._max_bytes = max_bytes
        self._tally = _Tally(bounds, self.start, from_ms)
        self._batches: list[SequencedBatch] = []
        self._next = self.start
        self._skipped_bytes = 0
        self._follows: tuple[int, int] | None = None
        """What the next batch says that it follows upon, if it is the right one: metered bytes and
        the last timestamp of the stream before it."""

    def hole(self, found: BatchPlacement) -> HoleError:
        """Where the next records belong there is something else."""
        return HoleError(self._stream, self._next, max(found.first_seq_num, self._next + 1))

    def take(self, placement: BatchPlacement, value: bytes) -> ReadStep | None:
        """The step, if it ends with this batch or before it. Raises HoleError."""
        if placement.first_seq_num > self._next:
            raise HoleError(self._stream, self._next, placement.first_seq_num)
        before = metered_before(value), placement.base_timestamp_ms
        if self._follows is not None and self._follows != before:
            raise self.hole(placement)
        stream = self._stream
        self._follows = before[0] + placement.metered_bytes, placement.last_timestamp_ms
        if placement.end_seq_num == stream.tail_seq_num and self._follows != (
            stream.metered_bytes_appended,
            stream.last_timestamp_ms,
        ):
            raise self.hole(placement)
        if placement.expires_at_ms is not None and placement.expires_at_ms <= self._now_ms:
            self._next = placement.end_seq_num
            self._skipped_bytes += len(value)
            is_long = self._skipped_bytes >= READ_SKIPPED_BYTES_MAX
            return self.ended(StoppedBy.SIZE) if is_long else None
        if self._tally.is_behind(placement):
            return self.ended(StoppedBy.BOUNDS)
        batch = SequencedBatch(placement, value[HEADER_BYTES:])
        self._batches.append(batch)
        self._next = placement.end_seq_num
        if self._tally.is_met_with(placement):
            return self.ended(StoppedBy.BOUNDS)
        self.taken_bytes += len(batch.records)
        is_long = self.taken_bytes >= self._max_bytes or len(self._batches) >= READ_BATCHES_MAX
        if is_long and self._next < self._stream.tail_seq_num:
            return self.ended(StoppedBy.SIZE)
        return None

    def ended(self, why: StoppedBy) -> ReadStep:
        return ReadStep(self.start, self._batches, self._next, why)

    def at_tail(self) -> ReadStep:
        """There is no further batch. Raises HoleError."""
        if self._next < self._stream.tail_seq_num:
            raise HoleError(self._stream, self._next, self._stream.tail_seq_num)
        return self.ended(StoppedBy.TAIL)


class _Tally:
    """Counts what a read surely has, against its bounds."""

    __slots__ = ("_bytes_left", "_count_left", "_from_ms", "_start", "_until_ms")

    def __init__(self, bounds: ReadBounds, start: SeqNum, from_ms: int) -> None:
        self._count_left = bounds.count
        self._bytes_left = bounds.metered_bytes
        self._until_ms = bounds.until_ms
        self._start = start
        self._from_ms = from_ms

    def is_behind(self, placement: BatchPlacement) -> bool:
        """No record of this batch lies before the time bound: the read ends ahead of it."""
        return self._until_ms is not None and placement.base_timestamp_ms >= self._until_ms

    def is_met_with(self, placement: BatchPlacement) -> bool:
        """Count the batch; whether nothing behind it can belong to the read."""
        if self._until_ms is not None and placement.last_timestamp_ms >= self._until_ms:
            return True
        count = placement.record_count
        metered_bytes = placement.metered_bytes
        if placement.base_timestamp_ms < self._from_ms:
            # How many are early is not known here; that the last one is not, is.
            count = 1 if placement.last_timestamp_ms >= self._from_ms else 0
            metered_bytes = 0
        elif placement.first_seq_num < self._start:
            count = placement.end_seq_num - self._start
            metered_bytes = 0
        if self._count_left is not None:
            self._count_left -= count
            if self._count_left <= 0:
                return True
        if self._bytes_left is not None:
            self._bytes_left -= metered_bytes
            return self._bytes_left <= 0
        return False


def _first_at(reader: KeyReader, stream: StreamState, timestamp_ms: int) -> SeqNum:
    """Binary search: batches are keyed by sequence number, their last timestamps never decrease."""
    low: int = stream.trim_point
    high: int = stream.tail_seq_num
    found: int = stream.tail_seq_num
    while low < high:
        middle = (low + high) // 2
        value = batch_at(reader, stream, middle)
        if value is None:
            raise HoleError(stream, middle, stream.tail_seq_num)
        placement = decode_placement(value)
        if not placement.first_seq_num <= middle < placement.end_seq_num:
            raise HoleError(stream, middle, max(placement.first_seq_num, middle + 1))
        if placement.last_timestamp_ms >= timestamp_ms:
            found = high = placement.first_seq_num
        else:
            low = placement.end_seq_num
    return SeqNum(max(found, stream.trim_point))


def look_up_first_at(
    stream: StreamState, timestamp_ms: int, guess: BatchGuess = NO_GUESS
) -> Lookups[SeqNum]:
    """What `resolve_start` finds for a start by time, of a store that may change meanwhile: see
    `look_up_batches`."""
    low: int = stream.trim_point
    high: int = stream.tail_seq_num
    found: int = stream.tail_seq_num
    while low < high:
        middle = (low + high) // 2
        finder = BatchFinder(stream, middle, guess, count=1)
        batches: list[tuple[BatchPlacement, bytes]] = []
        while not batches:
            values = yield finder.wanted(0)
            batches = finder.found(values)
        placement, _ = batches[0]
        guess = finder.guess
        if placement.last_timestamp_ms >= timestamp_ms:
            found = high = placement.first_seq_num
        else:
            low = placement.end_seq_num
    return SeqNum(max(found, stream.trim_point))


def batch_at(reader: KeyReader, stream: StreamState, seq_num: int) -> bytes | None:
    """The stored batch that holds `seq_num`, or the next one there is."""
    pairs = reader.scan(
        keys.batch_key(stream.stream_id, seq_num),
        keys.batch_key(stream.stream_id, stream.tail_seq_num),
    )
    for _, value in islice(pairs, 1):
        return value
    return None


def _past_tail(stream: StreamState) -> PastTailError:
    return PastTailError(stream.tail_seq_num, stream.last_timestamp_ms)
