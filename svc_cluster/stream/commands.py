"""Everything that can change a basin: the entries of its group's log are lists of these.

A command carries the leader's readings (sequence numbers, times); apply takes no clock and no
randomness, so every replica does the same with it. Wire form: codec/log_entry.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from svc_cluster.base.ids import StreamId, TimestampMs
from svc_cluster.model.record import BatchPlacement, CommandRecord
from svc_cluster.model.stream_config import BasinConfig, StreamConfig


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """First command of a basin. A second one is rejected without effect."""

    basin: str
    config: BasinConfig
    created_at_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class CreateStream:
    """`stream_id` is the next unused one of the group."""

    stream_id: StreamId
    name: str
    config: StreamConfig
    created_at_ms: TimestampMs
    cipher: str | None = None
    creation_hash: bytes = b""
    """Of the request that asked for it (codec/creation_hash.py); empty: nothing repeats it."""


@dataclass(frozen=True, slots=True)
class ConfigureStream:
    """The stream's whole configuration, as the leader worked it out. For what comes behind it."""

    stream_id: StreamId
    config: StreamConfig


@dataclass(frozen=True, slots=True)
class ConfigureBasin:
    """The basin's whole configuration. For streams created behind it."""

    config: BasinConfig


@dataclass(frozen=True, slots=True)
class AppendCommand:
    """One batch with its place. `match_seq_num` and `fencing_token` are the client's conditions,
    kept so that apply can check again what the sequencer promised."""

    stream_id: StreamId
    placement: BatchPlacement
    records: bytes
    start_timestamp_ms: TimestampMs
    """Timestamp of the first record, for the acknowledgement."""
    commands: tuple[CommandRecord, ...] = ()
    match_seq_num: int | None = None
    fencing_token: str | None = None


@dataclass(frozen=True, slots=True)
class ExpirePrefix:
    """Retention: records below `trim_point` have outlived their age."""

    stream_id: StreamId
    trim_point: int


@dataclass(frozen=True, slots=True)
class DeleteStream:
    """The stream is refused everything from here on; its name is still taken."""

    stream_id: StreamId
    deleted_at_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class DeleteEmptyStream:
    """As DeleteStream, if the stream is empty and has been for its minimum age by then."""

    stream_id: StreamId
    deleted_at_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class PurgeStream:
    """Remove a deleted stream's records and free its name."""

    stream_id: StreamId


@dataclass(frozen=True, slots=True)
class Seal:
    """Last command of a basin that is being deleted: everything after it is rejected."""

    sealed_at_ms: TimestampMs


BasinCommand = (
    Bootstrap
    | ConfigureBasin
    | CreateStream
    | ConfigureStream
    | AppendCommand
    | ExpirePrefix
    | DeleteStream
    | DeleteEmptyStream
    | PurgeStream
    | Seal
)
