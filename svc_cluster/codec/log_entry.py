"""Bytes of a basin's log entries: type byte, format version, then protobuf.

The second byte says whose entry it is and in which version: basins have 0x01 to 0x7F, the catalog
has 0x81 to 0xFF. Entries stay in logs over an upgrade, so what a version means never changes.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final, assert_never

from google.protobuf.message import DecodeError

from svc_cluster._pb.cluster.v1 import log_entry_pb2 as pb
from svc_cluster.base.ids import SeqNum, StreamId, TimestampMs
from svc_cluster.codec import config_pb, usage_pb
from svc_cluster.codec.entry_since import check_since
from svc_cluster.codec.entry_version import (
    BASIN_KINDS,
    UnknownEntryError,
    refuse_unknown_members,
    version_of,
)
from svc_cluster.model import versions
from svc_cluster.model.idempotency_table import REQUEST_KEY_BYTES
from svc_cluster.model.record import (
    BatchPlacement,
    CommandKind,
    CommandRecord,
    TimestampingMode,
)
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
    Write,
)
from svc_cluster.stream.usage_rows import HOURS_KEPT

PAYLOAD_TYPE: Final = 9
"""The engine's type byte for payloads that are opaque to it."""
FORMAT_VERSION: Final = versions.newest_read(versions.BASIN_ENTRY)

_HEADER: Final = bytes([PAYLOAD_TYPE, FORMAT_VERSION])


_VERSIONS: Final = (0x01, 0x7F)


class EntryFormatError(Exception):
    """The payload is an entry of no release; every replica rejects it alike."""


def encode_command(command: BasinCommand) -> bytes:
    """One command of an entry. Commands come from the sequencer, within the ranges of their types:
    whatever this raises is a fault of ours, and harms no other command."""
    entry = pb.LogEntry()
    _to_pb(entry.commands.add(), command)
    return entry.SerializeToString(deterministic=True)


def check_written(command: BasinCommand, active: int) -> None:
    """Raises NotActiveYetError for a command that is not written under this active version."""
    out = pb.Command()
    _to_pb(out, command)
    check_since(out, active)


def join_commands(encoded: Sequence[bytes]) -> bytes:
    """The entry of these commands: concatenated messages are one message with all their members."""
    return b"".join((_HEADER, *encoded))


def _to_pb(out: pb.Command, command: BasinCommand) -> None:
    match command:
        case AppendCommand():
            _append_to_pb(out.append, command)
        case Bootstrap():
            _bootstrap_to_pb(out.bootstrap, command)
        case CreateStream():
            _create_to_pb(out.create_stream, command)
        case ExpirePrefix(stream_id, trim_point, at_ms):
            out.expire_prefix.stream_id = stream_id
            out.expire_prefix.trim_point = trim_point
            out.expire_prefix.at_ms = at_ms
        case DeleteStream(stream_id, deleted_at_ms):
            out.delete_stream.stream_id = stream_id
            out.delete_stream.deleted_at_ms = deleted_at_ms
        case PurgeStream(stream_id, at_ms):
            out.purge_stream.stream_id = stream_id
            out.purge_stream.at_ms = at_ms
        case DeleteEmptyStream(stream_id, deleted_at_ms):
            out.delete_empty_stream.stream_id = stream_id
            out.delete_empty_stream.deleted_at_ms = deleted_at_ms
        case ConfigureStream(stream_id, config):
            out.configure_stream.stream_id = stream_id
            config_pb.put_complete(out.configure_stream.config, config)
        case ConfigureBasin(basin_config):
            config_pb.put_basin(out.configure_basin.config, basin_config)
        case Seal(sealed_at_ms):
            out.seal.SetInParent()
            out.seal.sealed_at_ms = sealed_at_ms
        case IdempotentWrite(key, decided_at_ms, answer, write):
            out.keyed_write.key = key
            out.keyed_write.decided_at_ms = decided_at_ms
            out.keyed_write.answer = answer
            if write is not None:
                _to_pb(out.keyed_write.write, write)
        case ExpireIdempotencyKeys(before_ms, at_most):
            out.expire_outcomes.before_ms = before_ms
            out.expire_outcomes.at_most = at_most
        case CountUsage(at_ms):
            out.count_usage.SetInParent()
            out.count_usage.at_ms = at_ms
        case KeepUsage():
            out.keep_usage.kept = HOURS_KEPT
        case FreezeBasin(reason):
            out.freeze_basin.SetInParent()
            out.freeze_basin.reason = reason
        case ReportUsage(at_ms, report):
            out.report_usage.at_ms = at_ms
            usage_pb.put_report(out.report_usage.report, report)
        case _:
            assert_never(command)


