"""Protobuf bodies of the public API: AppendInput in, AppendAck and ReadBatch out.

The protobuf library judges a body and writes it anew without what it does not know, in its one
canonical form. That form is then walked as bytes, for counting: the library makes an object of
every record and header that is looked at, which costs several times as much as the walk.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from google.protobuf.message import DecodeError

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.base.errors import ErrorCode, InvalidError, MalformedError
from svc_cluster.base.steps import at_once
from svc_cluster.codec.records import (
    EMPTY_NAME_RULE,
    FENCING_TOKEN_RULE,
    METERED_BYTES_MAX,
    METERED_BYTES_RULE,
    RECORD_COUNT_RULE,
    RECORDS_MAX,
    AppendInput,
    RecordOut,
    command_record,
)
from svc_cluster.codec.varint import read_varint
from svc_cluster.model import names
from svc_cluster.model.record import AppendAck, CommandRecord, Position, StoredBatch

PROTO_BODY_BYTES_MAX: Final = 2 * 1024 * 1024
"""An AppendInput as it was sent, after decompression. Source: wire contract section 1."""

LIGHT_BYTES_MAX: Final = 64 * 1024
"""What is no longer is given to the library as it is."""
FIELDS_MAX: Final = 2 * RECORDS_MAX
"""At the top of an AppendInput: its records, its conditions, and some that are not known."""
_VARINT_BYTES_MAX: Final = 10
STEP_BYTES: Final = 32 * 1024
"""Walked between two chances for others to work; of the shortest headers about 3 ms."""

# A field's number times 8, plus its wire type.
_RECORDS: Final = 1 << 3 | 2
_HEADERS: Final = 2 << 3 | 2
_BODY: Final = 3 << 3 | 2
_NAME: Final = 1 << 3 | 2


def decode_append(body: bytes) -> AppendInput:
    """All of `decode_append_steps` at once."""
    return at_once(decode_append_steps(body))


def decode_append_steps(body: bytes) -> Generator[None, None, AppendInput]:
    """Decode AppendInput, in steps of a bounded time. More fields than a batch has are refused
    before the library makes anything of them.

    Raises MalformedError (bad_proto) for what is no AppendInput, InvalidError for what breaks the
    limits of a batch or the rules of command records, and for a fencing token above 36 bytes.
    """
    if len(body) > LIGHT_BYTES_MAX and _has_more_fields(body, FIELDS_MAX):
        raise InvalidError(f"{RECORD_COUNT_RULE}, with few fields beside them")
    try:
        message = pb.AppendInput.FromString(body)
    except DecodeError as cause:
        raise MalformedError(ErrorCode.BAD_PROTO, "the body is not an AppendInput") from cause
    if not 1 <= len(message.records) <= RECORDS_MAX:
        raise InvalidError(RECORD_COUNT_RULE)
    is_long = len(body) > LIGHT_BYTES_MAX
    if is_long:
        yield
    match_seq_num = message.match_seq_num if message.HasField("match_seq_num") else None
    fencing_token = message.fencing_token if message.HasField("fencing_token") else None
    if fencing_token is not None and not names.is_fencing_token(fencing_token):
        raise InvalidError(FENCING_TOKEN_RULE)
    message.ClearField("match_seq_num")
    message.ClearField("fencing_token")
    message.DiscardUnknownFields()
    if is_long:
        yield
    batch = yield from _batch_steps(message)
    return AppendInput(batch, match_seq_num, fencing_token)


def _has_more_fields(body: bytes, fields_max: int) -> bool:
    """Whether `body` has more fields than that at its top; no more of them are looked at. What is
    malformed is left to the library."""
    position = 0
    try:
        for _ in range(fields_max):
            if position >= len(body):
                return False
            tag, position = _short_varint(body, position)
            match tag & 7:
                case 0:
                    _, position = _short_varint(body, position)
                case 1:
                    position += 8
                case 2:
                    length, position = _short_varint(body, position)
                    position += length
                case 5:
                    position += 4
                case _:  # groups: their content counts as fields
                    pass
    except (IndexError, ValueError):  # it ends within a number, or has one that is too long
        return False
    return position < len(body)


def _short_varint(data: bytes, position: int) -> tuple[int, int]:
    """As `read_varint`. Raises ValueError for one of more than 10 bytes, or without an end."""
    if all(byte >= 0x80 for byte in data[position : position + _VARINT_BYTES_MAX]):
        raise ValueError("no number of 64 bits")
    return read_varint(data, position)


def _batch_steps(message: pb.AppendInput) -> Generator[None, None, StoredBatch]:
    """Count and check `message`, which has nothing but records. Raises InvalidError."""
    data = message.SerializeToString()
    record_count = len(message.records)
    metered_bytes = 8 * record_count
    timestamps: list[int] = []
    timestamp_first_ms: int | None = None
    commands: list[CommandRecord] = []
    position = 0
    pause_at = STEP_BYTES
    for offset in range(record_count):
        assert data[position] == _RECORDS, "nothing but records was written"
        length, position = read_varint(data, position + 1)
        end = position + length
        is_command = False
        while position < end:
            if position >= pause_at:
                yield
                pause_at = position + STEP_BYTES
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value >= 0x80:
                value, position = read_varint(data, position - 1)
            if tag == _BODY:
                metered_bytes += value
                position += value
            elif tag == _HEADERS:
                if value == 0 or data[position] != _NAME:
                    if not is_command:
                        commands.append(_command(message, offset))
                        is_command = True
                    metered_bytes += 2 + _header_bytes(data, position, value)
                elif value >= 0x80:
                    metered_bytes += 2 + _header_bytes(data, position, value)
                elif data[position + 1] == value - 2:
                    # A name alone, behind its tag and length.
                    metered_bytes += value
                else:
                    # Name and value, each behind a tag and a length of one byte.
                    metered_bytes += value - 2
                position += value
            else:
                timestamps.append(value)
                if offset == 0:
                    timestamp_first_ms = value
        if metered_bytes > METERED_BYTES_MAX:
            raise InvalidError(METERED_BYTES_RULE)
    assert position == len(data), "the library wrote as many records as it counted"
    return StoredBatch(
        records=data,
        record_count=record_count,
        metered_bytes=metered_bytes,
        timestamp_max_ms=max(timestamps, default=None),
        timestamps_given=len(timestamps),
        commands=tuple(commands),
        timestamp_first_ms=timestamp_first_ms,
    )


def _command(message: pb.AppendInput, offset: int) -> CommandRecord:
    """The command of a record that has a header with an empty name. Raises InvalidError."""
    record = message.records[offset]
    if len(record.headers) != 1:  # as cheap as that, however many there are
        raise InvalidError(EMPTY_NAME_RULE)
    header = record.headers[0]
    return command_record(offset, [(header.name, header.value)], record.body)


def _header_bytes(data: bytes, position: int, length: int) -> int:
    """Bytes of name and value of the header that takes `length` bytes from `position` on."""
    end = position + length
    found = 0
    while position < end:
        value, position = read_varint(data, position + 1)
        found += value
        position += value
    return found


def encode_append_ack(ack: AppendAck) -> bytes:
    message = pb.AppendAck()
    _put_position(message.start, ack.start)
    _put_position(message.end, ack.end)
    _put_position(message.tail, ack.tail)
    return message.SerializeToString()


def encode_read_batch(records: Sequence[RecordOut], tail: Position | None) -> bytes:
    """ReadBatch; in a session, one without records is a heartbeat and has a tail."""
    message = pb.ReadBatch()
    add = message.records.add
    for record in records:
        # Attributes one by one: keyword arguments cost twice as much.
        out = add()
        out.seq_num = record.seq_num
        out.timestamp = record.timestamp_ms
        out.body = record.body
        if record.headers:
            add_header = out.headers.add
            for name, value in record.headers:
                header = add_header()
                header.name = name
                header.value = value
    if tail is not None:
        _put_position(message.tail, tail)
    return message.SerializeToString()


def _put_position(message: pb.StreamPosition, position: Position) -> None:
    # A position of 0 and 0 is present all the same.
    message.SetInParent()
    message.seq_num = position.seq_num
    message.timestamp = position.timestamp_ms
