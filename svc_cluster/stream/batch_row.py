"""One batch as the store holds it: a fixed header, then the records as the gateway encoded them."""

from __future__ import annotations

import struct
from typing import Final

from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.model.record import BatchPlacement, TimestampingMode

# version, flags, mode, record_count, metered_bytes, first_seq_num, base, arrival, last timestamp,
# expires_at, metered bytes of the stream before this batch
_HEADER: Final = struct.Struct(">BBBxIIQQQQQQ")
_VERSION: Final = 1
HEADER_BYTES: Final = _HEADER.size
"""Ahead of the records."""
_UNCAPPED: Final = 1
_EXPIRES: Final = 2
_METERED_BEFORE: Final = struct.Struct(">Q")
_METERED_BEFORE_AT: Final = _HEADER.size - _METERED_BEFORE.size

_MODES: Final = tuple(TimestampingMode(value) for value in range(len(TimestampingMode)))


def encode_batch(placement: BatchPlacement, metered_before: int, records: bytes) -> bytes:
    """`metered_before`: metered bytes of everything appended to the stream before this batch."""
    expires_at_ms = placement.expires_at_ms
    flags = _UNCAPPED if placement.uncapped else 0
    if expires_at_ms is not None:
        flags |= _EXPIRES
    header = _HEADER.pack(
        _VERSION,
        flags,
        placement.mode,
        placement.record_count,
        placement.metered_bytes,
        placement.first_seq_num,
        placement.base_timestamp_ms,
        placement.arrival_ms,
        placement.last_timestamp_ms,
        expires_at_ms or 0,
        metered_before,
    )
    return header + records


def decode_placement(value: bytes) -> BatchPlacement:
    version, flags, mode, count, metered, first, base, arrival, last, expires, _ = (
        _HEADER.unpack_from(value)
    )
    # The store verifies its checksums; another version can only be a newer program's directory.
    assert version == _VERSION, f"batch of format version {version}"
    return BatchPlacement(
        first_seq_num=SeqNum(first),
        record_count=count,
        metered_bytes=metered,
        base_timestamp_ms=TimestampMs(base),
        arrival_ms=TimestampMs(arrival),
        last_timestamp_ms=TimestampMs(last),
        mode=_MODES[mode],
        uncapped=bool(flags & _UNCAPPED),
        expires_at_ms=TimestampMs(expires) if flags & _EXPIRES else None,
    )


def metered_before(value: bytes) -> int:
    """Metered bytes of everything appended to the stream before this batch."""
    before: int = _METERED_BEFORE.unpack_from(value, _METERED_BEFORE_AT)[0]
    return before
