"""Which records of a stream have outlived their age. By arrival, never by record timestamp."""

from __future__ import annotations

import msgspec

from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.base.limits import RETENTION_STEP_BATCHES_MAX, RETENTION_STEP_BYTES_MAX
from svc_cluster.stream import keys
from svc_cluster.stream.batch_row import decode_placement
from svc_cluster.stream.commands import ExpirePrefix
from svc_cluster.stream.rows import StreamState
from svc_cluster.stream.state import Reader


class Expiry(msgspec.Struct, frozen=True):
    """`command`: what has expired, or None. `next_due_ms`: when to look again; not later than the
    time asked for when there was more than one step looks at; None when nothing stored will ever
    expire (look again when something is appended)."""

    command: ExpirePrefix | None
    next_due_ms: TimestampMs | None


def find_expired(reader: Reader, stream: StreamState, now_ms: TimestampMs) -> Expiry:
    """The longest prefix of whole batches that have expired by `now_ms`, in one bounded step.

    A batch that lives on keeps everything behind it, since only a prefix can go.
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
        if placement.expires_at_ms is None or placement.expires_at_ms > now_ms:
            next_due_ms = placement.expires_at_ms
            break
        looked_at_bytes += len(value)
        trim_point = placement.end_seq_num
    if trim_point == stream.trim_point:
        return Expiry(None, next_due_ms)
    return Expiry(ExpirePrefix(stream.stream_id, trim_point), next_due_ms)


def empty_since_due(stream: StreamState) -> TimestampMs | None:
    """When a stream without records is to be deleted for being empty; None: never, or it has some.

    That is its minimum age after the last append, or after its creation if there was none.
    """
    min_age_seconds = stream.config.delete_on_empty_min_age_seconds
    has_records = stream.trim_point < stream.tail_seq_num
    if min_age_seconds == 0 or has_records or stream.deleted_at_ms is not None:
        return None
    since: int = stream.created_at_ms if stream.last_arrival_ms is None else stream.last_arrival_ms
    return TimestampMs(since + min_age_seconds * 1000)
