"""The values behind the keys of a basin, and their encoding.

Small ones are MessagePack arrays: a field may be added at the end, with a default, and never
moved. A batch is a fixed header and the record bytes as they came.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from svc_cluster.base.ids import LogIndex, SeqNum, StreamId, Term, TimestampMs
from svc_cluster.model.record import Position
from svc_cluster.model.stream_config import (
    BasinConfig,
    PartialStreamConfig,
    Retention,
    StreamConfig,
    members_of,
    plain,
)

FIRST_STREAM_ID: Final = StreamId(1)


class BasinHead(msgspec.Struct, frozen=True):
    """What a basin is, apart from its streams."""

    name: str
    config: BasinConfig
    created_at_ms: TimestampMs
    sealed_at_ms: TimestampMs | None = None
    next_stream_id: StreamId = FIRST_STREAM_ID
    frozen: str = ""
    """Why appends are refused; empty: they are not."""


class StreamEntry(msgspec.Struct, frozen=True):
    """What a listing shows of a stream."""

    name: str
    stream_id: StreamId
    created_at_ms: TimestampMs
    deleted_at_ms: TimestampMs | None
    cipher: str | None


class StreamState(msgspec.Struct, frozen=True):
    """One stream (one incarnation of a name) as of some applied index.

    `trim_point <= tail_seq_num` always; `last_timestamp_ms` never decreases.
    """

    stream_id: StreamId
    name: str
    config: StreamConfig
    created_at_ms: TimestampMs
    cipher: str | None = None
    deleted_at_ms: TimestampMs | None = None
    """Set: everything is refused, the name is still taken."""
    tail_seq_num: SeqNum = SeqNum(0)
    """The next sequence number to be assigned."""
    last_timestamp_ms: TimestampMs = TimestampMs(0)
    trim_point: SeqNum = SeqNum(0)
    """The first readable sequence number."""
    fencing_token: str = ""
    metered_bytes_appended: int = 0
    """The sum of all batches there ever were; what of them is still stored:
    `basin_usage.stored_metered_bytes`."""
    last_arrival_ms: TimestampMs | None = None
    """When the last batch arrived; None before the first."""
    creation_hash: bytes = b""
    """The hash of the request that created it; empty: nothing repeats that."""

    @property
    def tail(self) -> Position:
        return Position(self.tail_seq_num, self.last_timestamp_ms)

    @property
    def entry(self) -> StreamEntry:
        return StreamEntry(
            self.name, self.stream_id, self.created_at_ms, self.deleted_at_ms, self.cipher
        )


class AppliedRow(msgspec.Struct, frozen=True):
    """How far the state is. Equal `applied_index` means equal `digest` on every replica."""

    applied_index: LogIndex = LogIndex(0)
    term: Term = Term(0)
    digest: int = 0


class _PartialConfigRow(msgspec.Struct, frozen=True, array_like=True):
    storage_class: str | None
    has_retention: bool
    retention_age_seconds: int | None
    timestamping_mode: int | None
    timestamping_uncapped: bool | None
    delete_on_empty_min_age_seconds: int | None


class _SharedPartialConfigRow(_PartialConfigRow, frozen=True, array_like=True):
    """This is the row of a default that says something of shared caching. Others keep the row that
    they had before, so that what an entry of then writes is the same on every release."""

    shared_caching: bool | None = None


_WidestPartialConfigRow = _SharedPartialConfigRow


class _BasinRow(msgspec.Struct, frozen=True, array_like=True):
    name: str
    created_at_ms: int
    sealed_at_ms: int | None
    next_stream_id: int
    default_stream_config: _PartialConfigRow | None
    stream_cipher: str | None
    create_stream_on_append: bool
    create_stream_on_read: bool


class _FrozenBasinRow(_BasinRow, frozen=True, array_like=True):
    """This is the row of a basin that is frozen. Others keep the row that they had before."""

    frozen: str = ""


class _ReadBasinRow(_FrozenBasinRow, frozen=True, array_like=True):
    """A row as it is read, whatever kind of default it has."""

    default_stream_config: _WidestPartialConfigRow | None


class _NameRow(msgspec.Struct, frozen=True, array_like=True):
    stream_id: int
    created_at_ms: int
    deleted_at_ms: int | None
    cipher: str | None


class _StreamRow(msgspec.Struct, frozen=True, array_like=True):
    name: str
    storage_class: str
    retention_age_seconds: int | None
    timestamping_mode: int
    timestamping_uncapped: bool
    delete_on_empty_min_age_seconds: int
    created_at_ms: int
    cipher: str | None
    deleted_at_ms: int | None
    tail_seq_num: int
    last_timestamp_ms: int
    trim_point: int
    fencing_token: str
    metered_bytes_appended: int
    last_arrival_ms: int | None
    creation_hash: bytes = b""


class _SharedStreamRow(_StreamRow, frozen=True, array_like=True):
    """This is the row of a stream that shared caches may keep. Others keep the row that they had
    before."""

    shared_caching: bool = False


_WidestStreamRow = _SharedStreamRow
"""The kind of row that has every member there is; the others lack its last ones."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode_basin: Final = msgspec.msgpack.Decoder(_ReadBasinRow).decode
_decode_name: Final = msgspec.msgpack.Decoder(_NameRow).decode
_decode_stream: Final = msgspec.msgpack.Decoder(_WidestStreamRow).decode
_APPLIED: Final = struct.Struct(">QQQ")


