"""Everything that can change a basin: the entries of its group's log are lists of these.

A command carries the leader's readings (sequence numbers, times); apply takes no clock and no
randomness, so every replica does the same with it. Wire form: codec/log_entry.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from svc_cluster.base.ids import StreamId, TimestampMs
from svc_cluster.model.record import BatchPlacement, CommandRecord
from svc_cluster.model.stream_config import BasinConfig, StreamConfig
from svc_cluster.model.usage import UsageReport


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """First command of a basin. A second one is rejected without effect."""

    basin: str
    config: BasinConfig
    created_at_ms: TimestampMs
    counts_usage: bool = False
    """Its use is counted from its beginning on; not said by entries from before that was done."""


@dataclass(frozen=True, slots=True)
class CreateStream:
    """`stream_id` is the next unused one of the group."""

    stream_id: StreamId
    name: str
    config: StreamConfig
    created_at_ms: TimestampMs
    cipher: str | None = None
    creation_hash: bytes = b""
    """The hash of the request that asked for it (codec/creation_hash.py); empty: nothing repeats
    it."""


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
    op_units: int = 0
    """The same as StoredBatch.op_units."""


@dataclass(frozen=True, slots=True)
class ExpirePrefix:
    """Retention: records below `trim_point` have outlived their age."""

    stream_id: StreamId
    trim_point: int
    at_ms: TimestampMs = TimestampMs(0)
    """0: in entries from before usage was counted."""


@dataclass(frozen=True, slots=True)
class DeleteStream:
    """The stream is refused everything from here on; its name is still taken."""

    stream_id: StreamId
    deleted_at_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class DeleteEmptyStream:
    """Does what DeleteStream does, if the stream has been empty for its minimum age by then."""

    stream_id: StreamId
    deleted_at_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class PurgeStream:
    """Remove a deleted stream's records and free its name."""

    stream_id: StreamId
    at_ms: TimestampMs = TimestampMs(0)
    """The same as in ExpirePrefix."""


@dataclass(frozen=True, slots=True)
class Seal:
    """Last command of a basin that is being deleted: everything after it is rejected."""

    sealed_at_ms: TimestampMs


Write = AppendCommand | CreateStream | ConfigureStream | ConfigureBasin | DeleteStream
"""What a client may ask for, and ask for again."""


@dataclass(frozen=True, slots=True)
class IdempotentWrite:
    """An IdempotentWrite is a write that its client may repeat. The `write` and the answer by which
    it is known from then on take effect together or not at all. A second one with the same key is
    rejected."""

    key: bytes
    """REQUEST_KEY_BYTES of a hash: which request it is (codec/request_key.py)."""
    decided_at_ms: TimestampMs
    answer: bytes
    """What the client is told, now and whenever it repeats the request; opaque here."""
    write: Write | None = None
    """None: the answer is a refusal, or nothing had to change."""


@dataclass(frozen=True, slots=True)
class ExpireIdempotencyKeys:
    """Forget the idempotency keys decided before `before_ms`, oldest first, at most `at_most`."""

    before_ms: TimestampMs
    at_most: int


@dataclass(frozen=True, slots=True)
class FreezeBasin:
    """Appends are refused from here on with this reason. Empty: they are taken again."""

    reason: str


@dataclass(frozen=True, slots=True)
class CountUsage:
    """Count the basin's use from here on; for basins that were bootstrapped without that."""

    at_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class KeepUsage:
    """Keep the hours of what is too old for its minutes, instead of nothing (ADR 0051)."""


@dataclass(frozen=True, slots=True)
class ReportUsage:
    """What a gateway counted. One that was taken before has no effect."""

    at_ms: TimestampMs
    report: UsageReport


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
    | IdempotentWrite
    | ExpireIdempotencyKeys
    | CountUsage
    | KeepUsage
    | FreezeBasin
    | ReportUsage
)
