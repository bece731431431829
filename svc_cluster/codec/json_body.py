"""JSON bodies of the public API: typed decoding in, precomputed encoding out.

Every decoding failure is a MalformedError with code bad_json or, where the text is well-formed but
breaks a rule of meaning, an InvalidError. Beyond what the JSON library refuses by itself, a member
given twice is refused: two readers of such a body may see two different requests.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Callable, Generator, Iterator
from enum import Enum
from typing import Any, Final, TypeVar

import msgspec
import pybase64
from msgspec import UNSET, UnsetType

from svc_cluster.base.errors import ErrorCode, InvalidError, MalformedError
from svc_cluster.base.steps import at_once
from svc_cluster.codec.json_scan import Structure, structure_steps
from svc_cluster.codec.records import (
    FENCING_TOKEN_RULE,
    METERED_BYTES_MAX,
    METERED_BYTES_RULE,
    RECORD_COUNT_RULE,
    RECORDS_MAX,
    U64_MAX,
    RecordIn,
    RecordOut,
)
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


class _HeavyRecord(msgspec.Struct):
    timestamp: int | UnsetType | None = UNSET
    headers: msgspec.Raw | UnsetType = UNSET
    body: str | UnsetType | None = UNSET


class _HeavyAppend(msgspec.Struct):
    records: list[_HeavyRecord]
    match_seq_num: int | UnsetType | None = UNSET
    fencing_token: str | UnsetType | None = UNSET


class AppendRequest(msgspec.Struct, frozen=True):
    """A decoded append; None means that the condition was not given."""

    records: list[RecordIn]
    match_seq_num: int | None
    fencing_token: str | None


LIGHT_BYTES_MAX: Final = 64 * 1024
"""A body of so much is decoded as it is: at its worst that takes a few ms."""
LIGHT_ARRAYS_MAX: Final = 8192
"""With more, a longer body is decoded in steps."""
OBJECTS_MAX: Final = 2 * RECORDS_MAX
"""In a body: itself, its records, and some within unknown members."""
UNKNOWN_VALUES_MAX: Final = 4096
"""In all unknown members of a longer body together."""
ARRAYS_MAX: Final = METERED_BYTES_MAX // 3 + 2 * RECORDS_MAX
"""In a body: its pairs of headers, of which each has a name, and what holds them."""
NESTING_MAX: Final = 512
"""Objects and arrays within each other, seen at the end of a slice; a batch needs five."""
PAIRS_AT_ONCE: Final = 1024
_CUT_BYTES_MIN: Final = 4096
_BLANK: Final = rb"[ \t\r\n]*+"
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_PAIRS: Final = re.compile(
    _BLANK
    + rb"(?:\["
    + _BLANK
    + _STRING
    + _BLANK
    + rb","
    + _BLANK
    + _STRING
    + _BLANK
    + rb"\]"
    + _BLANK
    + rb",?+"
    + _BLANK
    + rb"){1,%d}+" % PAIRS_AT_ONCE,
    re.DOTALL,
)

_APPEND_DECODER: Final = msgspec.json.Decoder(_Append)
_HEAVY_DECODER: Final = msgspec.json.Decoder(_HeavyAppend)
_PAIRS_DECODER: Final = msgspec.json.Decoder(list[tuple[str, str]])
_DECODERS: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


def decode_append(body: bytes, data_format: DataFormat) -> AppendRequest:
    """All of `decode_append_steps` at once."""
    return at_once(decode_append_steps(body, data_format))


def decode_append_steps(
    body: bytes, data_format: DataFormat
) -> Generator[None, None, AppendRequest]:
    """Decode an append's body, in steps of a bounded time.

    What has more records or header pairs than a batch can have is refused before objects are made
    of them, and so are unknown members of more than UNKNOWN_VALUES_MAX values.

    Raises MalformedError (bad_json) for syntax and types, InvalidError for base64 that is not, for
    a fencing token of more than 36 bytes, and for more than a batch can be.
    """
    structure: Structure | None = None
    if len(body) > LIGHT_BYTES_MAX:
        structure = yield from structure_steps(body, _check_growth)
        _check_separators(structure)
    decode = _from_base64 if data_format is DataFormat.BASE64 else str.encode
    if structure is not None and structure.arrays > LIGHT_ARRAYS_MAX:
        return (yield from _decode_heavy(body, decode, structure))
    wire = _decode(_APPEND_DECODER, body)
    if len(wire.records) > RECORDS_MAX:
        raise InvalidError(RECORD_COUNT_RULE)
    colons = body.count(b":") if structure is None else structure.colons
    if colons != _members(wire):
        # More colons than known members: some stand in strings, or members are unknown or doubled.
        _refuse_doubled_members(body)
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
    return _append_request(wire, records)


def _append_request(wire: _Append | _HeavyAppend, records: list[RecordIn]) -> AppendRequest:
    fencing_token = wire.fencing_token if wire.fencing_token is not UNSET else None
    if fencing_token is not None and not names.is_fencing_token(fencing_token):
        raise InvalidError(FENCING_TOKEN_RULE)
    return AppendRequest(records, _u64("match_seq_num", wire.match_seq_num), fencing_token)


def _check_growth(structure: Structure) -> None:
    """Raises InvalidError for more records or header pairs than a batch has, MalformedError for
    what no decoder takes either."""
    if structure.open > NESTING_MAX:
        raise MalformedError(ErrorCode.BAD_JSON, f"nested more than {NESTING_MAX} deep")
    if structure.objects > OBJECTS_MAX:
        raise InvalidError(f"{RECORD_COUNT_RULE}, with few objects beside them")
    if structure.arrays > ARRAYS_MAX:
        raise InvalidError(METERED_BYTES_RULE)


def _check_separators(structure: Structure) -> None:
    """Raises MalformedError for too much beside what a batch has."""
    # A pair has a comma inside and one behind it; a record two between its members.
    usual = 2 * structure.arrays + 3 * structure.objects
    if structure.commas > usual + UNKNOWN_VALUES_MAX:
        raise MalformedError(
            ErrorCode.BAD_JSON, f"unknown members have at most {UNKNOWN_VALUES_MAX} values"
        )


def _decode_heavy(
    body: bytes, decode: Callable[[str], bytes], structure: Structure
) -> Generator[None, None, AppendRequest]:
    """A body of many arrays, which as a rule are pairs of headers: they are left as they stand at
    first, and then made objects of a few at a time."""
    wire = _decode(_HEAVY_DECODER, body)
    yield
    if len(wire.records) > RECORDS_MAX:
        raise InvalidError(RECORD_COUNT_RULE)
    rest = body
    is_unclear = structure.colons != _members(wire)
    room = METERED_BYTES_MAX
    records: list[RecordIn] = []
    for record in wire.records:
        headers: list[tuple[bytes, bytes]] = []
        if record.headers is not UNSET:
            raw = bytes(record.headers)
            for pairs in _header_pairs(raw):
                piece = [(decode(name), decode(value)) for name, value in pairs]
                room -= sum(2 + len(name) + len(value) for name, value in piece)
                if room < 0:
                    raise InvalidError(METERED_BYTES_RULE)
                headers += piece
                yield
            if is_unclear and len(raw) > _CUT_BYTES_MIN:
                # Pairs have no members: what is doubled is elsewhere.
                rest = rest.replace(raw, b"0", 1)
        data = decode(record.body) if record.body else b""
        records.append((_u64("timestamp", record.timestamp), headers, data))
    if is_unclear:
        yield
        _refuse_doubled_members(rest)
    return _append_request(wire, records)


def _header_pairs(raw: bytes) -> Iterator[list[tuple[str, str]]]:
    """The pairs of one record's headers, PAIRS_AT_ONCE at a time. `raw` is well-formed. Raises
    MalformedError for what is neither null nor an array of pairs."""
    if raw == b"null":
        return
    position, end = 1, len(raw) - 1
    while (found := _PAIRS.match(raw, position, end)) is not None:
        yield _decode(_PAIRS_DECODER, b"[%b]" % found.group().rstrip(b", \t\r\n"))
        position = found.end()
    if raw[:1] != b"[" or raw[position:end].strip(b" \t\r\n"):
        raise MalformedError(ErrorCode.BAD_JSON, "headers are an array of pairs of strings")


def _members(wire: _Append | _HeavyAppend) -> int:
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
