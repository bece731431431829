"""Messages between gateways and nodes: values of the tree to protobuf and back.

Only shapes change here; who may ask what is decided by the two ends.
"""

from __future__ import annotations

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base import errors
from svc_cluster.base.errors import ErrorCode, MalformedError, ServiceError
from svc_cluster.base.ids import NodeId, SeqNum, TimestampMs
from svc_cluster.base.limits import BATCH_RECORDS_MAX
from svc_cluster.codec.entry_since import NotActiveYetError
from svc_cluster.model.cipher import StreamIdentity
from svc_cluster.model.leader_stages import LeaderStages
from svc_cluster.model.read_bounds import ReadBounds
from svc_cluster.model.record import (
    SESSION_ID_BYTES,
    AppendAck,
    BatchPlacement,
    CommandKind,
    CommandRecord,
    Position,
    SequencedBatch,
    SessionSequence,
    StoredBatch,
    TimestampingMode,
)


class NotLeaderHereError(ServiceError):
    """The replica asked does not lead; nothing was done. Never reaches an HTTP client."""

    code = ErrorCode.UNAVAILABLE

    def __init__(self, leader: NodeId | None) -> None:
        super().__init__("the replica does not lead its group")
        self.leader = leader


class GroupUnknownError(ServiceError):
    """The node has no replica of the group; nothing was done. Never reaches an HTTP client."""

    code = ErrorCode.UNAVAILABLE

    def __init__(self) -> None:
        super().__init__("the node has no replica of the group")


def position_to_pb(position: Position) -> pb.Position:
    return pb.Position(seq_num=position.seq_num, timestamp_ms=position.timestamp_ms)


def position_from_pb(message: pb.Position) -> Position:
    return Position(SeqNum(message.seq_num), TimestampMs(message.timestamp_ms))


def append_to_pb(
    into: pb.AppendRequest,
    stream: str,
    batch: StoredBatch,
    match_seq_num: int | None,
    fencing_token: str | None,
    session: SessionSequence | None = None,
) -> None:
    into.stream = stream
    into.records = batch.records
    into.record_count = batch.record_count
    into.metered_bytes = batch.metered_bytes
    if batch.timestamp_max_ms is not None:
        into.timestamp_max_ms = batch.timestamp_max_ms
        into.timestamps_given = batch.timestamps_given
    if batch.timestamp_first_ms is not None:
        into.timestamp_first_ms = batch.timestamp_first_ms
    if batch.sealed_for is not None:
        identity_to_pb(into.sealed_for, batch.sealed_for)
    for command in batch.commands:
        into.commands.add(
            offset=command.offset,
            kind=command.kind,
            token=command.token,
            trim_point=command.trim_point,
        )
    if match_seq_num is not None:
        into.match_seq_num = match_seq_num
    if fencing_token is not None:
        into.fencing_token = fencing_token
    if batch.op_units:
        into.op_units = batch.op_units
    if session is not None:
        into.session.session_id = session.session_id
        into.session.sequence = session.number


def session_sequence_from_pb(message: pb.AppendRequest) -> SessionSequence | None:
    """None for a batch of no session. Raises MalformedError for an identifier of another length:
    what is kept of a session must be small."""
    if not message.HasField("session"):
        return None
    if len(message.session.session_id) != SESSION_ID_BYTES:
        raise MalformedError(ErrorCode.BAD_PROTO, "a session's identifier has another length")
    return SessionSequence(message.session.session_id, message.session.sequence)


def requests_from_pb(message: pb.AppendRequest) -> int:
    """How many appends of clients it stands for."""
    return max(message.requests, 1)


