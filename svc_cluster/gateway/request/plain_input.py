"""Protobuf bodies of appends of the plain shape, read in one walk and kept as they came.

What the official clients send is already what the library would write: fields in their order, the
shortest numbers, nothing that is not known. The records of such a body are stored as they are, and
only their counts are taken. Anything else is for `codec.proto_body`, which judges it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from svc_cluster.base.errors import InvalidError, MalformedError
from svc_cluster.base.steps import at_once
from svc_cluster.codec import proto_body
from svc_cluster.codec.batch_codec import AppendInput
from svc_cluster.codec.batch_rules import METERED_BYTES_MAX, RECORDS_MAX, U64_MAX
from svc_cluster.codec.varint import varint
from svc_cluster.model.record import StoredBatch

HEADERS_MAX: Final = 2 * RECORDS_MAX
"""All records together have no more: with as many, and RECORDS_MAX records, a walk takes one or
two milliseconds."""
STEP_BYTES_MAX: Final = 4096
"""What is longer and turns out not to be plain is looked at anew behind a chance for others."""
CONDITIONS_BYTES_MAX: Final = 64
"""What stands behind the records is no longer: a number takes 11 bytes at most, a fencing token
38."""

# A field's number times 8, plus its wire type.
_RECORD: Final = 1 << 3 | 2
_TIMESTAMP: Final = 1 << 3
_HEADER: Final = 2 << 3 | 2
_BODY: Final = 3 << 3 | 2
_NAME: Final = 1 << 3 | 2
_VALUE: Final = 2 << 3 | 2
_EMPTY_RECORD: Final = bytes((_RECORD, 0))
_MATCH: Final = bytes((2 << 3,))
_TOKEN: Final = bytes((3 << 3 | 2,))


def append_input_steps(body: bytes) -> Generator[None, None, AppendInput]:
    """Decode AppendInput as `proto_body.decode_append_steps` does, sooner where it is plain. Raises
    what that raises."""
    plain = plain_append_input(body)
    if plain is not None:
        return plain
    if len(body) > STEP_BYTES_MAX:
        yield
    return (yield from proto_body.decode_append_steps(body))


def plain_append_input(body: bytes) -> AppendInput | None:
    """Return what `body` says, or None where it is not plain: then it may be right all the same."""
    try:
        return _walked(body)
    except IndexError:  # it ends within a field
        return None


def _walked(body: bytes) -> AppendInput | None:
    size = len(body)
    position = record_count = metered_bytes = header_count = 0
    timestamps: list[int] = []
    first_ms: int | None = None
    while position < size and body[position] == _RECORD:
        record_count += 1
        if record_count > RECORDS_MAX:
            return None
        # numbers of one and of two bytes, and headers whose lengths take one byte each, are read
        # here: a call costs more than the rest of a record
        length = body[position + 1]
        if length < 0x80:
            position += 2
        elif 0 < (high := body[position + 2]) < 0x80:
            length += (high - 1) << 7
            position += 3
        else:
            length, position = _shortest(body, position + 1)
        end = position + length
        if end > size:
            return None
        if position < end and body[position] == _TIMESTAMP:
            value, position = _shortest(body, position + 1)
            if position > end:
                return None
            timestamps.append(value)
            if record_count == 1:
                first_ms = value
        while position < end and body[position] == _HEADER:
            header_count += 1
            length = body[position + 1]
            name = body[position + 3]
            header_end = position + 2 + length
            value_at = position + 4 + name
            if length >= 0x80 or header_end > end or header_count > HEADERS_MAX:
                return None
            if not name or body[position + 2] != _NAME:
                return None
            if value_at == header_end:
                metered_bytes += 2 + name
            elif body[value_at] == _VALUE and 0 < body[value_at + 1] == header_end - value_at - 2:
                metered_bytes += length - 2
            else:
                return None
            position = header_end
        if position < end:
            if body[position] != _BODY:
                return None
            length = body[position + 1]
            if length < 0x80:
                position += 2
            elif 0 < (high := body[position + 2]) < 0x80:
                length += (high - 1) << 7
                position += 3
            else:
                length, position = _shortest(body, position + 1)
            if length == 0 or position + length != end:
                return None
            metered_bytes += length
            position = end
    metered_bytes += 8 * record_count
    if not record_count or metered_bytes > METERED_BYTES_MAX:
        return None
    counts = record_count, metered_bytes, max(timestamps, default=None), len(timestamps)
    conditions = _conditions(body[position : position + CONDITIONS_BYTES_MAX + 1])
    if conditions is None:
        return None
    batch = StoredBatch(body[:position], *counts, timestamp_first_ms=first_ms)
    return AppendInput(batch, *conditions)


def _shortest(body: bytes, position: int) -> tuple[int, int]:
    """Return the number of 64 bits at `position`, and the position behind it. Raises IndexError for
    one that has no end, is larger, or is longer than it needs to be."""
    value = shift = 0
    while True:
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= 70:
            raise IndexError(position)
    if value > U64_MAX or (byte == 0 and shift):
        raise IndexError(position)
    return value, position


def _conditions(rest: bytes) -> tuple[int | None, str | None] | None:
    """Return the number to match and the fencing token that stand behind the records. None: there
    is anything else, or they are written otherwise than by the library."""
    if not rest:
        return None, None
    if len(rest) > CONDITIONS_BYTES_MAX:
        return None
    try:
        found = at_once(proto_body.decode_append_steps(_EMPTY_RECORD + rest))
    except (InvalidError, MalformedError):
        return None
    match_seq_num, fencing_token = found.match_seq_num, found.fencing_token
    written = b"" if match_seq_num is None else _MATCH + varint(match_seq_num)
    if fencing_token is not None:
        token = fencing_token.encode()
        written += _TOKEN + varint(len(token)) + token
    return (match_seq_num, fencing_token) if rest == written else None
