"""Which records of a stream have outlived their age, by arrival, never by record timestamp; and
what room the removal of records makes."""

from __future__ import annotations

from typing import Final

import msgspec

from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.base.limits import RETENTION_STEP_BATCHES_MAX, RETENTION_STEP_BYTES_MAX
from svc_cluster.stream import keys
from svc_cluster.stream.batch_finder import HoleError
from svc_cluster.stream.batch_row import decode_placement, metered_before
from svc_cluster.stream.commands import ExpirePrefix
from svc_cluster.stream.rows import StreamState
from svc_cluster.stream.scan import batch_at
from svc_cluster.stream.state import Reader

BATCH_OVERHEAD_BYTES: Final = 100
"""What a stored batch takes beside its records, about: key, header, the store's own."""


class Expiry(msgspec.Struct, frozen=True):
    """`command`: what has expired, or None. `next_due_ms`: when to look again; not later than the
    time asked for when there was more than one step looks at; None when nothing stored will ever
    expire (look again when something is appended)."""

    command: ExpirePrefix | None
    next_due_ms: TimestampMs | None


def find_expired(reader: Reader, stream: StreamState, now_ms: TimestampMs) -> Expiry:
    """The longest prefix of whole batches that have expired by `now_ms`, in one bounded step.

    A batch that lives on keeps everything behind it, since only a prefix can go. Raises HoleError
    where a batch is missing: how long it was to live is not known here.
    """
    if stream.deleted_at_ms is not None:
        return Expiry(None, None)
    trim_point: SeqNum = stream.trim_point
    looked_at_bytes = 0
    next_due_ms: TimestampMs | None = None
    first_key = keys.batch_key(stream.stream_id, stream.trim_point)
    end_key = keys.batch_key(stream.stream_id, stream.tail_seq_num)
    for looked_at, (_, value) in enumerate(reader.scan(first_key, end_key)):
        if looked_at >= RETENTION_STEP_BATCHES_MAX or looked_at_bytes >= RETENTION_STEP_BYTES_MAX:
            next_due_ms = now_ms
            break
        placement = decode_placement(value)
        if placement.first_seq_num > trim_point:
            raise HoleError(stream, trim_point, placement.first_seq_num)
        if placement.expires_at_ms is None or placement.expires_at_ms > now_ms:
            next_due_ms = placement.expires_at_ms
            break
        looked_at_bytes += len(value)
        trim_point = placement.end_seq_num
    if trim_point == stream.trim_point:
        return Expiry(None, next_due_ms)
    return Expiry(ExpirePrefix(stream.stream_id, trim_point), next_due_ms)


def freed_bytes(reader: Reader, stream: StreamState, trim_point: int) -> int:
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
