"""JSON bodies of the public API: typed decoding in, precomputed encoding out.

Every decoding failure is a MalformedError with code bad_json or, where the text is well-formed but
breaks a rule of meaning, an InvalidError. Beyond what the JSON library refuses by itself, a member
given twice is refused: two readers of such a body may see two different requests.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, Final, TypeVar

import msgspec
import pybase64
from msgspec import UNSET, UnsetType

from svc_cluster.base.errors import ErrorCode, InvalidError, MalformedError
from svc_cluster.codec.batch_builder import BatchBuilder
from svc_cluster.codec.batch_codec import AppendInput, RecordIn, RecordOut, build_batch_steps
from svc_cluster.codec.batch_rules import (
    METERED_BYTES_MAX,
    RECORD_COUNT_RULE,
    RECORDS_MAX,
    U64_MAX,
    bad_fencing_token,
    bad_metered_bytes,
    bad_record_count,
)
from svc_cluster.codec.heavy_append import heavy_append_steps
from svc_cluster.codec.json_scan import Structure, structure_steps
from svc_cluster.codec.json_shape import Only, decode_typed, read_again
from svc_cluster.codec.json_walk import NESTING_MAX
from svc_cluster.codec.plain_append import plain_append
from svc_cluster.model import names
from svc_cluster.model.record import AppendAck, Position

_T = TypeVar("_T")


class DataFormat(Enum):
    """How header names, header values and bodies of records stand in JSON strings."""

    BASE64 = "base64"
    UTF8 = "utf8"


class AppendRecordJson(msgspec.Struct):
    timestamp: int | UnsetType | None = UNSET
    headers: list[tuple[str, str]] | UnsetType | None = UNSET
    body: str | UnsetType | None = UNSET


class AppendJson(msgspec.Struct):
    records: list[AppendRecordJson]
    match_seq_num: int | UnsetType | None = UNSET
    fencing_token: str | UnsetType | None = UNSET


TEXT_FORMAT: Final = "svc-format: utf8"
"""The header by which records stand as text, as the seed dialect names it."""
LIGHT_BYTES_MAX: Final = 64 * 1024
"""A body of so much is decoded as it is: at its worst that takes a few ms."""
LIGHT_TEXT_BYTES_MAX: Final = 2 * 1024 * 1024
LIGHT_ARRAYS_MAX: Final = 8192
LIGHT_ESCAPES_MAX: Final = 128 * 1024
"""What has more of any of these is walked. With so much of each the library takes about 4 ms."""
LIGHT_HEADERS_AT_ONCE: Final = 2048
"""Made bytes of in one go: of base64 about 3 ms."""
OBJECTS_MAX: Final = 2 * RECORDS_MAX
"""In a body: itself, its records, and some within unknown members."""
UNKNOWN_VALUES_MAX: Final = 4096
"""In all unknown members of a longer body together."""
ARRAYS_MAX: Final = METERED_BYTES_MAX // 3 + 2 * RECORDS_MAX
"""In a body: its pairs of headers, of which each has a name, and what holds them."""
ESCAPES_MAX: Final = METERED_BYTES_MAX * 4 // 3 + 64 * RECORDS_MAX
"""In all strings of a body: every character of a batch in base64 may be one."""
_APPEND_DECODER: Final = msgspec.json.Decoder(AppendJson)
_ONLY_APPEND: Final = Only(AppendJson)
_DECODERS: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


def decode_plain_append(body: bytes, data_format: DataFormat) -> AppendInput | None:
    """What `decode_append_steps` makes of a body of the plain shape; None: it is not plain, or
    there is no native core. Raises InvalidError for a fencing token of more than 36 bytes."""
    plain = plain_append(body, is_base64=data_format is DataFormat.BASE64)
    if plain is None:
        return None
    batch, match_seq_num, token = plain
    return AppendInput(batch, *_conditions(match_seq_num, token))


def decode_append_steps(
    body: bytes, data_format: DataFormat, *, strict: bool = False
) -> Generator[None, None, AppendInput]:
    """Decode an append's body and build its batch, in steps of a bounded time. With `strict`,
    unknown members are refused (bad_json).

    What has more records or header pairs than a batch can have is refused before objects are made
    of them, and so are unknown members of more than UNKNOWN_VALUES_MAX values.

    Raises MalformedError (bad_json) for syntax and types, InvalidError for base64 that is not (it
    names the record), for a fencing token of more than 36 bytes, for more than a batch can be, and
    for a header without a name that makes no command.
    """
    if (plain := decode_plain_append(body, data_format)) is not None:
        return plain
    decode = _from_base64 if data_format is DataFormat.BASE64 else str.encode
    structure: Structure | None = None
    if len(body) > LIGHT_BYTES_MAX:
        yield
        structure = yield from structure_steps(body, _check_growth)
        _check_separators(structure)
        yield
        if _is_heavy(body, structure):
            return (yield from _walk_steps(body, decode, strict=strict))
    wire = decode_typed(_APPEND_DECODER, body)
    if len(wire.records) > RECORDS_MAX:
        raise bad_record_count(len(wire.records))
    colons = body.count(b":") if structure is None else structure.colons
    if colons != _members(wire):
        # More colons than known members: some stand in strings, or members are unknown or doubled.
        if structure is not None:
            yield
        read_again(body, _ONLY_APPEND if strict else None)
    if structure is not None:
        yield
    records = yield from _records_steps(wire, decode)
    conditions = _conditions(wire.match_seq_num, wire.fencing_token)
    if structure is not None:
        yield
    return AppendInput((yield from build_batch_steps(records)), *conditions)


def _records_steps(
    wire: AppendJson, decode: Callable[[str], bytes]
) -> Generator[None, None, list[RecordIn]]:
    records: list[RecordIn] = []
    header_count = 0
    try:
        for record in wire.records:
            headers: list[tuple[bytes, bytes]] = []
            for name, value in record.headers or ():
                headers.append((decode(name), decode(value)))
                header_count += 1
                if header_count % LIGHT_HEADERS_AT_ONCE == 0:
                    yield
            data = decode(record.body) if record.body else b""
            records.append((_u64("timestamp", record.timestamp), headers, data))
    except _NotBase64Error as cause:
        raise _in_record(len(records), cause) from None
    return records


def _is_heavy(body: bytes, structure: Structure) -> bool:
    """Whether the library would take too long for it in one go."""
    return (
        len(body) > LIGHT_TEXT_BYTES_MAX
        or structure.arrays > LIGHT_ARRAYS_MAX
        or structure.escapes > LIGHT_ESCAPES_MAX
    )


def _walk_steps(
    body: bytes, decode: Callable[[str], bytes], *, strict: bool
) -> Generator[None, None, AppendInput]:
    builder = BatchBuilder()
    try:
        match_seq_num, fencing_token = yield from heavy_append_steps(
            body, decode, builder, strict=strict
        )
    except _NotBase64Error as cause:
        raise _in_record(builder.record_count, cause) from None
    conditions = _conditions(match_seq_num, fencing_token)
    return AppendInput(builder.batch(), *conditions)


def _conditions(
    match_seq_num: int | UnsetType | None, fencing_token: str | UnsetType | None
) -> tuple[int | None, str | None]:
    """The conditions of an append, where they were given. Raises MalformedError, InvalidError."""
    token = fencing_token if fencing_token is not UNSET else None
    if token is not None and not names.is_fencing_token(token):
        raise bad_fencing_token(token)
    return _u64("match_seq_num", match_seq_num), token


def _check_growth(structure: Structure) -> None:
    """Raises InvalidError for more records or header pairs than a batch has, MalformedError for
    what no decoder takes either."""
    if structure.open > NESTING_MAX:
        raise MalformedError(ErrorCode.BAD_JSON, f"nested more than {NESTING_MAX} deep")
    if structure.objects > OBJECTS_MAX:
        raise InvalidError(f"{RECORD_COUNT_RULE}, with few objects beside them")
    if structure.arrays > ARRAYS_MAX or structure.escapes > ESCAPES_MAX:
        raise bad_metered_bytes(None)


def _check_separators(structure: Structure) -> None:
    """Raises MalformedError for too much beside what a batch has."""
    # A pair has a comma inside and one behind it; a record two between its members.
    usual = 2 * structure.arrays + 3 * structure.objects
    if structure.commas > usual + UNKNOWN_VALUES_MAX:
        raise MalformedError(
            ErrorCode.BAD_JSON, f"unknown members have at most {UNKNOWN_VALUES_MAX} values"
        )


def _members(wire: AppendJson) -> int:
    """How many members of the body have been seen by the typed decoder."""
    members = 1 + (wire.match_seq_num is not UNSET) + (wire.fencing_token is not UNSET)
    for record in wire.records:
        members += (
            (record.timestamp is not UNSET)
            + (record.headers is not UNSET)
            + (record.body is not UNSET)
        )
    return members


def decode_object(
    body: bytes, shape: type[_T], *, strict: bool = False, without: frozenset[str] = frozenset()
) -> _T:
    """Decode a small body into a msgspec Struct. With `strict`, members that `shape` does not have
    are refused, and so are those of `without` (see `Only`). Raises MalformedError (bad_json)."""
    decoder = _DECODERS.get(shape)
    if decoder is None:
        decoder = _DECODERS[shape] = msgspec.json.Decoder(shape)
    value: _T = decode_typed(decoder, body)
    read_again(body, Only(shape, without) if strict else None)
    return value


def _u64(name: str, value: int | UnsetType | None) -> int | None:
    if value is None or value is UNSET:
        return None
    if not 0 <= value <= U64_MAX:
        raise MalformedError(ErrorCode.BAD_JSON, f"{name} is an unsigned 64-bit number")
    return value


class _NotBase64Error(Exception):
    """A header name, header value or body that is not base64; it says why."""


def _from_base64(text: str) -> bytes:
    """Standard alphabet, padded, and canonical: unused bits of the last digit are zero."""
    try:
        data = pybase64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _NotBase64Error("header names, header values and bodies are base64 here") from None
    if text.endswith("=") and text[-4:] != pybase64.b64encode_as_string(
        data[len(data) - len(data) % 3 :]
    ):
        raise _NotBase64Error("the last base64 digit has bits that mean nothing")
    return data


def _in_record(place: int, cause: _NotBase64Error) -> InvalidError:
    return InvalidError(f"records[{place}]: {cause}; for text send {TEXT_FORMAT}")


class _Position(msgspec.Struct):
    seq_num: int
    timestamp: int


class _Base64Record(msgspec.Struct, omit_defaults=True):
    seq_num: int
    timestamp: int
    headers: list[tuple[bytes, bytes]] = []
    body: bytes = b""


class _Utf8Record(msgspec.Struct, omit_defaults=True):
    seq_num: int
    timestamp: int
    headers: list[tuple[str, str]] = []
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
                [(_text(name), _text(value)) for name, value in r.headers],
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
