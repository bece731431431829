"""What a command does to a basin, or why it does nothing: the one definition of it.

The sequencer asks before it hands a command out, apply asks again when the entry is committed.
Both ask the same function of what they know, so that a promise of the one is kept by the other.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Protocol

import msgspec

from svc_cluster.base.ids import SeqNum, StreamId
from svc_cluster.model.cipher import seq_num_max
from svc_cluster.model.idempotency_table import Expired, IdempotencyRow
from svc_cluster.model.names import is_stored_stream_name
from svc_cluster.model.record import CommandKind
from svc_cluster.model.usage import BASIN_OPS, is_report
from svc_cluster.stream.commands import (
    AppendCommand,
    BasinCommand,
    Bootstrap,
    ConfigureBasin,
    ConfigureStream,
    CountUsage,
    CreateStream,
    DeleteEmptyStream,
    DeleteStream,
    ExpireIdempotencyKeys,
    ExpirePrefix,
    FreezeBasin,
    IdempotentWrite,
    KeepUsage,
    PurgeStream,
    ReportUsage,
    Seal,
)
from svc_cluster.stream.emptiness import empty_since_due
from svc_cluster.stream.rows import BasinHead, StreamState

_U32_MAX: Final = 2**32 - 1
_SEQ_NUM_MAX: Final = 2**63 - 1


class View(Protocol):
    """A basin as of some point: applied state, or that with changes on top."""

    @property
    def basin(self) -> BasinHead | None: ...

    def stream(self, stream_id: StreamId) -> StreamState | None: ...

    def stream_by_name(self, name: str) -> StreamState | None: ...

    def idempotency_row(self, key: bytes) -> IdempotencyRow | None: ...

    def idempotency_keys_before(self, before_ms: int, at_most: int) -> list[Expired]: ...


class RejectionReason(StrEnum):
    """Why a command was rejected. Part of no wire format."""

    UNDECODABLE = "undecodable"
    NOT_BOOTSTRAPPED = "not_bootstrapped"
    ALREADY_BOOTSTRAPPED = "already_bootstrapped"
    SEALED = "sealed"
    FROZEN = "frozen"
    MALFORMED = "malformed"
    NAME_TAKEN = "name_taken"
    WRONG_STREAM_ID = "wrong_stream_id"
    NO_SUCH_STREAM = "no_such_stream"
    STREAM_DELETING = "stream_deleting"
    STREAM_NOT_DELETING = "stream_not_deleting"
    STREAM_NOT_EMPTY = "stream_not_empty"
    WRONG_FENCING_TOKEN = "wrong_fencing_token"
    WRONG_MATCH_SEQ_NUM = "wrong_match_seq_num"
    WRONG_FIRST_SEQ_NUM = "wrong_first_seq_num"
    CIPHER_EXHAUSTED = "cipher_exhausted"
    WRONG_BASE_TIMESTAMP = "wrong_base_timestamp"
    TRIM_BEYOND_TAIL = "trim_beyond_tail"
    ANSWERED_BEFORE = "answered_before"


class Change(msgspec.Struct, frozen=True):
    """The effect of one command: the basin's record, or one stream's state, before and after.
    `before` without `after`: the stream is purged. Neither: nothing changes."""

    before: StreamState | None = None
    after: StreamState | None = None
    basin: BasinHead | None = None
    idempotency_row: tuple[bytes, IdempotencyRow] | None = None
    """A request key, and what is kept under it from now on."""
    expired: tuple[Expired, ...] = ()
    """Idempotency keys that are forgotten."""


def effect(view: View, command: BasinCommand) -> Change | RejectionReason:
    """The effect of `command` on the basin as `view` shows it. Total: raises for no command."""
    basin = view.basin
    if basin is None:
        return (
            _bootstrap(command)
            if isinstance(command, Bootstrap)
            else RejectionReason.NOT_BOOTSTRAPPED
        )
    if basin.sealed_at_ms is not None:
        return RejectionReason.SEALED
    match command:
        case AppendCommand():
            if basin.frozen:
                return RejectionReason.FROZEN
            return _append(view.stream(command.stream_id), command)
        case CreateStream():
            return _create(view, basin, command)
        case ExpirePrefix():
            return _expire(view.stream(command.stream_id), command)
        case DeleteStream():
            return _delete(view.stream(command.stream_id), command)
        case DeleteEmptyStream():
            return _delete_empty(view.stream(command.stream_id), command)
        case ConfigureStream():
            return _configure(view.stream(command.stream_id), command)
        case ConfigureBasin(config):
            return Change(basin=msgspec.structs.replace(basin, config=config))
        case FreezeBasin(reason):
            return Change(basin=msgspec.structs.replace(basin, frozen=reason))
        case PurgeStream():
            return _purge(view.stream(command.stream_id))
        case Seal(sealed_at_ms):
            return Change(basin=msgspec.structs.replace(basin, sealed_at_ms=sealed_at_ms))
        case IdempotentWrite():
            return _idempotent(view, command)
        case ExpireIdempotencyKeys(before_ms, at_most):
            return Change(expired=tuple(view.idempotency_keys_before(before_ms, at_most)))
        case CountUsage() | KeepUsage():
            return Change()
        case ReportUsage(_, report):
            return Change() if is_report(report, BASIN_OPS) else RejectionReason.MALFORMED
        case Bootstrap():
            return RejectionReason.ALREADY_BOOTSTRAPPED


def _idempotent(view: View, command: IdempotentWrite) -> Change | RejectionReason:
    if view.idempotency_row(command.key) is not None:
        return RejectionReason.ANSWERED_BEFORE
    change = Change() if command.write is None else effect(view, command.write)
    if isinstance(change, RejectionReason):
        return change
    row = IdempotencyRow(command.decided_at_ms, command.answer)
    return msgspec.structs.replace(change, idempotency_row=(command.key, row))


def _bootstrap(command: Bootstrap) -> Change:
    return Change(basin=BasinHead(command.basin, command.config, command.created_at_ms))


def _append(stream: StreamState | None, command: AppendCommand) -> Change | RejectionReason:
    if stream is None:
        return RejectionReason.NO_SUCH_STREAM
    if stream.deleted_at_ms is not None:
        return RejectionReason.STREAM_DELETING
    if command.fencing_token is not None and command.fencing_token != stream.fencing_token:
        return RejectionReason.WRONG_FENCING_TOKEN
    tail = stream.tail_seq_num
    if command.match_seq_num is not None and command.match_seq_num != tail:
        return RejectionReason.WRONG_MATCH_SEQ_NUM
    placement = command.placement
    if placement.first_seq_num != tail:
        return RejectionReason.WRONG_FIRST_SEQ_NUM
    if placement.base_timestamp_ms != stream.last_timestamp_ms:
        return RejectionReason.WRONG_BASE_TIMESTAMP
    if _is_malformed(command):
        return RejectionReason.MALFORMED
    if placement.end_seq_num - 1 > seq_num_max(stream.cipher):
        return RejectionReason.CIPHER_EXHAUSTED
    trim_point = stream.trim_point
    fencing_token = stream.fencing_token
    for record in command.commands:
        if record.kind is CommandKind.FENCE:
            fencing_token = record.token
        else:
            # Up to and including the trim record itself at most; never backwards.
            wanted = min(record.trim_point, tail + record.offset + 1)
            trim_point = max(trim_point, SeqNum(wanted))
    after = StreamState(
        stream.stream_id,
        stream.name,
        stream.config,
        stream.created_at_ms,
        stream.cipher,
        None,
        placement.end_seq_num,
        placement.last_timestamp_ms,
        trim_point,
        fencing_token,
        stream.metered_bytes_appended + placement.metered_bytes,
        placement.arrival_ms,
        stream.creation_hash,
    )
    return Change(stream, after)


def _is_malformed(command: AppendCommand) -> bool:
    """What no leader of ours would propose, but an entry might say."""
    placement = command.placement
    count = placement.record_count
    return not (
        1 <= count <= _U32_MAX
        and placement.metered_bytes <= _U32_MAX
        and placement.end_seq_num <= _SEQ_NUM_MAX
        and placement.last_timestamp_ms >= command.start_timestamp_ms
        and command.start_timestamp_ms >= placement.base_timestamp_ms
        and all(record.offset < count for record in command.commands)
    )


def _create(view: View, basin: BasinHead, command: CreateStream) -> Change | RejectionReason:
    if command.stream_id != basin.next_stream_id:
        return RejectionReason.WRONG_STREAM_ID
    # A log may be older than the rule against NUL, and means the same on every replica.
    if not is_stored_stream_name(command.name):
        return RejectionReason.MALFORMED
    if view.stream_by_name(command.name) is not None:
        return RejectionReason.NAME_TAKEN
    next_id = StreamId(command.stream_id + 1)
    return Change(
        after=StreamState(
            stream_id=command.stream_id,
            name=command.name,
            config=command.config,
            created_at_ms=command.created_at_ms,
            cipher=command.cipher,
            creation_hash=command.creation_hash,
        ),
        basin=msgspec.structs.replace(basin, next_stream_id=next_id),
    )


def _expire(stream: StreamState | None, command: ExpirePrefix) -> Change | RejectionReason:
    if stream is None:
        return RejectionReason.NO_SUCH_STREAM
    if command.trim_point > stream.tail_seq_num:
        return RejectionReason.TRIM_BEYOND_TAIL
    if command.trim_point <= stream.trim_point:
        return Change()
    trim_point = SeqNum(command.trim_point)
    return Change(stream, msgspec.structs.replace(stream, trim_point=trim_point))


def _delete(
    stream: StreamState | None, command: DeleteStream | DeleteEmptyStream
) -> Change | RejectionReason:
    if stream is None:
        return RejectionReason.NO_SUCH_STREAM
    if stream.deleted_at_ms is not None:
        return RejectionReason.STREAM_DELETING
    return Change(stream, msgspec.structs.replace(stream, deleted_at_ms=command.deleted_at_ms))


def _delete_empty(
    stream: StreamState | None, command: DeleteEmptyStream
) -> Change | RejectionReason:
    if stream is not None and stream.deleted_at_ms is None:
        due_ms = empty_since_due(stream)
        if due_ms is None or due_ms > command.deleted_at_ms:
            return RejectionReason.STREAM_NOT_EMPTY
    return _delete(stream, command)


def _configure(stream: StreamState | None, command: ConfigureStream) -> Change | RejectionReason:
    if stream is None:
        return RejectionReason.NO_SUCH_STREAM
    if stream.deleted_at_ms is not None:
        return RejectionReason.STREAM_DELETING
    return Change(stream, msgspec.structs.replace(stream, config=command.config))


def _purge(stream: StreamState | None) -> Change | RejectionReason:
    if stream is None:
        return RejectionReason.NO_SUCH_STREAM
    if stream.deleted_at_ms is None:
        return RejectionReason.STREAM_NOT_DELETING
    return Change(stream, None)