def batch_from_pb(message: pb.AppendRequest) -> StoredBatch:
    """Raises MalformedError for a kind of command that this version does not know.

    It does so too for more records or commands than a batch has, before anything is made of
    them."""
    if max(message.record_count, len(message.commands)) > BATCH_RECORDS_MAX:
        raise MalformedError(
            ErrorCode.BAD_PROTO, f"a batch has at most {BATCH_RECORDS_MAX} records"
        )
    if message.requests > message.record_count:
        raise MalformedError(ErrorCode.BAD_PROTO, "a batch of more requests than records")
    return StoredBatch(
        records=message.records,
        record_count=message.record_count,
        metered_bytes=message.metered_bytes,
        timestamp_max_ms=(
            message.timestamp_max_ms if message.HasField("timestamp_max_ms") else None
        ),
        timestamps_given=message.timestamps_given,
        timestamp_first_ms=(
            message.timestamp_first_ms if message.HasField("timestamp_first_ms") else None
        ),
        commands=tuple(
            CommandRecord(c.offset, _command_kind(c.kind), c.token, c.trim_point)
            for c in message.commands
        )
        if message.commands
        else (),
        sealed_for=(
            identity_from_pb(message.sealed_for) if message.HasField("sealed_for") else None
        ),
        op_units=message.op_units,
    )


def identity_to_pb(into: pb.StreamIdentity, identity: StreamIdentity) -> None:
    into.group_id = identity.group_id
    into.stream_id = identity.stream_id
    if identity.cipher is not None:
        into.cipher = identity.cipher


def identity_from_pb(message: pb.StreamIdentity) -> StreamIdentity:
    return StreamIdentity(
        message.group_id,
        message.stream_id,
        message.cipher if message.HasField("cipher") else None,
    )


def _command_kind(value: int) -> CommandKind:
    try:
        return CommandKind(value)
    except ValueError:
        raise MalformedError(ErrorCode.BAD_PROTO, "an unknown kind of command") from None


def ack_to_pb(into: pb.AppendAck, ack: AppendAck) -> None:
    for out, position in ((into.start, ack.start), (into.end, ack.end), (into.tail, ack.tail)):
        out.seq_num = position.seq_num
        out.timestamp_ms = position.timestamp_ms


def ack_from_pb(message: pb.AppendAck) -> AppendAck:
    return AppendAck(
        position_from_pb(message.start),
        position_from_pb(message.end),
        position_from_pb(message.tail),
    )


def stages_to_pb(into: pb.LeaderStages, stages: LeaderStages) -> None:
    into.SetInParent()
    into.queue_us = _microseconds(stages.queue)
    into.wal_us = _microseconds(stages.wal)
    into.quorum_us = _microseconds(stages.quorum)
    into.apply_us = _microseconds(stages.apply)


def stages_from_pb(message: pb.LeaderStages) -> LeaderStages:
    return LeaderStages(
        message.queue_us / 1e6,
        message.wal_us / 1e6,
        message.quorum_us / 1e6,
        message.apply_us / 1e6,
    )


def _microseconds(seconds: float) -> int:
    microseconds = int(seconds * 1e6 + 0.5)
    if 0 <= microseconds <= 0xFFFF_FFFF:
        return microseconds
    return 0xFFFF_FFFF if seconds > 0 else 0


def read_bounds_to_pb(into: pb.ReadRequest, bounds: ReadBounds) -> None:
    if bounds.count is not None:
        into.count = bounds.count
    if bounds.metered_bytes is not None:
        into.metered_bytes = bounds.metered_bytes
    if bounds.until_ms is not None:
        into.until_ms = bounds.until_ms
    if bounds.portion_bytes is not None:
        into.portion_bytes = bounds.portion_bytes


def read_bounds_from_pb(message: pb.ReadRequest) -> ReadBounds:
    return ReadBounds(
        message.count if message.HasField("count") else None,
        message.metered_bytes if message.HasField("metered_bytes") else None,
        message.until_ms if message.HasField("until_ms") else None,
        message.portion_bytes if message.HasField("portion_bytes") else None,
    )


def sequenced_to_pb(into: pb.SequencedBatch, batch: SequencedBatch) -> None:
    place = batch.placement
    into.first_seq_num = place.first_seq_num
    into.record_count = place.record_count
    into.metered_bytes = place.metered_bytes
    into.base_timestamp_ms = place.base_timestamp_ms
    into.arrival_ms = place.arrival_ms
    into.last_timestamp_ms = place.last_timestamp_ms
    into.timestamping_mode = place.mode
    into.uncapped = place.uncapped
    if place.expires_at_ms is not None:
        into.expires_at_ms = place.expires_at_ms
    into.records = batch.records


