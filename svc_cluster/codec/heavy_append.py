"""This module decodes JSON bodies of appends that are dear.

Dear are many headers, many escapes, or much beside the records. Such a body is walked, and built
into a batch as it is walked, in steps of a bounded time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import Final

import msgspec

from svc_cluster.codec.batch_builder import BatchBuilder
from svc_cluster.codec.batch_rules import (
    METERED_BYTES_MAX,
    RECORDS_MAX,
    bad_metered_bytes,
    bad_record_count,
)
from svc_cluster.codec.json_shape import decode_typed, unknown_member
from svc_cluster.codec.json_walk import PIECE_BYTES, JsonWalk, refuse

PAIRS_AT_ONCE: Final = 1024
"""Headers that are made objects of in one go: about 2 ms, with what is built of them."""
RECORDS_AT_ONCE: Final = 64
"""Records that are walked in one go: about 1 ms..."""
BYTES_AT_ONCE: Final = 64 * 1024
"""...unless they are longer."""
_CHARS_MAX: Final = METERED_BYTES_MAX * 4 // 3 + 4
"""A body or header in base64 has so many; as text it has fewer."""

_BLANK: Final = rb"[ \t\r\n]*+"
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_PAIR: Final = _BLANK.join((rb"\[", _STRING, rb",", _STRING, rb"\]"))
_PAIRS: Final = re.compile(
    rb"%b(?:%b,%b%b){0,%d}+" % (_PAIR, _BLANK, _BLANK, _PAIR, PAIRS_AT_ONCE - 1), re.DOTALL
)

_PAIRS_DECODER: Final = msgspec.json.Decoder(list[tuple[str, str]])
_NUMBER_DECODER: Final = msgspec.json.Decoder(int | None)
_TOKEN_DECODER: Final = msgspec.json.Decoder(str | None)

_BODY_MEMBERS: Final = ("records", "match_seq_num", "fencing_token")
_RECORD_MEMBERS: Final = ("timestamp", "headers", "body")

Decode = Callable[[str], bytes]


def heavy_append_steps(
    body: bytes, decode: Decode, builder: BatchBuilder, *, strict: bool = False
) -> Generator[None, None, tuple[int | None, str | None]]:
    """Decode a body of any structure, and put its records into `builder`.

    Returns the number that is to match and the fencing token, None for what was not given. `decode`
    makes bytes of strings. With `strict`, unknown members are refused.

    Raises MalformedError (bad_json), InvalidError for what breaks the limits of a batch or the
    rules of command records, and what `decode` raises.
    """
    walk = JsonWalk(body)
    match_seq_num: int | None = None
    fencing_token: str | None = None
    seen: set[str] = set()
    yield from walk.pass_steps(b"{")
    has_more = not (yield from walk.is_empty_steps(b"}"))
    while has_more:
        match (yield from walk.name_steps(seen)):
            case "records":
                yield from _records_steps(walk, builder, decode, strict=strict)
            case "match_seq_num":
                match_seq_num = yield from walk.short_steps(_NUMBER_DECODER)
            case "fencing_token":
                fencing_token = yield from walk.short_steps(_TOKEN_DECODER)
            case name:
                if strict:
                    raise unknown_member(name, _BODY_MEMBERS)
                yield from walk.value_steps()
        has_more = yield from walk.more_steps(b"}")
    if (yield from walk.next_steps()):
        refuse("something stands behind the body")
    if "records" not in seen:
        refuse("the body has no records")
    yield
    return match_seq_num, fencing_token


def _records_steps(
    walk: JsonWalk, builder: BatchBuilder, decode: Decode, *, strict: bool
) -> Generator[None, None, None]:
    yield from walk.pass_steps(b"[")
    has_more = not (yield from walk.is_empty_steps(b"]"))
    count = 0
    pause_at = walk.at + BYTES_AT_ONCE
    while has_more:
        count += 1
        if count % RECORDS_AT_ONCE == 0 or walk.at >= pause_at:
            pause_at = walk.at + BYTES_AT_ONCE
            yield
        if count > RECORDS_MAX:  # the rest is counted
            yield from walk.value_steps()
        else:
            yield from _record_steps(walk, builder, decode, strict=strict)
        has_more = yield from walk.more_steps(b"]")
    if not 1 <= count <= RECORDS_MAX:
        raise bad_record_count(count)


def _record_steps(
    walk: JsonWalk, builder: BatchBuilder, decode: Decode, *, strict: bool
) -> Generator[None, None, None]:
    timestamp: int | None = None
    body = b""
    seen: set[str] = set()
    yield from walk.pass_steps(b"{")
    has_more = not (yield from walk.is_empty_steps(b"}"))
    while has_more:
        match (yield from walk.name_steps(seen)):
            case "timestamp":
                timestamp = yield from walk.short_steps(_NUMBER_DECODER)
                if timestamp is not None and not 0 <= timestamp < 2**64:
                    refuse("timestamp is an unsigned 64-bit number")
            case "headers":
                yield from _headers_steps(walk, builder, decode)
            case "body":
                if (yield from walk.next_steps()) == b'"':
                    body = yield from _bytes_steps(walk, decode)
                else:
                    yield from walk.short_steps(_TOKEN_DECODER)
            case name:
                if strict:
                    raise unknown_member(f"records[{builder.record_count}].{name}", _RECORD_MEMBERS)
                yield from walk.value_steps()
        has_more = yield from walk.more_steps(b"}")
    builder.end_record(timestamp, body)


def _headers_steps(
    walk: JsonWalk, builder: BatchBuilder, decode: Decode
) -> Generator[None, None, None]:
    """The pairs of one record, or null."""
    if (yield from walk.next_steps()) == b"n":
        yield from walk.short_steps(_TOKEN_DECODER)
        return
    yield from walk.pass_steps(b"[")
    has_more = not (yield from walk.is_empty_steps(b"]"))
    while has_more:
        yield from walk.next_steps()
        found = _PAIRS.match(walk.text, walk.at, walk.at + PIECE_BYTES)
        if found is not None:
            pairs = decode_typed(_PAIRS_DECODER, b"[%b]" % found.group())
            walk.at = found.end()
            builder.add_headers([(decode(name), decode(value)) for name, value in pairs])
        else:  # one that is long, or none
            yield from walk.pass_steps(b"[")
            name = yield from _bytes_steps(walk, decode)
            yield from walk.pass_steps(b",")
            value = yield from _bytes_steps(walk, decode)
            yield from walk.pass_steps(b"]")
            builder.add_headers([(name, value)])
        has_more = yield from walk.more_steps(b"]")
        yield


def _bytes_steps(walk: JsonWalk, decode: Decode) -> Generator[None, None, bytes]:
    """A string that is part of a record."""
    text = yield from walk.text_steps(_CHARS_MAX)
    if text is None:
        raise bad_metered_bytes(None)
    if len(text) > PIECE_BYTES:
        yield
    return decode(text)
