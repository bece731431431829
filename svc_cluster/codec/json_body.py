"""JSON bodies of the public API: typed decoding in, precomputed encoding out.

Every decoding failure is a MalformedError with code bad_json or, where the text is well-formed but
breaks a rule of meaning, an InvalidError. Beyond what the JSON library refuses by itself, a member
given twice is refused: two readers of such a body may see two different requests.
"""

from __future__ import annotations

import binascii
import json
from enum import Enum
from typing import Any, Final, TypeVar

import msgspec
import pybase64
from msgspec import UNSET, UnsetType

from svc_cluster.base.errors import ErrorCode, InvalidError, MalformedError
from svc_cluster.codec.records import FENCING_TOKEN_RULE, U64_MAX, RecordIn, RecordOut
from svc_cluster.model import names
from svc_cluster.model.record import AppendAck, Position

_T = TypeVar("_T")


class DataFormat(Enum):
    """How header names, header values and bodies of records stand in JSON strings."""

    BASE64 = "base64"
    UTF8 = "utf8"


class _AppendRecord(msgspec.Struct):
    timestamp: int | UnsetType | None = UNSET
    headers: list[tuple[str, str]] | UnsetType | None = UNSET
    body: str | UnsetType | None = UNSET


class _Append(msgspec.Struct):
    records: list[_AppendRecord]
    match_seq_num: int | UnsetType | None = UNSET
    fencing_token: str | UnsetType | None = UNSET


class AppendRequest(msgspec.Struct, frozen=True):
    """A decoded append; None means that the condition was not given."""

    records: list[RecordIn]
    match_seq_num: int | None
    fencing_token: str | None


_APPEND_DECODER: Final = msgspec.json.Decoder(_Append)
_DECODERS: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


def decode_append(body: bytes, data_format: DataFormat) -> AppendRequest:
    """Decode an append's body.

    Raises MalformedError (bad_json) for syntax and types, InvalidError for base64 that is not, and
    for a fencing token of more than 36 bytes.
    """
    wire = _decode(_APPEND_DECODER, body)
    if body.count(b":") != _members(wire):
        # More colons than known members: some stand in strings, or members are unknown or doubled.
        _refuse_doubled_members(body)
    decode = _from_base64 if data_format is DataFormat.BASE64 else str.encode
    records: list[RecordIn] = []
    for record in wire.records:
        headers = record.headers or ()
        records.append(
            (
                _u64("timestamp", record.timestamp),
                [(decode(name), decode(value)) for name, value in headers],
                decode(record.body) if record.body else b"",
            )
        )
    fencing_token = wire.fencing_token if wire.fencing_token is not UNSET else None
    if fencing_token is not None and not names.is_fencing_token(fencing_token):
        raise InvalidError(FENCING_TOKEN_RULE)
    return AppendRequest(records, _u64("match_seq_num", wire.match_seq_num), fencing_token)


def _members(wire: _Append) -> int:
    """How many members of the body have been seen by the typed decoder."""
    members = 1 + (wire.match_seq_num is not UNSET) + (wire.fencing_token is not UNSET)
    for record in wire.records:
        members += (
            (record.timestamp is not UNSET)
            + (record.headers is not UNSET)
            + (record.body is not UNSET)
        )
    return members


def decode_object(body: bytes, shape: type[_T]) -> _T:
    """Decode a small body into a msgspec Struct. Raises MalformedError (bad_json)."""
    decoder = _DECODERS.get(shape)
    if decoder is None:
        decoder = _DECODERS[shape] = msgspec.json.Decoder(shape)
    value: _T = _decode(decoder, body)
    _refuse_doubled_members(body)
    return value


def _decode(decoder: msgspec.json.Decoder[_T], body: bytes) -> _T:
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as cause:
        raise MalformedError(ErrorCode.BAD_JSON, f"the body is not as expected: {cause}") from cause
    except UnicodeDecodeError as cause:
        raise MalformedError(ErrorCode.BAD_JSON, "the body is not UTF-8") from cause
    except RecursionError as cause:
        raise MalformedError(ErrorCode.BAD_JSON, "the body is nested too deeply") from cause


def _refuse_doubled_members(body: bytes) -> None:
    """A slower, second reading, for bodies that the fast count could not clear."""
    try:
        json.loads(body.decode(), object_pairs_hook=_unique)
    except RecursionError as cause:
        raise MalformedError(ErrorCode.BAD_JSON, "the body is nested too deeply") from cause
    except ValueError as cause:
        # UnicodeDecodeError and JSONDecodeError are ValueErrors; so is a number of many digits.
        raise MalformedError(ErrorCode.BAD_JSON, "the body is not valid JSON") from cause


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise MalformedError(ErrorCode.BAD_JSON, "a member stands twice in one object")


def _u64(name: str, value: int | UnsetType | None) -> int | None:
    if value is None or value is UNSET:
        return None
    if not 0 <= value <= U64_MAX:
        raise MalformedError(ErrorCode.BAD_JSON, f"{name} is an unsigned 64-bit number")
    return value


def _from_base64(text: str) -> bytes:
    """Standard alphabet, padded, and canonical: unused bits of the last digit are zero."""
    try:
        data = pybase64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidError("header names, header values and bodies are base64 here") from None
    if text.endswith("=") and text[-4:] != pybase64.b64encode_as_string(
        data[len(data) - len(data) % 3 :]
    ):
        raise InvalidError("the last base64 digit has bits that mean nothing")
    return data


class _Position(msgspec.Struct):
    seq_num: int
    timestamp: int


class _Base64Record(msgspec.Struct, omit_defaults=True):
    seq_num: int
    timestamp: int
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""


class _Utf8Record(msgspec.Struct, omit_defaults=True):
    seq_num: int
    timestamp: int
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""


class _ReadBatch(msgspec.Struct, omit_defaults=True):
    # No default: an empty list is written.
    records: list[_Base64Record] | list[_Utf8Record]
    tail: _Position | None = None


_ENCODE: Final = msgspec.json.Encoder().encode


def encode_read_batch(
    records: list[RecordOut], tail: Position | None, data_format: DataFormat
) -> bytes:
    """ReadBatch as one line of JSON; invalid UTF-8 becomes U+FFFD in the utf8 format."""
    wire_records: list[_Base64Record] | list[_Utf8Record]
    if data_format is DataFormat.BASE64:
        # The encoder writes bytes as standard base64 with padding.
        wire_records = [
            _Base64Record(r.seq_num, r.timestamp_ms, r.headers, r.body) for r in records
        ]
    else:
        wire_records = [
            _Utf8Record(
                r.seq_num,
                r.timestamp_ms,
                tuple([(_text(name), _text(value)) for name, value in r.headers]),
                _text(r.body),
            )
            for r in records
        ]
    wire_tail = None if tail is None else _Position(tail.seq_num, tail.timestamp_ms)
    return _ENCODE(_ReadBatch(wire_records, wire_tail))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def encode_position(position: Position) -> bytes:
    return b'{"seq_num":%d,"timestamp":%d}' % (position.seq_num, position.timestamp_ms)


def encode_append_ack(ack: AppendAck) -> bytes:
    return b'{"start":%b,"end":%b,"tail":%b}' % (
        encode_position(ack.start),
        encode_position(ack.end),
        encode_position(ack.tail),
    )


def encode_tail(tail: Position) -> bytes:
    return b'{"tail":%b}' % encode_position(tail)


def encode_object(value: Any) -> bytes:
    """Any JSON value made of dicts, lists, strings, integers, booleans and None."""
    return _ENCODE(value)
