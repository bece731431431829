"""Batches as a stream stores them, for tests that read them."""

from __future__ import annotations

from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.model.record import (
    BatchPlacement,
    SequencedBatch,
    StoredBatch,
    TimestampingMode,
)


def sequenced(
    batch: StoredBatch,
    first: int,
    arrival_ms: int = 9,
    *,
    mode: TimestampingMode = TimestampingMode.CLIENT_PREFER,
    uncapped: bool = False,
) -> SequencedBatch:
    """`batch` from `first` on, at `arrival_ms` or, where records have later ones of their own, at
    the latest of these."""
    placement = BatchPlacement(
        first_seq_num=SeqNum(first),
        record_count=batch.record_count,
        metered_bytes=batch.metered_bytes,
        base_timestamp_ms=TimestampMs(0),
        arrival_ms=TimestampMs(arrival_ms),
        last_timestamp_ms=TimestampMs(max(arrival_ms, batch.timestamp_max_ms or 0)),
        mode=mode,
        uncapped=uncapped,
        expires_at_ms=None,
    )
    return SequencedBatch(placement, batch.records)
