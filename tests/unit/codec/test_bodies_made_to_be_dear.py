"""Bodies that are small on the wire and would be dear to decode: refused before objects are made of
them, and whatever is decoded is decoded in steps that are short.

What a step costs is processor time of this thread, held against a step of known work on the same
machine, so that a busy or slow one judges no differently.
"""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable, Generator
from typing import Any

import msgspec
import pytest

from svc_cluster.base.errors import InvalidError, MalformedError, ServiceError
from svc_cluster.base.steps import at_once
from svc_cluster.codec import json_body, proto_body
from svc_cluster.codec.json_body import DataFormat
from svc_cluster.codec.json_scan import structure_steps
from svc_cluster.codec.long_record import HEADER_FIELDS_MAX, PORTION_BYTES
from svc_cluster.codec.varint import varint
from tests.at_once import build_batch, decode_json_append, decode_proto_append
from tests.unit.codec.stored import records_of

pytestmark = pytest.mark.usefixtures("python_alone")

JSON_BYTES = 8 * 1024 * 1024
PROTO_BYTES = 2 * 1024 * 1024
PAIRS_LEGAL = 349_000


def filled(begin: bytes, unit: bytes, end: bytes, size: int = JSON_BYTES) -> bytes:
    return begin + unit * ((size - len(begin) - len(end)) // len(unit)) + end


def pairs(unit: bytes, count: int) -> bytes:
    return b'{"records":[{"headers":[' + b",".join([unit] * count) + b"]}]}"


def field(tag: bytes, content: bytes) -> bytes:
    return tag + varint(len(content)) + content


HEAVY_RECORD = field(b"\x0a", b"\x12\x03\x0a\x01a" * 349_000)

BOMBS: dict[str, Callable[[], bytes]] = {
    "empty records": lambda: filled(b'{"records":[', b"{},", b"{}]}"),
    "unknown numbers": lambda: filled(b'{"a":[', b"0,", b'0],"records":[{}]}'),
    "unknown floats": lambda: filled(b'{"a":[', b"1.7e308,", b'0],"records":[{}]}'),
    "unknown objects": lambda: filled(b'{"a":[', b'{"b":0},', b'0],"records":[{}]}'),
    "unknown arrays": lambda: filled(b'{"a":[', b"[],", b'0],"records":[{}]}'),
    "unknown strings": lambda: filled(b'{"a":[', b'"",', b'0],"records":[{}]}'),
    "unknown members": lambda: (
        b'{"records":[{}],' + b",".join(b'"%d":0' % n for n in range(600_000)) + b"}"
    ),
    "unknown members of a record": lambda: (
        b'{"records":[{' + b",".join(b'"%d":0' % n for n in range(600_000)) + b"}]}"
    ),
    "empty header pairs": lambda: filled(b'{"records":[{"headers":[', b'["",""],', b'["",""]]}]}'),
    "nested arrays": lambda: b"[" * JSON_BYTES,
    "nested arrays of a member": lambda: filled(b'{"records":[{}],"a":', b"[", b""),
    "nested objects": lambda: b'{"a":' * (JSON_BYTES // 5),
    "quotes": lambda: b'"' * JSON_BYTES,
    "backslashes": lambda: b'{"a":"' + b"\\" * (JSON_BYTES - 6),
}
PROTO_BOMBS: dict[str, bytes] = {
    "empty records": b"\x0a\x00" * (PROTO_BYTES // 2),
    "unknown fields": b"\x0a\x00" + b"\x78\x00" * (PROTO_BYTES // 2 - 1),
    "unknown groups": b"\x0a\x00" + b"\x7b\x7c" * (PROTO_BYTES // 2 - 1),
    "repeated conditions": b"\x0a\x00" + b"\x10\x00" * (PROTO_BYTES // 2 - 1),
    "a group beside a record of very many headers": HEAVY_RECORD + b"\x7b\x7c",
    "what is no field beside such a record": HEAVY_RECORD + b"\xff" * 11,
    "groups within a record": field(b"\x0a", b"\x7b\x7c" * 900_000),
    "groups within a header": field(b"\x0a", field(b"\x12", b"\x7b\x7c" * 900_000)),
    "names within a header": field(b"\x0a", field(b"\x12", b"\x0a\x00" * 900_000)),
    "a number without an end": b"\x0a\x00" + b"\x80" * (PROTO_BYTES - 2),
}


def reference_seconds() -> float:
    """Of making 100,000 objects out of JSON: some ms, on the machine as it is now."""
    text = b"[" + b"{}," * 99_999 + b"{}]"
    best = float("inf")
    for _ in range(3):
        begun = time.thread_time()
        msgspec.json.decode(text)
        best = min(best, time.thread_time() - begun)
    return best


def longest_step(steps: Callable[[], Generator[None, None, Any]]) -> tuple[float, Any]:
    """In references, the best of three; and the outcome or the refusal."""
    best, outcome = float("inf"), None
    for _ in range(3):
        reference = reference_seconds()
        longest, generator = 0.0, steps()
        while True:
            begun = time.thread_time()
            try:
                next(generator)
            except StopIteration as done:
                outcome = done.value
                break
            except ServiceError as refusal:
                outcome = refusal
                break
            finally:
                longest = max(longest, time.thread_time() - begun)
        best = min(best, longest / reference)
    return best, outcome


@pytest.mark.parametrize("name", BOMBS)
def test_a_json_bomb_is_refused_before_objects_are_made_of_it(name: str) -> None:
    """No step is long, and what is allocated meanwhile is a few slices, not the objects."""
    body = BOMBS[name]()
    with pytest.raises((InvalidError, MalformedError)):
        decode_json_append(body, DataFormat.UTF8)
    longest, _ = longest_step(lambda: json_body.decode_append_steps(body, DataFormat.UTF8))
    assert longest < 4
    tracemalloc.start()
    try:
        with pytest.raises((InvalidError, MalformedError)):
            decode_json_append(body, DataFormat.UTF8)
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", PROTO_BOMBS)
def test_a_protobuf_bomb_is_refused_before_the_library_sees_it(name: str) -> None:
    """Empty records, fields that nobody knows: what is looked at is a few thousand of them."""
    body = PROTO_BOMBS[name]
    longest, outcome = longest_step(lambda: proto_body.decode_append_steps(body))
    assert isinstance(outcome, InvalidError | MalformedError), outcome
    assert longest < 1.5


@pytest.mark.parametrize("more", [0, 1])
def test_a_long_header_has_so_many_fields_and_not_one_more(more: int) -> None:
    """Name and value are two of them, and the last of each counts; the rule is told."""
    pair = field(b"\x0a", b"name") + field(b"\x12", b"v" * 2 * PORTION_BYTES)
    unknown = field(b"\x22", b"") * (HEADER_FIELDS_MAX - 2 + more)
    body = field(b"\x0a", field(b"\x12", unknown + pair))
    _, outcome = longest_step(lambda: proto_body.decode_append_steps(body))
    if more:
        assert isinstance(outcome, MalformedError)
        assert f"a long header has at most {HEADER_FIELDS_MAX} fields" in str(outcome)
        return
    assert outcome.batch == build_batch([(None, [(b"name", b"v" * 2 * PORTION_BYTES)], b"")])


def test_record_1001_is_refused_whatever_the_size_of_the_body() -> None:
    """As the count of records, with its rule; 1,000 are taken."""
    for size in (2, 100, 500):
        for count in (1001, 1500, 3000):
            body = json.dumps({"records": [{"body": "x" * size}] * count}).encode()
            with pytest.raises(InvalidError, match="1 to 1000 records"):
                decode_json_append(body, DataFormat.UTF8)
        body = json.dumps({"records": [{"body": "x" * size}] * 1000}).encode()
        assert decode_json_append(body, DataFormat.UTF8).batch.record_count == 1000


@pytest.mark.parametrize("unknown", [b"", b'"also":{"a":[1,{"b":2}]},'])
def test_as_many_headers_as_a_batch_can_have_are_taken_in_short_steps(unknown: bytes) -> None:
    """349,000 names of one letter are a legal megabyte: decoded right, between others' turns, and
    what is doubled beside them is still refused."""
    body = pairs(b'["a",""]', PAIRS_LEGAL).replace(b"{", b"{" + unknown, 1)
    longest, request = longest_step(lambda: json_body.decode_append_steps(body, DataFormat.UTF8))
    batch = request.batch
    assert batch == build_batch([(None, [(b"a", b"")] * PAIRS_LEGAL, b"")])
    assert batch.metered_bytes == 8 + 3 * PAIRS_LEGAL
    assert longest < 3
    longest, decoded = longest_step(lambda: proto_body.decode_append_steps(batch.records))
    assert decoded.batch == batch
    assert longest < 8
    doubled = body[:-3] + b',"body":"a","body":"b"}]}'[:-3] + b"}]}"
    assert json.loads(doubled)["records"][0]["body"] == "b"
    with pytest.raises(MalformedError, match="twice"):
        decode_json_append(doubled, DataFormat.UTF8)


def test_headers_are_decoded_alike_in_one_go_and_in_steps() -> None:
    """With every kind of blank, escape and separator within strings."""
    odd = [['a\\"b', "],["], ["\\", "{\n}"], ["é\u2028", "\t:"], [",", '["x","y"]']]
    few = json.dumps({"records": [{"headers": odd * 3}]}, indent=1).encode()
    many = json.dumps({"records": [{"headers": odd * 3000}, {"body": "[["}]}, indent=1).encode()
    short = records_of(decode_json_append(few, DataFormat.UTF8).batch)[0][1]
    long, last = records_of(decode_json_append(many, DataFormat.UTF8).batch)
    assert list(long[1]) == list(short) * 1000
    assert (long[0], long[2], last[2]) == (None, b"", b"[[")


@pytest.mark.parametrize(
    "bad", [b"[1,2]", b'["a"]', b'["a","b","c"]', b'"a"', b"null", b"{}", b"[]"]
)
def test_what_is_no_pair_is_refused_among_many(bad: bytes) -> None:
    """Whether the body is decoded in one go or in steps."""
    for count in (10, 20_000):
        body = pairs(b'["a","b"]', count).replace(b"]}]}", b"," + bad + b"]}]}")
        with pytest.raises(MalformedError):
            decode_json_append(body, DataFormat.UTF8)


def test_structure_is_counted_outside_strings_wherever_slices_end() -> None:
    """Escapes that lie across a cut, of any parity."""
    for shift in range(8):
        text = {"x" * shift: ["\\" * n + '"{[,:' for n in range(0, 600, 7)] * 20, "y": [{}, [{}]]}
        body = json.dumps(text).encode()
        found = at_once(structure_steps(body, lambda _: None))
        values = 86 * 20
        assert (found.objects, found.arrays) == (3, 3)
        assert (found.commas, found.colons) == (values - 1 + 2, 2)


def test_a_command_among_many_headers_is_refused_at_once() -> None:
    """A million empty headers in one record: nobody lists them to see that they are no command."""
    headers = b"\x12\x00" * 500_000
    body = b"\x0a" + b"\xc0\x84\x3d" + headers
    with pytest.raises(InvalidError, match="empty only"):
        decode_proto_append(body)
    with pytest.raises(InvalidError, match="empty only"):
        build_batch([(None, [(b"", b"")] * 2, b"")])
