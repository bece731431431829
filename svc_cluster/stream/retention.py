"""This module tells which records of a stream have outlived their age, by arrival, never by record
timestamp. It also tells what room the removal of records makes."""

from __future__ import annotations

from typing import Final

import msgspec

from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.limits import RETENTION_STEP_BATCHES_MAX, RETENTION_STEP_BYTES_MAX
from svc_cluster.model.record import BatchPlacement
from svc_cluster.stream import keys
from svc_cluster.stream.batch_finder import BatchFinder, HoleError, Lookups
from svc_cluster.stream.batch_row import decode_placement, metered_before
from svc_cluster.stream.commands import ExpirePrefix
from svc_cluster.stream.rows import StreamState
from svc_cluster.stream.scan import batch_at

BATCH_OVERHEAD_BYTES: Final = 100
"""What a stored batch takes beside its records, about: key, header, the store's own."""


class ExpiryStep(msgspec.Struct, frozen=True):
    """`command`: what has expired, or None. `next_due_ms`: when to look again; not later than the
    time asked for when there was more than one step looks at; None when nothing stored will ever
    expire (look again when something is appended)."""

    command: ExpirePrefix | None
    next_due_ms: TimestampMs | None


def find_expired(reader: KeyReader, stream: StreamState, now_ms: TimestampMs) -> ExpiryStep:
    """The longest prefix of whole batches that have expired by `now_ms`, in one bounded step.

    A batch that lives on keeps everything behind it, since only a prefix can go. Raises HoleError
    where a batch is missing: how long it was to live is not known here.
    """
    if stream.deleted_at_ms is not None:
        return ExpiryStep(None, None)
    looking = _Looking(stream, now_ms)
    first_key = keys.batch_key(stream.stream_id, stream.trim_point)
    end_key = keys.batch_key(stream.stream_id, stream.tail_seq_num)
    for _, value in reader.scan(first_key, end_key):
        if not looking.takes(decode_placement(value), len(value)):
            break
    return looking.result()


def look_up_expired(stream: StreamState, now_ms: TimestampMs) -> Lookups[ExpiryStep]:
    """Does what `find_expired` does, of a store that may change meanwhile. A HoleError then says
    only that this was not to be found out like this."""
    looking = _Looking(stream, now_ms)
    if stream.deleted_at_ms is None and stream.trim_point < stream.tail_seq_num:
        finder = BatchFinder(stream, stream.trim_point)
        is_going_on = True
        while is_going_on and finder.next_seq_num < stream.tail_seq_num:
            values = yield finder.wanted(RETENTION_STEP_BYTES_MAX)
            for placement, value in finder.found(values):
                is_going_on = is_going_on and looking.takes(placement, len(value))
    return looking.result()


class _Looking:
    """For what has expired, from the trim point on."""

    def __init__(self, stream: StreamState, now_ms: TimestampMs) -> None:
        self._stream = stream
        self._now_ms = now_ms
        self._trim_point: SeqNum = stream.trim_point
        self._next_due_ms: TimestampMs | None = None
        self._batches = self._bytes = 0

    def takes(self, placement: BatchPlacement, size: int) -> bool:
        """Whether to look at the batch behind this one. Raises HoleError."""
        if self._batches >= RETENTION_STEP_BATCHES_MAX or self._bytes >= RETENTION_STEP_BYTES_MAX:
            self._next_due_ms = self._now_ms
            return False
        if placement.first_seq_num > self._trim_point:
            raise HoleError(self._stream, self._trim_point, placement.first_seq_num)
        if placement.expires_at_ms is None or placement.expires_at_ms > self._now_ms:
            self._next_due_ms = placement.expires_at_ms
            return False
        self._batches += 1
        self._bytes += size
        self._trim_point = placement.end_seq_num
        return True

    def result(self) -> ExpiryStep:
        if self._trim_point == self._stream.trim_point:
            return ExpiryStep(None, self._next_due_ms)
        return ExpiryStep(ExpirePrefix(self._stream.stream_id, self._trim_point), self._next_due_ms)


def freed_bytes(reader: KeyReader, stream: StreamState, trim_point: int) -> int:
    """About how many stored bytes of the stream lie below `trim_point`, at most its tail.

    Two reads of the store, however much lies there: metered bytes are known exactly, the number of
    batches is taken from the size of the first one and of the first that stays.
    """
    first = batch_at(reader, stream, stream.trim_point)
    if first is None:
        return 0
    batch_records = decode_placement(first).record_count
    freed = stream.metered_bytes_appended - metered_before(first)
    behind = batch_at(reader, stream, trim_point) if trim_point < stream.tail_seq_num else None
    if behind is not None:
        batch_records = (batch_records + decode_placement(behind).record_count + 1) // 2
        freed = metered_before(behind) - metered_before(first)
    batches = -(-(trim_point - stream.trim_point) // batch_records)
    return max(freed, 0) + batches * BATCH_OVERHEAD_BYTES
