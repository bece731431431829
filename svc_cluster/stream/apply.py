"""Committed entries become changes of the store: worked out first, taken over once written.

No clock, no randomness, and nothing in an entry makes it raise: what does not hold is rejected,
without effect, by every replica alike, and the applied index moves on.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Final

import xxhash

from svc_cluster.base.ids import LogIndex, SeqNum, StreamId, Term
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.steps import at_once
from svc_cluster.base.write_set import WriteSet
from svc_cluster.model.idempotency_table import Mark
from svc_cluster.model.record import AppendAck, Position, SequencedBatch
from svc_cluster.stream import keys, rows
from svc_cluster.stream.basin_state import BasinState
from svc_cluster.stream.basin_usage import EntryUsage
from svc_cluster.stream.batch_row import HEADER_BYTES, encode_batch
from svc_cluster.stream.commands import (
    AppendCommand,
    BasinCommand,
    Bootstrap,
    CountUsage,
    ExpirePrefix,
    IdempotentWrite,
    KeepUsage,
    PurgeStream,
    ReportUsage,
)
from svc_cluster.stream.effects import Change, RejectionReason, effect
from svc_cluster.stream.overlay import Overlay
from svc_cluster.stream.retention import freed_bytes
from svc_cluster.stream.rows import AppliedRow, BasinHead, StreamState

ROWS_OF_A_COMMAND: Final = 4
"""So many rows written cost about as much as a command."""

_DIGEST: Final = struct.Struct("<Q")
_OP: Final = struct.Struct("<BQQ")
_POSITION: Final = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True)
class Applied:
    """The command took effect. `ack` is set for appends."""

    ack: AppendAck | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """The command had no effect, on any replica."""

    reason: RejectionReason


Outcome = Applied | Rejected

_APPLIED: Final = Applied()
_ABOUT_USAGE: Final = (Bootstrap, CountUsage, KeepUsage, ReportUsage)


@dataclass(slots=True)
class StreamEvent:
    """What an entry did to one stream, for those who follow it."""

    stream_id: StreamId
    name: str
    tail: Position
    trim_point: SeqNum
    batches: list[SequencedBatch] = field(default_factory=list)
    """Appended by the entry, in order."""
    created: bool = False
    deleted: bool = False
    """The stream is refused everything from here on."""
    purged: bool = False
    trimmed: bool = False
    trimmed_records: int = 0
    """How many of them."""


@dataclass(slots=True)
class Plan:
    """What one entry will do. Good until any other plan is committed to the same state."""

    log_index: LogIndex
    write_set: WriteSet = field(default_factory=WriteSet)
    """Relative to the replica's prefix; with the new applied index and digest."""
    outcomes: list[Outcome] = field(default_factory=list)
    """One for each command, in order; a single rejection for an entry that cannot be decoded."""
    events: dict[StreamId, StreamEvent] = field(default_factory=dict)
    """The events of the streams that the entry changed, in order of their first change."""
    basin: BasinHead | None = None
    """The basin's new record, if the entry changed it."""
    streams: dict[StreamId, StreamState | None] = field(default_factory=dict)
    """New states of the streams that the entry changed; None: purged."""
    idempotency_mark: Mark = Mark()
    """The mark of the idempotency table behind the entry."""
    applied: AppliedRow = field(default_factory=AppliedRow)
    usage: EntryUsage = field(kw_only=True)

    @property
    def sealed(self) -> bool:
        """This entry ended the basin's life."""
        return self.basin is not None and self.basin.sealed_at_ms is not None


def plan(
    state: BasinState, log_index: LogIndex, term: Term, commands: list[BasinCommand] | None
) -> Plan:
    """Work out the entry at `log_index`, the next one behind what is applied.

    `commands` is empty for an entry of the engine's own, None for one that cannot be decoded.
    Changes nothing: the same call gives the same plan until one is committed.
    """
    return at_once(plan_steps(state, log_index, term, commands))


def plan_steps(
    state: BasinState, log_index: LogIndex, term: Term, commands: list[BasinCommand] | None
) -> Generator[int, None, Plan]:
    """Does what `plan` does, with a pause behind each command and each kind of row. What is yielded
    says how much was done, in commands of the plain sort. The state may be read in between, and no
    plan may be committed to it."""
    assert log_index == state.applied_index + 1, "entries are applied one by one, without a gap"
    out = Plan(log_index, usage=EntryUsage(state.usage))
    overlay = Overlay(state)
    if commands is None:
        out.outcomes.append(Rejected(RejectionReason.UNDECODABLE))
        commands = []
    for command in commands:
        change = effect(overlay, command)
        if isinstance(change, RejectionReason):
            out.outcomes.append(Rejected(change))
            yield 1
            continue
        overlay.adopt(change)
        write = command.write if isinstance(command, IdempotentWrite) else command
        out.outcomes.append(_carry_out(out, state.reader, write, change))
        if isinstance(command, _ABOUT_USAGE):
            _count(out, overlay, command)
        yield 1 + len(command.report.minutes) if isinstance(command, ReportUsage) else 1
    changed = len(overlay.streams) // ROWS_OF_A_COMMAND
    _put_states(out, overlay)
    if changed:
        yield changed
    out.usage.write(out.write_set)
    if changed:
        yield changed
    expired = [
        (decided_at_ms, key) for key, decided_at_ms in overlay.idempotency_keys_expired.items()
    ]
    out.idempotency_mark = state.idempotency.write(out.write_set, overlay.idempotency_rows, expired)
    out.basin = overlay.basin_changed
    out.streams = overlay.streams
    written = len(out.write_set.ops) // ROWS_OF_A_COMMAND
    if written:
        yield written
    digest = _next_digest(state.digest, log_index, term, out.write_set)
    if written:
        yield written
    out.applied = AppliedRow(log_index, term, digest)
    out.write_set.put(keys.APPLIED_KEY, rows.encode_applied(out.applied))
    return out