def sequenced_from_pb(message: pb.SequencedBatch) -> SequencedBatch:
    return SequencedBatch(
        BatchPlacement(
            first_seq_num=SeqNum(message.first_seq_num),
            record_count=message.record_count,
            metered_bytes=message.metered_bytes,
            base_timestamp_ms=TimestampMs(message.base_timestamp_ms),
            arrival_ms=TimestampMs(message.arrival_ms),
            last_timestamp_ms=TimestampMs(message.last_timestamp_ms),
            mode=TimestampingMode(message.timestamping_mode),
            uncapped=message.uncapped,
            expires_at_ms=(
                TimestampMs(message.expires_at_ms) if message.HasField("expires_at_ms") else None
            ),
        ),
        message.records,
    )


_CLASS_BY_CODE: dict[str, type[ServiceError]] = {
    cls.code.value: cls
    for cls in (
        errors.InvalidError,
        errors.KeyRequiredError,
        errors.BasinNotFoundError,
        errors.StreamNotFoundError,
        errors.AlreadyExistsError,
        errors.BasinDeletionPendingError,
        errors.StreamDeletionPendingError,
        errors.TransactionConflictError,
        errors.UnavailableError,
        errors.HotServerError,
        errors.DrainingError,
        errors.NotImplementedYetError,
        errors.DeadlineError,
        errors.UnauthenticatedError,
        errors.PermissionDeniedError,
        errors.TokenNotFoundError,
        errors.QuotaError,
    )
}


def refusal_to_pb(into: pb.Refusal, error: ServiceError) -> None:
    into.code = error.code.value
    into.message = error.message
    into.may_have_taken_effect = error.may_have_taken_effect
    match error:
        case NotLeaderHereError():
            into.not_leader = True
            into.leader = error.leader or 0
        case GroupUnknownError():
            into.group_unknown = True
        case errors.SealMismatchError():
            into.seal_mismatch = True
        case NotActiveYetError():
            into.not_active_yet = True
        case errors.SeqNumMismatchError():
            into.tail_seq_num = error.tail_seq_num
        case errors.FencingTokenMismatchError():
            into.fencing_token = error.current_token
        case errors.RateLimitedError():
            into.retry_after_ms = error.retry_after_ms
        case errors.PastTailError():
            into.tail_seq_num = error.tail_seq_num
            into.tail_timestamp_ms = error.tail_timestamp_ms
        case _:
            pass


def refusal_from_pb(message: pb.Refusal) -> ServiceError:
    """The exception that the node meant. An unknown code becomes an internal error."""
    if message.not_leader:
        return NotLeaderHereError(NodeId(message.leader) if message.leader else None)
    if message.group_unknown:
        return GroupUnknownError()
    if message.seal_mismatch:
        return errors.SealMismatchError(message.message)
    if message.not_active_yet:
        return NotActiveYetError(message.message)
    if message.code == ErrorCode.APPEND_CONDITION_FAILED.value:
        if message.HasField("fencing_token"):
            return errors.FencingTokenMismatchError(message.fencing_token)
        return errors.SeqNumMismatchError(message.tail_seq_num)
    if message.code == ErrorCode.RATE_LIMITED.value:
        return errors.RateLimitedError(message.message, message.retry_after_ms)
    if message.code == ErrorCode.RANGE_NOT_SATISFIABLE.value:
        return errors.PastTailError(message.tail_seq_num, message.tail_timestamp_ms)
    if message.code == ErrorCode.REQUEST_TIMEOUT.value and not message.may_have_taken_effect:
        return errors.ReadDeadlineError(message.message)
    error = _CLASS_BY_CODE.get(message.code, errors.InternalError)(message.message)
    if isinstance(error, errors.InternalError):
        # the node may know that it was before any effect
        error.may_have_taken_effect = message.may_have_taken_effect
    return error
