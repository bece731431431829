"""Where a basin keeps what: the keys of one replica, relative to its generation.

| kind | key behind the kind byte              | value (rows.py)                             |
|------|---------------------------------------|---------------------------------------------|
| 0    | nothing                               | applied index, its term, state digest       |
| 1    | nothing                               | the basin: name, configuration, seal, next id |
| 2    | stream name, UTF-8                    | id and what a listing shows                 |
| 3    | stream id                             | the stream's state                          |
| 4    | stream id, last seq_num of the batch  | one batch                                   |
| 5    | idempotency key                       | its row (model/idempotency_table.py)        |
| 6    | time of the row, idempotency key      | nothing                                     |
| 7    | nothing                               | how many idempotency keys there are         |
| 250  | reporter                              | its last report (model/usage_table.py)      |
| 251  | stream id or 0, minute                | stored then (usage_rows.py)                 |
| 252  | minute                                | what was counted in it (model/usage.py)     |
| 253  | nothing                               | when the basin had streams (usage_rows.py)  |
| 254  | nothing                               | how old usage is kept (usage_rows.py)       |

Integers are 8 bytes big-endian, so that the order of keys is the order of what they name. A batch
is under its last sequence number: the first key at or behind `batch_key(id, n)` is the batch that
holds `n`.
"""

from __future__ import annotations

import struct
from typing import Final

from svc_cluster.base.ids import SeqNum, StreamId

APPLIED_KEY: Final = b"\x00"
BASIN_KEY: Final = b"\x01"
IDEMPOTENCY_ROWS: Final = b"\x05"
IDEMPOTENCY_TIMES: Final = b"\x06"
IDEMPOTENCY_COUNT_KEY: Final = b"\x07"

USAGE_REPORTERS_KIND: Final = 250
USAGE_MINUTES_KIND: Final = 252
PRESENCE_KEY: Final = b"\xfd"
USAGE_KEPT_KEY: Final = b"\xfe"
WHOLE_BASIN: Final = StreamId(0)
"""Under which stream id the readings of the basin are; no stream has it."""

_NAME: Final = b"\x02"
_NAME_END: Final = b"\x03"
_STREAM: Final = struct.Struct(">BQ")
_BATCH: Final = struct.Struct(">BQQ")
_STREAM_KIND: Final = 3
_BATCH_KIND: Final = 4
_READING_KIND: Final = 251


def name_key(name: str) -> bytes:
    return _NAME + name.encode()


def name_of(key: bytes) -> str:
    """The stream name in a key made by `name_key`."""
    assert key[:1] == _NAME, "not a name key"
    return key[1:].decode()


def name_range(prefix: str, start_after: str) -> tuple[bytes, bytes]:
    """Half-open range of the names that begin with `prefix` and come behind `start_after` in byte
    order. An empty `start_after` is before every name. The range may be empty (start >= end)."""
    start = name_key(prefix)
    if start_after:
        start = max(start, name_key(start_after) + b"\x00")
    # UTF-8 has no byte 0xFF, so the last byte of a prefix can always be raised by one.
    end = name_key(prefix)
    end = end[:-1] + bytes([end[-1] + 1]) if prefix else _NAME_END
    return start, end


def stream_key(stream_id: StreamId) -> bytes:
    return _STREAM.pack(_STREAM_KIND, stream_id)


def batch_key(stream_id: StreamId, last_seq_num: int) -> bytes:
    return _BATCH.pack(_BATCH_KIND, stream_id, last_seq_num)


def batch_key_parts(key: bytes) -> tuple[StreamId, SeqNum]:
    """Stream id and last sequence number of a key made by `batch_key`."""
    kind, stream_id, last_seq_num = _BATCH.unpack(key)
    assert kind == _BATCH_KIND, "not a batch key"
    return StreamId(stream_id), SeqNum(last_seq_num)


def batches_range(stream_id: StreamId) -> tuple[bytes, bytes]:
    """Half-open range of all batches of a stream."""
    return _STREAM.pack(_BATCH_KIND, stream_id), _STREAM.pack(_BATCH_KIND, stream_id + 1)


def streams_range() -> tuple[bytes, bytes]:
    """Half-open range of the states of all streams."""
    return bytes([_STREAM_KIND]), bytes([_STREAM_KIND + 1])


def stream_of(key: bytes) -> StreamId:
    """The stream id in a key made by `stream_key`."""
    kind, stream_id = _STREAM.unpack(key)
    assert kind == _STREAM_KIND, "not a stream's key"
    return StreamId(stream_id)


def reading_key(stream_id: StreamId, minute: int) -> bytes:
    """`minute`: since the Unix epoch."""
    return _BATCH.pack(_READING_KIND, stream_id, minute)


def reading_minute(key: bytes) -> int:
    """The minute in a key made by `reading_key`."""
    kind, _, minute = _BATCH.unpack(key)
    assert kind == _READING_KIND, "not a reading's key"
    return int(minute)


def readings_range(stream_id: StreamId) -> tuple[bytes, bytes]:
    """Half-open range of all readings of a stream, or of the basin."""
    return _STREAM.pack(_READING_KIND, stream_id), _STREAM.pack(_READING_KIND, stream_id + 1)
