"""Timestamps of a batch: the last one for the leader, all of them for a reader.

Both come from one rule (contract 5.8). A record's own value is the client's, or the
arrival time where the mode says so or the client gave none; unless `uncapped`, a value above the
arrival time is lowered to it; then the value is raised to the running maximum, which starts at the
stream's last timestamp. Minimum and maximum commute, so the last timestamp needs only the largest
client value and whether any record lacks one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from svc_cluster.base.errors import InvalidError
from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.model.record import BatchPlacement, StoredBatch, TimestampingMode
from svc_cluster.model.stream_config import StreamConfig

_EXPIRES_AT_MS_MAX: Final = 2**63 - 1


def place(
    batch: StoredBatch,
    *,
    first_seq_num: SeqNum,
    base_timestamp_ms: TimestampMs,
    config: StreamConfig,
    now_ms: TimestampMs,
) -> BatchPlacement:
    """Give a batch its place behind `base_timestamp_ms`, the stream's last timestamp.

    Raises InvalidError when the mode requires a client timestamp on each record and one lacks it.
    """
    mode = config.timestamping_mode
    uncapped = config.timestamping_uncapped
    missing = batch.timestamps_given < batch.record_count
    if mode is TimestampingMode.CLIENT_REQUIRE and missing:
        raise InvalidError("the stream requires a timestamp on every record")
    largest: int = now_ms
    if mode is not TimestampingMode.ARRIVAL and batch.timestamp_max_ms is not None:
        largest = max(batch.timestamp_max_ms, now_ms) if missing else batch.timestamp_max_ms
        if not uncapped:
            largest = min(largest, now_ms)
    return BatchPlacement(
        first_seq_num=first_seq_num,
        record_count=batch.record_count,
        metered_bytes=batch.metered_bytes,
        base_timestamp_ms=base_timestamp_ms,
        arrival_ms=now_ms,
        last_timestamp_ms=TimestampMs(max(base_timestamp_ms, largest)),
        mode=mode,
        uncapped=uncapped,
        expires_at_ms=_expires_at(config, now_ms),
    )


def first_timestamp(placement: BatchPlacement, batch: StoredBatch) -> TimestampMs:
    """The timestamp that the first record of `batch` has at its place."""
    client_timestamp_ms = batch.timestamp_first_ms
    value: int = placement.arrival_ms
    if client_timestamp_ms is not None and placement.mode is not TimestampingMode.ARRIVAL:
        value = client_timestamp_ms
        if not placement.uncapped:
            value = min(value, placement.arrival_ms)
    value = max(value, placement.base_timestamp_ms)
    return TimestampMs(min(value, placement.last_timestamp_ms))


def stamp(placement: BatchPlacement, client_timestamps: Sequence[int | None]) -> list[int]:
    """Timestamps of all records of a batch, in order, from what their clients gave.

    Non-decreasing, none below the base, the last one equal to `placement.last_timestamp_ms`.
    """
    assert len(client_timestamps) == placement.record_count, "one entry a record"
    arrival_ms: int = placement.arrival_ms
    running: int = placement.base_timestamp_ms
    if placement.mode is TimestampingMode.ARRIVAL:
        return [max(running, arrival_ms)] * placement.record_count
    uncapped = placement.uncapped
    stamped = []
    for given in client_timestamps:
        value = arrival_ms if given is None or (given > arrival_ms and not uncapped) else given
        running = max(running, value)
        stamped.append(running)
    return stamped


def _expires_at(config: StreamConfig, now_ms: TimestampMs) -> TimestampMs | None:
    """By arrival; an age beyond any calendar is the same as none."""
    age_seconds = config.retention.age_seconds
    if age_seconds is None:
        return None
    expires_at_ms = now_ms + age_seconds * 1000
    return TimestampMs(expires_at_ms) if expires_at_ms <= _EXPIRES_AT_MS_MAX else None