def commit(state: BasinState, planned: Plan) -> None:
    """Take over a plan whose write set is in the store."""
    assert planned.log_index == state.applied_index + 1, "a plan is committed once, in order"
    state.take_over(planned.applied, planned.basin, planned.streams)
    state.idempotency.commit(planned.idempotency_mark)
    state.usage.commit(planned.usage)


def _carry_out(
    out: Plan, reader: KeyReader, command: BasinCommand | None, change: Change
) -> Outcome:
    """Write what belongs to this one command. The states of streams follow once an entry, and so do
    the idempotency keys, which may be all there is (`command` None)."""
    before, after = change.before, change.after
    stream = after if after is not None else before
    if stream is None:
        return _APPLIED
    event = out.events.get(stream.stream_id)
    if event is None:
        event = StreamEvent(stream.stream_id, stream.name, stream.tail, stream.trim_point)
        out.events[stream.stream_id] = event
    if isinstance(command, AppendCommand):
        assert before is not None, "an append changes a stream"
        assert after is not None, "an append removes no stream"
        return _carry_out_append(out, reader, command, before, after, event)
    write_set = out.write_set
    event.trim_point = stream.trim_point
    if before is None:
        event.created = True
        out.usage.created(stream)
        write_set.put(keys.name_key(stream.name), rows.encode_entry(stream.entry))
    elif after is None:
        event.purged = True
        write_set.delete(keys.name_key(stream.name))
        start, end = keys.batches_range(stream.stream_id)
        frees = freed_bytes(reader, stream, stream.tail_seq_num)
        write_set.delete_range(start, end, frees=frees)
        if isinstance(command, PurgeStream):
            out.usage.purged(stream, command.at_ms)
    elif after.deleted_at_ms is not None and before.deleted_at_ms is None:
        event.deleted = True
        write_set.put(keys.name_key(stream.name), rows.encode_entry(stream.entry))
    else:
        _trim(out, reader, event, before, after)
        if isinstance(command, ExpirePrefix):
            out.usage.trimmed(before, after, event.batches, command.at_ms)
    return _APPLIED


def _count(
    out: Plan, overlay: Overlay, command: Bootstrap | CountUsage | KeepUsage | ReportUsage
) -> None:
    usage = out.usage
    match command:
        case ReportUsage(at_ms, report):
            usage.take(report, at_ms)
        case CountUsage(at_ms):
            events = out.events
            usage.begin_with(
                at_ms, overlay.streams, lambda one: events[one].batches if one in events else ()
            )
        case KeepUsage():
            usage.keep_hours()
        case Bootstrap():
            if command.counts_usage:
                usage.begin(command.created_at_ms)


def _carry_out_append(
    out: Plan,
    reader: KeyReader,
    command: AppendCommand,
    before: StreamState,
    after: StreamState,
    event: StreamEvent,
) -> Outcome:
    placement = command.placement
    out.write_set.put(
        keys.batch_key(after.stream_id, placement.end_seq_num - 1),
        encode_batch(placement, before.metered_bytes_appended, command.records),
        head_bytes=HEADER_BYTES,
    )
    _trim(out, reader, event, before, after)
    end = after.tail
    event.tail = end
    event.trim_point = after.trim_point
    event.batches.append(SequencedBatch(placement, command.records))
    out.usage.appended(command, before, after, event.batches)
    return Applied(ack_of(command))


def ack_of(command: AppendCommand) -> AppendAck:
    """What acknowledges it: the tail is the stream's right behind it."""
    placement = command.placement
    start = Position(placement.first_seq_num, command.start_timestamp_ms)
    end = Position(placement.end_seq_num, placement.last_timestamp_ms)
    return AppendAck(start, end, end)


def _trim(
    out: Plan, reader: KeyReader, event: StreamEvent, before: StreamState, after: StreamState
) -> None:
    """Remove the batches that lie wholly below the new trim point. Those below the old one are
    gone already, so the range is as narrow as what there is to remove."""
    if after.trim_point > before.trim_point:
        event.trimmed = True
        event.trimmed_records += after.trim_point - before.trim_point
        out.write_set.delete_range(
            keys.batch_key(after.stream_id, before.trim_point),
            keys.batch_key(after.stream_id, after.trim_point),
            frees=freed_bytes(reader, before, after.trim_point),
        )


def _put_states(out: Plan, overlay: Overlay) -> None:
    """Once an entry, however many of its commands touched a stream."""
    if overlay.basin_changed is not None:
        out.write_set.put(keys.BASIN_KEY, rows.encode_basin(overlay.basin_changed))
    for stream_id, stream in overlay.streams.items():
        if stream is None:
            out.write_set.delete(keys.stream_key(stream_id))
        else:
            out.write_set.put(keys.stream_key(stream_id), rows.encode_stream(stream))


def _next_digest(digest: int, log_index: LogIndex, term: Term, write_set: WriteSet) -> int:
    """Chain the digest over an entry's place and all that it writes but the digest itself."""
    hasher = xxhash.xxh3_64(_DIGEST.pack(digest))
    for key, value, end in write_set.ops:
        if value is not None:
            hasher.update(_OP.pack(1, len(key), len(value)) + key)
            hasher.update(value)
        elif end is None:
            hasher.update(_OP.pack(2, len(key), 0) + key)
        else:
            hasher.update(_OP.pack(3, len(key), len(end)) + key + end)
    hasher.update(_POSITION.pack(log_index, term))
    return hasher.intdigest()