def decode_steps(
    payload: bytes, known: frozenset[str] = BASIN_KINDS
) -> Generator[int, None, list[BasinCommand]]:
    """Return the commands, all of the kinds in `known`. There is a pause behind each report of
    usage, which is as dear as very many plain commands; what is yielded is the number of its
    minutes.

    Raises UnknownEntryError for what a newer release may have written, EntryFormatError for what
    none has.
    """
    if payload[:2] != _HEADER:
        version = version_of(payload, *_VERSIONS)
        if version is None:
            raise EntryFormatError("not a basin's entry")
        raise UnknownEntryError(f"an entry of version {version}")
    try:
        # any buffer will do, whatever the stubs say; a slice of bytes would copy the records
        entry = pb.LogEntry.FromString(memoryview(payload)[2:])  # type: ignore[arg-type]
    except DecodeError as cause:
        raise EntryFormatError("not a log entry") from cause
    refuse_unknown_members(entry)
    for command in entry.commands:
        _check_known(command, known)
    commands = []
    for command in entry.commands:
        decoded = _from_pb(command)
        commands.append(decoded)
        if isinstance(decoded, ReportUsage):
            yield len(decoded.report.minutes)
    return commands


def comes_back(command: BasinCommand, known: frozenset[str]) -> bool:
    """Whether decoding gives exactly this command, to the order of all that it holds, where the
    kinds in `known` are known. Of appends alone, which are nearly all there is."""
    match command:
        case AppendCommand():
            return "append" in known
        case IdempotentWrite(key=key, write=AppendCommand()):
            return {"append", "keyed_write"} <= known and len(key) == REQUEST_KEY_BYTES
        case _:
            return False


def _check_known(command: pb.Command, known: frozenset[str]) -> None:
    kind = command.WhichOneof("command")
    if kind is None:
        refuse_unknown_members(command)
        raise EntryFormatError("no command")
    if kind not in known:
        raise UnknownEntryError(f"a command of the unknown kind {kind}")
    refuse_unknown_members(command, getattr(command, kind))
    if kind == "keyed_write" and command.keyed_write.HasField("write"):
        _check_known(command.keyed_write.write, known)


def _from_pb(command: pb.Command) -> BasinCommand:
    kind = command.WhichOneof("command")
    if kind == "append":
        return _append_from_pb(command.append)
    match kind:
        case "bootstrap":
            return _bootstrap_from_pb(command.bootstrap)
        case "create_stream":
            return _create_from_pb(command.create_stream)
        case "expire_prefix":
            expire = command.expire_prefix
            return ExpirePrefix(
                StreamId(expire.stream_id), expire.trim_point, TimestampMs(expire.at_ms)
            )
        case "delete_stream":
            delete = command.delete_stream
            return DeleteStream(StreamId(delete.stream_id), TimestampMs(delete.deleted_at_ms))
        case "purge_stream":
            purge = command.purge_stream
            return PurgeStream(StreamId(purge.stream_id), TimestampMs(purge.at_ms))
        case "delete_empty_stream":
            empty = command.delete_empty_stream
            return DeleteEmptyStream(StreamId(empty.stream_id), TimestampMs(empty.deleted_at_ms))
        case "configure_stream" | "configure_basin":
            return _configure_from_pb(command)
        case "seal":
            return Seal(TimestampMs(command.seal.sealed_at_ms))
        case "count_usage":
            return CountUsage(TimestampMs(command.count_usage.at_ms))
        case "keep_usage":
            if command.keep_usage.kept != HOURS_KEPT:
                raise UnknownEntryError("usage that is kept in an unknown way")
            return KeepUsage()
        case "freeze_basin":
            return FreezeBasin(command.freeze_basin.reason)
        case "report_usage":
            said = command.report_usage
            return ReportUsage(TimestampMs(said.at_ms), usage_pb.get_report(said.report))
        case "keyed_write":
            return _idempotent_from_pb(command.keyed_write)
        case "expire_outcomes":
            expired = command.expire_outcomes
            return ExpireIdempotencyKeys(TimestampMs(expired.before_ms), expired.at_most)
        case _:
            raise UnknownEntryError("a command of an unknown kind")


def _idempotent_from_pb(idempotent: pb.IdempotentWrite) -> IdempotentWrite:
    if len(idempotent.key) != REQUEST_KEY_BYTES:
        raise EntryFormatError("a request key has another length")
    at_ms = TimestampMs(idempotent.decided_at_ms)
    if not idempotent.HasField("write"):
        return IdempotentWrite(idempotent.key, at_ms, idempotent.answer)
    write = _from_pb(idempotent.write)
    if not isinstance(write, Write):
        raise EntryFormatError("no client asks for this kind of command")
    return IdempotentWrite(idempotent.key, at_ms, idempotent.answer, write)


