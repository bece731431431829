"""Batches of records as they travel: encoded bytes beside a few integers.

The gateway decodes, counts and encodes a request once; sequencer, WAL, followers and store move
`records` as it is. It is the wire form of `AppendInput` with nothing but its `records` field
(proto/s2/v1/s2.proto), so that joining two of them is joining their bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.model.cipher import StreamIdentity


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a stream. As a tail: the next one to be assigned, and the last timestamp."""

    seq_num: SeqNum
    timestamp_ms: TimestampMs


class CommandKind(IntEnum):
    FENCE = 1
    TRIM = 2


@dataclass(frozen=True, slots=True)
class CommandRecord:
    """A record of a batch that acts on the stream when it is applied."""

    offset: int
    """Place in the batch, from 0."""
    kind: CommandKind
    token: str = ""
    """FENCE: the new fencing token; empty clears it."""
    trim_point: int = 0
    """TRIM: the earliest sequence number to keep, unclamped."""


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A gateway makes a StoredBatch of one append, with 1 to 1000 records and at most 1 MiB
    metered."""

    records: bytes
    record_count: int
    metered_bytes: int
    timestamp_max_ms: int | None = None
    """The largest client timestamp given, or None when no record has one."""
    timestamps_given: int = 0
    """How many of the records carry a client timestamp."""
    commands: tuple[CommandRecord, ...] = ()
    timestamp_first_ms: int | None = None
    """The client timestamp of the first record, or None when it has none: with it the start
    position of the acknowledgement is known without looking into `records`."""
    sealed_for: StreamIdentity | None = None
    """The stream whose cipher sealed the data records, so that they are of use nowhere else. None:
    they are as the client gave them. `metered_bytes` counts what the client gave, always."""
    op_units: int = 0
    """Append operations to be counted for it: 1 for the first batch of a connection to a stream in
    a minute, so that a minute of appends counts once."""


class TimestampingMode(IntEnum):
    CLIENT_PREFER = 0
    CLIENT_REQUIRE = 1
    ARRIVAL = 2


@dataclass(frozen=True, slots=True)
class BatchPlacement:
    """What the leader adds to a stored batch. With it, any reader computes the same position for
    each record, for ever (`stream.timestamping.stamp`)."""

    first_seq_num: SeqNum
    record_count: int
    metered_bytes: int
    base_timestamp_ms: TimestampMs
    """The stream's last timestamp before this batch."""
    arrival_ms: TimestampMs
    last_timestamp_ms: TimestampMs
    """Timestamp of the last record of the batch."""
    mode: TimestampingMode
    uncapped: bool
    expires_at_ms: TimestampMs | None
    """By arrival, never by record timestamp; None: never."""

    @property
    def end_seq_num(self) -> SeqNum:
        return SeqNum(self.first_seq_num + self.record_count)


@dataclass(frozen=True, slots=True)
class SequencedBatch:
    """A batch with its place, as the store holds it and a read returns it."""

    placement: BatchPlacement
    records: bytes


@dataclass(frozen=True, slots=True)
class SessionSequence:
    """A SessionSequence says where a batch stands in a pipelined session. Batches with one
    `session_id` are appended in the order of their numbers without a hole, or not at all."""

    session_id: bytes
    """`SESSION_ID_BYTES` of random, made by the gateway."""
    number: int
    """From 0."""


SESSION_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class AppendAck:
    """An AppendAck has the `start` of the first record and the `end` behind the last. The timestamp
    of `end` is the last record's; `tail` is the stream's when the append was acknowledged."""

    start: Position
    end: Position
    tail: Position
    is_repeated: bool = False
    """Whether this is the acknowledgement of an earlier request that this one repeats: nothing was
    appended now."""
