"""The part of a stored batch that a read has to look at: whoever asks for one record of a thousand
is not given them all.

What is left is a stored batch as any other, with a placement of its own: a reader computes the same
position for each record of it. The native core finds the part; without it, or where the batch is
not of the plain shape, Python does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from google.protobuf.message import DecodeError

from svc_cluster._native import PartOfStored, core
from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.codec.varint import read_varint
from svc_cluster.model.read_bounds import ReadBounds
from svc_cluster.model.record import SequencedBatch, TimestampingMode
from svc_cluster.stream.timestamping import stamp

CUT_BYTES_MIN: Final = 2048
"""To leave something out of a smaller batch saves nothing."""

HEADERS_MAX: Final = 1024
"""Python takes a batch apart in one go if it has no more for sure."""

_RECORDS: Final = 1 << 3 | 2


def cut_batches(
    batches: Sequence[SequencedBatch],
    start_seq_num: int,
    bounds: ReadBounds,
    from_ms: int,
    bytes_min: int = CUT_BYTES_MIN,
) -> list[SequencedBatch]:
    """Leave out of the first batch and of the last what a read does not look at. It begins at
    `start_seq_num` and has no records below `from_ms`. `batches` stand one behind the other, and
    only the last one goes beyond the bounds.

    A record that is beyond `bounds` for its size or time is left: by it a reader knows that the
    read ends there. Of a stream whose records are sealed the sizes are unknown here: then
    `bounds` has none of metered bytes. A batch of less than `bytes_min` is given out as it is."""
    out = list(batches)
    count, metered_bytes = bounds.count, bounds.metered_bytes
    for place, batch in enumerate(batches):
        if place in (0, len(batches) - 1):
            left = ReadBounds(count, metered_bytes, bounds.until_ms)
            if len(batch.records) >= bytes_min:
                out[place] = _cut(batch, start_seq_num, left, from_ms)
        begun = batch.placement
        is_early = begun.first_seq_num < start_seq_num or begun.base_timestamp_ms < from_ms
        if is_early and out[place] is batch:
            break  # it is not known how much of it counts
        taken = out[place].placement
        if count is not None:
            count = max(0, count - taken.record_count)
        if metered_bytes is not None:
            metered_bytes = max(0, metered_bytes - taken.metered_bytes)
    return out


def _cut(
    batch: SequencedBatch, start_seq_num: int, bounds: ReadBounds, from_ms: int
) -> SequencedBatch:
    """What is left of a batch: as it is, where all of it is wanted, or nothing, or it is not what
    was stored."""
    placement, data = batch.placement, batch.records
    if _is_wanted(batch, start_seq_num, bounds, from_ms):
        return batch
    stored = (
        data,
        placement.first_seq_num,
        placement.record_count,
        placement.base_timestamp_ms,
        placement.arrival_ms,
        placement.mode is TimestampingMode.ARRIVAL,
        placement.uncapped,
    )
    part = None
    asked = (start_seq_num, bounds.count, bounds.metered_bytes, bounds.until_ms, from_ms)
    if core.cut_stored is not None:
        part = core.cut_stored(stored, *asked)
    if part is None:
        part = _part(batch, *asked)
    if part is None:
        return batch
    begin, end, first_seq_num, count, metered_bytes, base_ms, last_ms = part
    if count in (0, placement.record_count):
        return batch
    left = replace(
        placement,
        first_seq_num=SeqNum(first_seq_num),
        record_count=count,
        metered_bytes=min(metered_bytes, placement.metered_bytes),
        base_timestamp_ms=TimestampMs(base_ms),
        last_timestamp_ms=TimestampMs(last_ms),
    )
    return SequencedBatch(left, data[begin:end])


def _is_wanted(batch: SequencedBatch, start: int, bounds: ReadBounds, from_ms: int) -> bool:
    """All of it, as its placement tells."""
    placement = batch.placement
    return (
        placement.first_seq_num >= start
        and (from_ms <= 0 or placement.base_timestamp_ms >= from_ms)
        and (bounds.count is None or bounds.count >= placement.record_count)
        and (bounds.metered_bytes is None or bounds.metered_bytes >= placement.metered_bytes)
        and (bounds.until_ms is None or placement.last_timestamp_ms < bounds.until_ms)
    )


def _part(
    batch: SequencedBatch,
    start: int,
    count_max: int | None,
    metered_max: int | None,
    until_ms: int | None,
    from_ms: int,
) -> PartOfStored | None:
    """Does what the core does. None: the batch has too much of something, or does not parse."""
    placement = batch.placement
    spare = len(batch.records) - placement.metered_bytes + 6 * placement.record_count
    if spare // 2 > HEADERS_MAX:
        return None
    try:
        ends = _ends(batch.records)
        records = pb.AppendInput.FromString(batch.records).records
    except (DecodeError, IndexError):
        return None
    if len(records) != placement.record_count or len(ends) != len(records):
        return None
    given = [each.timestamp if each.HasField("timestamp") else None for each in records]
    stamped = stamp(placement, given)
    first: int = placement.first_seq_num
    skipped = max(0, start - first)
    while skipped < len(records) and stamped[skipped] < from_ms:
        skipped += 1
    end, metered_bytes = skipped, 0
    while end < len(records) and (count_max is None or end - skipped < count_max):
        size = _metered(records[end])
        is_last = until_ms is not None and stamped[end] >= until_ms
        is_last = is_last or (metered_max is not None and metered_bytes + size > metered_max)
        metered_bytes += size
        end += 1
        if is_last:
            break
    if end == skipped:
        return 0, 0, 0, 0, 0, 0, 0
    begin_at = ends[skipped - 1] if skipped else 0
    base_ms = stamped[skipped - 1] if skipped else placement.base_timestamp_ms
    last_ms = stamped[end - 1]
    return begin_at, ends[end - 1], first + skipped, end - skipped, metered_bytes, base_ms, last_ms


def _ends(data: bytes) -> list[int]:
    """Where each record ends. Raises IndexError."""
    ends: list[int] = []
    position = 0
    while position < len(data):
        if data[position] != _RECORDS:
            raise IndexError("something else than a record")
        length, begin = read_varint(data, position + 1)
        position = begin + length
        ends.append(position)
    return ends


def _metered(record: pb.AppendRecord) -> int:
    size = 8 + len(record.body)
    for header in record.headers:
        size += 2 + len(header.name) + len(header.value)
    return size
