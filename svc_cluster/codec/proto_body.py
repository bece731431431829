"""This module has the Protobuf bodies of the public API. AppendInput comes in, AppendAck and
ReadBatch go out.

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
from svc_cluster.codec.batch_codec import AppendInput, RecordOut
from svc_cluster.codec.batch_rules import (
    METERED_BYTES_MAX,
    RECORD_COUNT_RULE,
    RECORDS_MAX,
    bad_empty_name,
    bad_fencing_token,
    bad_metered_bytes,
    bad_record_count,
    command_record,
)
from svc_cluster.codec.long_record import BROKEN, GROUP_RULE, long_record_steps
from svc_cluster.codec.varint import read_varint, short_varint
from svc_cluster.model import names
from svc_cluster.model.record import AppendAck, CommandRecord, Position, StoredBatch

PROTO_BODY_BYTES_MAX: Final = 2 * 1024 * 1024
"""An AppendInput as it was sent, after decompression. Source: contract 2.9."""

LIGHT_BYTES_MAX: Final = 64 * 1024
"""What is no longer is given to the library as it is."""
FIELDS_MAX: Final = 2 * RECORDS_MAX
"""At the top of an AppendInput: its records, its conditions, and some that are not known."""
PART_BYTES: Final = 256 * 1024
"""The library is given so much at once, or one field more: of the shortest headers about 3 ms."""
STEP_BYTES: Final = 32 * 1024
"""Walked between two chances for others to work; of the shortest headers about 3 ms."""

# A field's number times 8, plus its wire type.
_RECORDS: Final = 1 << 3 | 2
_HEADERS: Final = 2 << 3 | 2
_BODY: Final = 3 << 3 | 2
_NAME: Final = 1 << 3 | 2


def decode_append_steps(body: bytes) -> Generator[None, None, AppendInput]:
    """Decode AppendInput, in steps of a bounded time. More fields than a batch has are refused
    before the library makes anything of them.

    Raises MalformedError (bad_proto) for what is no AppendInput, InvalidError for what breaks the
    limits of a batch or the rules of command records, and for a fencing token above 36 bytes.
    """
    if not body:
        raise InvalidError(f"the body is empty: {RECORD_COUNT_RULE}")
    is_long = len(body) > LIGHT_BYTES_MAX
    cuts = _cuts(body) if is_long else [(len(body), 0)]
    if cuts is None:
        raise InvalidError(f"{RECORD_COUNT_RULE}, with few fields beside them")
    messages: list[pb.AppendInput] = []
    parts: list[bytes] = []
    match_seq_num: int | None = None
    fencing_token: str | None = None
    begin = 0
    for end, content in cuts:
        if content:
            message, part = yield from long_record_steps(body[content:end])
            begin = end
            messages.append(message)
            parts.append(part)
            yield
            continue
        message = _parsed(body if len(cuts) == 1 else body[begin:end])
        begin = end
        if is_long:
            yield
        if message.HasField("match_seq_num"):
            match_seq_num = message.match_seq_num
        if message.HasField("fencing_token"):
            fencing_token = message.fencing_token
        message.ClearField("match_seq_num")
        message.ClearField("fencing_token")
        message.DiscardUnknownFields()
        if is_long:
            yield
        messages.append(message)
        parts.append(message.SerializeToString())
        if is_long:
            yield
    record_count = sum([len(message.records) for message in messages])
    if not 1 <= record_count <= RECORDS_MAX:
        raise bad_record_count(record_count)
    if fencing_token is not None and not names.is_fencing_token(fencing_token):
        raise bad_fencing_token(fencing_token)
    batch = yield from _batch_steps(messages, b"".join(parts), record_count)
    return AppendInput(batch, match_seq_num, fencing_token)


def _parsed(body: bytes) -> pb.AppendInput:
    try:
        return pb.AppendInput.FromString(body)
    except DecodeError as cause:
        raise MalformedError(ErrorCode.BAD_PROTO, BROKEN) from cause


def _cuts(body: bytes) -> list[tuple[int, int]] | None:
    """Return where `body` is cut between fields at its top, into messages of PART_BYTES or one
    field more. A record of more than PART_BYTES is alone between two cuts, and beside the second
    one is where its content begins, else 0. Return None where it has more than FIELDS_MAX fields.
    Raises MalformedError for what is no field, and for a group."""
    cuts: list[tuple[int, int]] = []
    position = begin = 0
    try:
        for _ in range(FIELDS_MAX):
            if position >= len(body):
                break
            if position - begin >= PART_BYTES:
                cuts.append((position, 0))
                begin = position
            field = position
            tag, position = short_varint(body, position)
            match tag & 7:
                case 0:
                    _, position = short_varint(body, position)
                case 1:
                    position += 8
                case 2:
                    length, content = short_varint(body, position)
                    position = content + length
                    if tag == _RECORDS and PART_BYTES < length <= len(body) - content:
                        if field > begin:
                            cuts.append((field, 0))
                        cuts.append((position, content))
                        begin = position
                case 5:
                    position += 4
                case 3 | 4:
                    raise MalformedError(ErrorCode.BAD_PROTO, GROUP_RULE)
                case _:
                    raise ValueError("no type at all")
    except (IndexError, ValueError) as cause:  # it ends within a number, or has a longer one
        raise MalformedError(ErrorCode.BAD_PROTO, BROKEN) from cause
    if position < len(body):
        return None
    return [*cuts, (len(body), 0)] if begin < len(body) or not cuts else cuts


def _batch_steps(
    messages: list[pb.AppendInput], data: bytes, record_count: int
) -> Generator[None, None, StoredBatch]:
    """Count and check `messages`, which have nothing but so many records, and are `data` as the
    library writes it. Raises InvalidError."""
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
                        commands.append(_command(messages, offset))
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
    assert position == len(data), "the library wrote as many records as it counted"
    if metered_bytes > METERED_BYTES_MAX:
        raise bad_metered_bytes(metered_bytes)
    return StoredBatch(
        records=data,
        record_count=record_count,
        metered_bytes=metered_bytes,
        timestamp_max_ms=max(timestamps, default=None),
        timestamps_given=len(timestamps),
        commands=tuple(commands),
        timestamp_first_ms=timestamp_first_ms,
    )


def _command(messages: list[pb.AppendInput], offset: int) -> CommandRecord:
    """The command of a record that has a header with an empty name. Raises InvalidError."""
    place = offset
    message = messages[0]
    for message in messages:
        if place < len(message.records):
            break
        place -= len(message.records)
    record = message.records[place]
    if len(record.headers) != 1:  # as cheap as that, however many there are
        raise bad_empty_name(offset)
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