def _append_to_pb(out: pb.Append, command: AppendCommand) -> None:
    placement = command.placement
    out.stream_id = command.stream_id
    out.first_seq_num = placement.first_seq_num
    out.record_count = placement.record_count
    out.metered_bytes = placement.metered_bytes
    out.base_timestamp_ms = placement.base_timestamp_ms
    out.arrival_ms = placement.arrival_ms
    out.start_timestamp_ms = command.start_timestamp_ms
    out.last_timestamp_ms = placement.last_timestamp_ms
    out.timestamping_mode = placement.mode
    out.uncapped = placement.uncapped
    if placement.expires_at_ms is not None:
        out.expires_at_ms = placement.expires_at_ms
    if command.match_seq_num is not None:
        out.match_seq_num = command.match_seq_num
    if command.fencing_token is not None:
        out.fencing_token = command.fencing_token
    for record in command.commands:
        out.command_records.add(
            offset=record.offset,
            kind=record.kind,
            token=record.token,
            trim_point=record.trim_point,
        )
    out.records = command.records
    if command.op_units:
        out.op_units = command.op_units


def _append_from_pb(append: pb.Append) -> AppendCommand:
    commands = append.command_records
    return AppendCommand(
        stream_id=StreamId(append.stream_id),
        placement=BatchPlacement(
            first_seq_num=SeqNum(append.first_seq_num),
            record_count=append.record_count,
            metered_bytes=append.metered_bytes,
            base_timestamp_ms=TimestampMs(append.base_timestamp_ms),
            arrival_ms=TimestampMs(append.arrival_ms),
            last_timestamp_ms=TimestampMs(append.last_timestamp_ms),
            mode=_mode(append.timestamping_mode),
            uncapped=append.uncapped,
            expires_at_ms=TimestampMs(append.expires_at_ms)
            if append.HasField("expires_at_ms")
            else None,
        ),
        records=append.records,
        start_timestamp_ms=TimestampMs(append.start_timestamp_ms),
        commands=tuple(map(_command_record_from_pb, commands)) if commands else (),
        match_seq_num=append.match_seq_num if append.HasField("match_seq_num") else None,
        fencing_token=append.fencing_token if append.HasField("fencing_token") else None,
        op_units=append.op_units,
    )


def _command_record_from_pb(record: pb.CommandRecord) -> CommandRecord:
    if record.kind == 0:
        raise EntryFormatError("a command record of no kind")
    if record.kind not in (CommandKind.FENCE, CommandKind.TRIM):
        raise UnknownEntryError(f"a command record of the unknown kind {record.kind}")
    return CommandRecord(record.offset, CommandKind(record.kind), record.token, record.trim_point)


_MODES: Final = tuple(TimestampingMode(value) for value in range(len(TimestampingMode)))


def _mode(value: int) -> TimestampingMode:
    if value >= len(_MODES):
        raise UnknownEntryError(f"the unknown timestamping mode {value}")
    return _MODES[value]


def _bootstrap_to_pb(out: pb.Bootstrap, command: Bootstrap) -> None:
    out.basin = command.basin
    out.created_at_ms = command.created_at_ms
    config_pb.put_basin(out.config, command.config)
    out.counts_usage = command.counts_usage


def _bootstrap_from_pb(bootstrap: pb.Bootstrap) -> Bootstrap:
    try:
        config = config_pb.get_basin(bootstrap.config)
    except config_pb.ConfigFormatError as cause:
        raise UnknownEntryError(str(cause)) from cause
    return Bootstrap(
        bootstrap.basin, config, TimestampMs(bootstrap.created_at_ms), bootstrap.counts_usage
    )


def _configure_from_pb(command: pb.Command) -> ConfigureStream | ConfigureBasin:
    try:
        if command.HasField("configure_basin"):
            return ConfigureBasin(config_pb.get_basin(command.configure_basin.config))
        stream = command.configure_stream
        return ConfigureStream(StreamId(stream.stream_id), config_pb.get_complete(stream.config))
    except config_pb.ConfigFormatError as cause:
        raise UnknownEntryError(str(cause)) from cause


def _create_to_pb(out: pb.CreateStream, command: CreateStream) -> None:
    out.stream_id = command.stream_id
    out.name = command.name
    out.created_at_ms = command.created_at_ms
    if command.cipher is not None:
        out.cipher = command.cipher
    config_pb.put_flat(out, command.config)
    out.creation_hash = command.creation_hash


def _create_from_pb(create: pb.CreateStream) -> CreateStream:
    try:
        config = config_pb.get_flat(create)
    except config_pb.ConfigFormatError as cause:
        raise UnknownEntryError(str(cause)) from cause
    return CreateStream(
        stream_id=StreamId(create.stream_id),
        name=create.name,
        config=config,
        created_at_ms=TimestampMs(create.created_at_ms),
        cipher=create.cipher if create.HasField("cipher") else None,
        creation_hash=create.creation_hash,
    )
