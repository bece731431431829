"""Whether a stream may be deleted for being empty."""

from __future__ import annotations

from svc_cluster.base.ids import TimestampMs
from svc_cluster.stream.rows import StreamState


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
