"""One record of an AppendInput that is too long to be given to the protobuf library at one go.

Its fields are walked, and given to the library in portions. A record that comes in portions is what
it is as a whole: its headers are all of them in order, its timestamp and body the last that came.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final

from google.protobuf.message import DecodeError

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.codec.varint import short_varint, varint

PORTION_BYTES: Final = 128 * 1024
"""The library is given so much at once, or one field more: of the shortest headers about 1.5 ms."""
RUNS_AT_ONCE: Final = 16
"""So many runs of short headers, or other fields as long, are walked between two chances for
others to work: about 1 ms."""
_FIELDS_OF_RUN: Final = 512
_SHORT_BYTES_MAX: Final = 12
_LOOKS: Final = 512

HEADER_FIELDS_MAX: Final = 16
"""Fields of a header that is longer than a portion: its name, its value, some that are unknown."""

GROUP_RULE: Final = "a body of more than 64 KiB has no groups"
"""Source: contract 2.9. What a group holds may look like anything, so that a body with one could
only be given to the library as a whole."""

BROKEN: Final = "the body is not an AppendInput"
_GROUPS: Final = (3, 4)
_HEADERS: Final = 2 << 3 | 2
_RECORDS: Final = b"\x0a"
_BODY: Final = 3 << 3 | 2
_SHORT_HEADERS: Final = re.compile(
    b"(?:\x12(?:%b)){1,%d}"
    % (
        b"|".join(b"\\x%02x.{%d}" % (size, size) for size in range(_SHORT_BYTES_MAX + 1)),
        _FIELDS_OF_RUN,
    ),
    re.DOTALL,
)
"""Headers of few bytes one behind the other: what most of the time is spent with where there are
very many."""


def long_record_steps(content: bytes) -> Generator[None, None, tuple[pb.AppendInput, bytes]]:
    """Return the record, and the bytes of an AppendInput with it alone, as the library writes it.
    Of its headers the record has two at most. Raises MalformedError (bad_proto)."""
    record = pb.AppendRecord()
    headers: list[bytes] = []
    begin = 0
    cuts = yield from _cuts_steps(content)
    for end, has_body in cuts:
        yield
        some = _parsed(content[begin:end])
        begin = end
        yield
        some.DiscardUnknownFields()
        if some.HasField("timestamp"):
            record.timestamp = some.timestamp
        if has_body:
            record.body = some.body
        some.ClearField("timestamp")
        some.ClearField("body")
        record.headers.extend(some.headers[: 2 - len(record.headers)])
        headers.append(some.SerializeToString())
    first = pb.AppendRecord()
    if record.HasField("timestamp"):
        first.timestamp = record.timestamp
    last = pb.AppendRecord(body=record.body)
    parts = [first.SerializeToString(), *headers, last.SerializeToString()]
    size = sum(map(len, parts))
    return pb.AppendInput(records=[record]), b"".join([_RECORDS, varint(size), *parts])


def _parsed(portion: bytes) -> pb.AppendRecord:
    try:
        return pb.AppendRecord.FromString(portion)
    except DecodeError as cause:
        raise MalformedError(ErrorCode.BAD_PROTO, BROKEN) from cause


def _cuts_steps(content: bytes) -> Generator[None, None, list[tuple[int, bool]]]:
    """Return where `content` is cut between its fields, and whether the portion before each cut has
    a body. Raises MalformedError for what ends within a field, and for a group."""
    cuts: list[tuple[int, bool]] = []
    position = begin = looks = 0
    has_body = False
    try:
        while position < len(content):
            if position - begin >= PORTION_BYTES:
                cuts.append((position, has_body))
                begin, has_body = position, False
            looks += 1
            if run := _SHORT_HEADERS.match(content, position):
                position = run.end()
                looks += _LOOKS // RUNS_AT_ONCE
            else:
                field = position
                tag, position = _behind(content, position)
                if tag == _HEADERS and position - field > PORTION_BYTES:
                    _check_header(content, field, min(position, len(content)))
                has_body |= tag == _BODY
            if looks >= _LOOKS:
                looks = 0
                yield
    except (IndexError, ValueError) as cause:
        raise MalformedError(ErrorCode.BAD_PROTO, BROKEN) from cause
    if position > len(content):
        raise MalformedError(ErrorCode.BAD_PROTO, BROKEN)
    return [*cuts, (len(content), has_body)]


def _check_header(content: bytes, position: int, end: int) -> None:
    """Look at the header at `position`. Raises MalformedError for more fields than are parsed
    shortly, and what `_behind` raises."""
    _, position = short_varint(content, position)
    _, position = short_varint(content, position)
    for _ in range(HEADER_FIELDS_MAX):
        if position >= end:
            return
        _, position = _behind(content, position)
    if position < end:
        rule = f"a long header has at most {HEADER_FIELDS_MAX} fields"
        raise MalformedError(ErrorCode.BAD_PROTO, rule)


def _behind(content: bytes, position: int) -> tuple[int, int]:
    """The tag of the field at `position`, and where the next one begins. Raises IndexError for
    what ends within a number, ValueError for what is no field, MalformedError for a group."""
    tag, position = short_varint(content, position)
    if tag & 7 in _GROUPS:
        raise MalformedError(ErrorCode.BAD_PROTO, GROUP_RULE)
    match tag & 7:
        case 0:
            _, position = short_varint(content, position)
        case 1:
            position += 8
        case 2:
            length, position = short_varint(content, position)
            position += length
        case 5:
            position += 4
        case _:
            raise ValueError("no type at all")
    return tag, position