def encode_applied(row: AppliedRow) -> bytes:
    return _APPLIED.pack(row.applied_index, row.term, row.digest)


def decode_applied(value: bytes) -> AppliedRow:
    applied_index, term, digest = _APPLIED.unpack(value)
    return AppliedRow(LogIndex(applied_index), Term(term), digest)


def encode_basin(basin: BasinHead) -> bytes:
    config = basin.config
    default = config.default_stream_config
    partial = None
    if default is not None:
        retention = default.retention
        members = plain(default)
        kind: type[_PartialConfigRow] = _SharedPartialConfigRow
        if members["shared_caching"] is None:
            del members["shared_caching"]
            kind = _PartialConfigRow
        partial = kind(
            has_retention=retention is not None,
            retention_age_seconds=None if retention is None else retention.age_seconds,
            **members,
        )
    more: dict[str, str] = {"frozen": basin.frozen} if basin.frozen else {}
    return _encode(
        (_FrozenBasinRow if basin.frozen else _BasinRow)(
            name=basin.name,
            created_at_ms=basin.created_at_ms,
            sealed_at_ms=basin.sealed_at_ms,
            next_stream_id=basin.next_stream_id,
            default_stream_config=partial,
            stream_cipher=config.stream_cipher,
            create_stream_on_append=config.create_stream_on_append,
            create_stream_on_read=config.create_stream_on_read,
            **more,
        )
    )


def decode_basin(value: bytes) -> BasinHead:
    row = _decode_basin(value)
    partial = row.default_stream_config
    default = None
    if partial is not None:
        default = PartialStreamConfig(
            retention=Retention(partial.retention_age_seconds) if partial.has_retention else None,
            **members_of(partial),
        )
    config = BasinConfig(
        default_stream_config=default,
        stream_cipher=row.stream_cipher,
        create_stream_on_append=row.create_stream_on_append,
        create_stream_on_read=row.create_stream_on_read,
    )
    return BasinHead(
        row.name,
        config,
        TimestampMs(row.created_at_ms),
        None if row.sealed_at_ms is None else TimestampMs(row.sealed_at_ms),
        StreamId(row.next_stream_id),
        row.frozen,
    )


def encode_entry(entry: StreamEntry) -> bytes:
    """The value under the stream's name; the name itself is in the key."""
    return _encode(
        _NameRow(entry.stream_id, entry.created_at_ms, entry.deleted_at_ms, entry.cipher)
    )


def decode_entry(name: str, value: bytes) -> StreamEntry:
    row = _decode_name(value)
    deleted = None if row.deleted_at_ms is None else TimestampMs(row.deleted_at_ms)
    return StreamEntry(
        name, StreamId(row.stream_id), TimestampMs(row.created_at_ms), deleted, row.cipher
    )


def encode_stream(stream: StreamState) -> bytes:
    """The value under the stream's id; the id itself is in the key."""
    config = stream.config
    # spelled out: a row is written for each append
    return _encode(
        (_SharedStreamRow if config.shared_caching else _StreamRow)(
            stream.name,
            config.storage_class,
            config.retention.age_seconds,
            int(config.timestamping_mode),
            config.timestamping_uncapped,
            config.delete_on_empty_min_age_seconds,
            stream.created_at_ms,
            stream.cipher,
            stream.deleted_at_ms,
            stream.tail_seq_num,
            stream.last_timestamp_ms,
            stream.trim_point,
            stream.fencing_token,
            stream.metered_bytes_appended,
            stream.last_arrival_ms,
            stream.creation_hash,
            *((True,) if config.shared_caching else ()),
        )
    )


def decode_stream(stream_id: StreamId, value: bytes) -> StreamState:
    row = _decode_stream(value)
    config = StreamConfig(retention=Retention(row.retention_age_seconds), **members_of(row))
    return StreamState(
        stream_id=stream_id,
        name=row.name,
        config=config,
        created_at_ms=TimestampMs(row.created_at_ms),
        cipher=row.cipher,
        deleted_at_ms=None if row.deleted_at_ms is None else TimestampMs(row.deleted_at_ms),
        tail_seq_num=SeqNum(row.tail_seq_num),
        last_timestamp_ms=TimestampMs(row.last_timestamp_ms),
        trim_point=SeqNum(row.trim_point),
        fencing_token=row.fencing_token,
        metered_bytes_appended=row.metered_bytes_appended,
        last_arrival_ms=None if row.last_arrival_ms is None else TimestampMs(row.last_arrival_ms),
        creation_hash=row.creation_hash,
    )
