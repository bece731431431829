"""Protobuf bodies of the public API: AppendInput in, AppendAck and ReadBatch out.

The protobuf library judges a body and writes it anew without what it does not know, in its one
canonical form. That form is then walked as bytes, for counting: the library makes an object of
every record and header that is looked at, which costs several times as much as the walk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.base.errors import ErrorCode, InvalidError, MalformedError
from svc_cluster.codec.records import (
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

# A field's number times 8, plus its wire type.
_RECORDS: Final = 1 << 3 | 2
_HEADERS: Final = 2 << 3 | 2
_BODY: Final = 3 << 3 | 2
_NAME: Final = 1 << 3 | 2


def decode_append(body: bytes) -> AppendInput:
    """Decode AppendInput.

    Raises MalformedError (bad_proto) for what is no AppendInput, InvalidError for what breaks the
    limits of a batch or the rules of command records, and for a fencing token above 36 bytes.
    """
    try:
        message = pb.AppendInput.FromString(body)
    except DecodeError as cause:
        raise MalformedError(ErrorCode.BAD_PROTO, "the body is not an AppendInput") from cause
    if not 1 <= len(message.records) <= RECORDS_MAX:
        raise InvalidError(RECORD_COUNT_RULE)
    match_seq_num = message.match_seq_num if message.HasField("match_seq_num") else None
    fencing_token = message.fencing_token if message.HasField("fencing_token") else None
    if fencing_token is not None and not names.is_fencing_token(fencing_token):
        raise InvalidError(FENCING_TOKEN_RULE)
    message.ClearField("match_seq_num")
    message.ClearField("fencing_token")
    message.DiscardUnknownFields()
    return AppendInput(_batch(message), match_seq_num, fencing_token)


def _batch(message: pb.AppendInput) -> StoredBatch:
    """Count and check `message`, which has nothing but records. Raises InvalidError."""
    data = message.SerializeToString()
    record_count = len(message.records)
    metered_bytes = 8 * record_count
    timestamps: list[int] = []
    timestamp_first_ms: int | None = None
    commands: list[CommandRecord] = []
    position = 0
    for offset in range(record_count):
        assert data[position] == _RECORDS, "nothing but records was written"
        length, position = read_varint(data, position + 1)
        end = position + length
        may_command = False
        while position < end:
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
                    may_command = True
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
        if may_command:
            record = message.records[offset]
            headers = [(header.name, header.value) for header in record.headers]
            commands.append(command_record(offset, headers, record.body))
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
