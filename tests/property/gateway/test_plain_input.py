"""A protobuf body is taken for plain only where the library makes the very same append of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.base.errors import InvalidError, MalformedError
from svc_cluster.base.steps import at_once
from svc_cluster.codec.batch_codec import AppendInput
from svc_cluster.codec.batch_rules import METERED_BYTES_MAX, RECORDS_MAX, U64_MAX
from svc_cluster.codec.proto_body import decode_append_steps
from svc_cluster.codec.varint import varint
from svc_cluster.gateway.request.plain_input import (
    CONDITIONS_BYTES_MAX,
    HEADERS_MAX,
    STEP_BYTES_MAX,
    append_input_steps,
    plain_append_input,
)
from tests.at_once import decode_proto_append

Header = tuple[bytes, bytes]


def record(
    body: bytes, headers: Sequence[Header] = (), stamp: int | None = None
) -> pb.AppendRecord:
    made = pb.AppendRecord(
        body=body, headers=[pb.Header(name=name, value=value) for name, value in headers]
    )
    if stamp is not None:
        made.timestamp = stamp
    return made


def by_library(body: bytes) -> AppendInput | None:
    """None: it is refused."""
    try:
        return decode_proto_append(body)
    except (InvalidError, MalformedError):
        return None


def bodies_of(made: pb.AppendRecord) -> bytes:
    return pb.AppendInput(records=[made]).SerializeToString()


SIZES: Final = st.sampled_from((0, 1, 2, 5, 126, 127, 128, 129, 130, 200, 16_383, 16_384, 70_000))
STAMPS: Final = st.none() | st.sampled_from((0, 1, 127, 128, 2**35, 1_764_374_400_000, U64_MAX))
HEADERS: Final = st.lists(
    st.tuples(st.binary(min_size=1, max_size=9), st.binary(max_size=9)), max_size=4
)
RECORDS: Final = st.builds(
    lambda size, headers, stamp: record(b"b" * size, headers, stamp), SIZES, HEADERS, STAMPS
)
TOKENS: Final = (
    st.none() | st.text(max_size=9) | st.sampled_from(("x" * 36, "x" * 37, "\u00e9" * 19))
)


@settings(max_examples=400, deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=5), STAMPS, TOKENS)
def test_what_the_library_writes_is_plain(
    records: list[pb.AppendRecord], match: int | None, token: str | None
) -> None:
    message = pb.AppendInput(records=records)
    if match is not None:
        message.match_seq_num = match
    if token is not None:
        message.fencing_token = token
    body = message.SerializeToString()
    found = plain_append_input(body)
    if token is not None and len(token.encode()) > 36:
        assert found is None and by_library(body) is None
        return
    assert found is not None
    assert found == by_library(body)
    assert found.match_seq_num == match
    assert found.fencing_token == token
    assert found.batch.records == pb.AppendInput(records=records).SerializeToString()


@settings(max_examples=2_000, deadline=None)
@given(
    st.lists(RECORDS, min_size=1, max_size=3),
    st.lists(
        st.tuples(
            st.integers(0, 120),
            st.sampled_from(("change", "drop", "put")),
            st.integers(0, 255)
            | st.sampled_from((0x00, 0x08, 0x0A, 0x10, 0x12, 0x1A, 0x22, 0x7F, 0x80, 0x81)),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_spoilt_bytes_are_plain_only_where_the_library_agrees(
    records: list[pb.AppendRecord], changes: list[tuple[int, str, int]]
) -> None:
    data = bytearray(pb.AppendInput(records=records).SerializeToString()[:4_000])
    for place, what, byte in changes:
        at = place % (len(data) + 1)
        if what == "put" or at == len(data):
            data[at:at] = bytes([byte])
        elif what == "drop":
            del data[at]
        else:
            data[at] = byte
    body = bytes(data)
    found = plain_append_input(body)
    if found is not None:
        assert found == by_library(body)


@settings(max_examples=2_000, deadline=None)
@given(st.lists(st.sampled_from((0, 1, 2, 3, 4, 8, 10, 16, 18, 26, 97, 128, 129)), max_size=24))
@example([10, 0, 10, 2, 26, 1])
def test_any_bytes_of_few_kinds(numbers: list[int]) -> None:
    body = bytes(numbers)
    found = plain_append_input(body)
    if found is not None:
        assert found == by_library(body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x0a\x83\x00\x1a\x01a", id="a length that is longer than it needs to be"),
        pytest.param(b"\x0a\x04\x1a\x81\x00a", id="a body's length too"),
        pytest.param(b"\x0a\x02\x1a\x00", id="an empty body that is written"),
        pytest.param(b"\x0a\x03\x1a\x02a", id="a body behind the record's end"),
        pytest.param(b"\x0a\x05\x1a\x01a\x1a\x01", id="a record behind the end"),
        pytest.param(b"\x0a\x06\x1a\x01a\x1a\x01b", id="two bodies"),
        pytest.param(b"\x0a\x05\x1a\x01a\x08\x01", id="a timestamp behind the body"),
        pytest.param(b"\x0a\x04\x08\x01\x08\x02", id="two timestamps"),
        pytest.param(b"\x0a\x03\x08\x81\x00", id="a timestamp that is longer than it needs to be"),
        pytest.param(
            b"\x0a\x0b\x08" + b"\xff" * 9 + b"\x02", id="a timestamp of more than 64 bits"
        ),
        pytest.param(b"\x0a\x05\x20\x01\x1a\x01a", id="a field that is not known, in a record"),
        pytest.param(b"\x10\x01\x0a\x03\x1a\x01a", id="a condition before the records"),
        pytest.param(b"\x0a\x03\x1a\x01a\x10\x01\x0a\x03\x1a\x01b", id="a record behind it"),
        pytest.param(b"\x0a\x05\x12\x03\x12\x01v", id="a header without a name"),
        pytest.param(b"\x0a\x07\x12\x05\x0a\x00\x12\x01v", id="an empty name that is written"),
        pytest.param(b"\x0a\x02\x12\x00", id="a header without anything"),
        pytest.param(b"\x0a\x04\x12\x03\x0a\x01n\x0a\x00", id="a header behind the record's end"),
        pytest.param(b"\x0a\x07\x12\x05\x0a\x01a\x12\x00", id="an empty value that is written"),
        pytest.param(b"\x0a\x08\x12\x06\x12\x01b\x0a\x01a", id="a value before its name"),
    ],
)
def test_what_is_written_otherwise_is_not_plain(body: bytes) -> None:
    assert plain_append_input(body) is None


def full(count: int, more: int = 0) -> bytes:
    """So many records that a batch holds, and bytes above that."""
    size, left = divmod(METERED_BYTES_MAX - 8 * count, count)
    sizes = [size + (left + more if place == 0 else 0) for place in range(count)]
    records = [record(b"x" * each) for each in sizes]
    return pb.AppendInput(records=records).SerializeToString()


def test_limits_of_a_batch_are_those_of_the_other_way() -> None:
    for count in (1, 7, RECORDS_MAX):
        body = full(count)
        found = plain_append_input(body)
        assert found is not None and found == by_library(body)
        assert found.batch.metered_bytes == METERED_BYTES_MAX
        assert plain_append_input(full(count, 1)) is None
        assert by_library(full(count, 1)) is None
    empty = pb.AppendInput(records=[record(b"")] * RECORDS_MAX)
    assert plain_append_input(empty.SerializeToString()) is not None
    empty.records.append(record(b""))
    assert plain_append_input(empty.SerializeToString()) is None


def test_a_walk_is_bounded_by_headers_as_by_records() -> None:
    made = record(b"", [(b"n", b"")] * HEADERS_MAX)
    assert plain_append_input(bodies_of(made)) == by_library(bodies_of(made)) is not None
    made.headers.add(name=b"n")
    assert plain_append_input(bodies_of(made)) is None
    assert at_once(append_input_steps(bodies_of(made))) == by_library(bodies_of(made))


def test_long_headers_are_left_to_the_library() -> None:
    for name, value in ((128, 0), (1, 128), (100, 100)):
        body = bodies_of(record(b"b", [(b"n" * name, b"v" * value)]))
        assert plain_append_input(body) is None
        assert at_once(append_input_steps(body)) == by_library(body) is not None


def test_conditions_of_any_length_are_left_to_the_library_too() -> None:
    one = bodies_of(record(b"b"))
    number = b"\x10" + varint(5)
    body = one + number * (CONDITIONS_BYTES_MAX // len(number) + 1)
    assert plain_append_input(body) is None
    assert at_once(append_input_steps(body)) == by_library(body) is not None
    for rest in (number * 2, b"\x20\x01", b"\x1a\x01t" + number, b"\x10\x85\x00", b"\x23\x24"):
        assert plain_append_input(one + rest) is None
        assert at_once(append_input_steps(one + rest)) == by_library(one + rest) is not None


@pytest.mark.parametrize("rest", [b"\x23\x24", b"\x23\x10\x01\x24\x10\x05", b"\x0b\x0c"])
def test_groups_behind_the_records_of_a_long_body_are_refused(rest: bytes) -> None:
    """As the codec refuses them: they are dear, and nobody sends them."""
    body = bodies_of(record(b"x" * 70_000)) + rest
    assert plain_append_input(body) is None
    with pytest.raises(MalformedError, match="no groups"):
        at_once(append_input_steps(body))


def test_what_is_plain_is_not_copied() -> None:
    body = bodies_of(record(b"x" * 100_000))
    found = plain_append_input(body)
    assert found is not None and found.batch.records is body


def test_what_is_long_and_not_plain_lets_others_work_before_it_is_looked_at_again() -> None:
    """Also of a size that the codec decodes in one step."""
    body = bodies_of(record(b"x" * STEP_BYTES_MAX, [(b"n" * 200, b"")]))
    assert len(list(decode_append_steps(body))) == 0
    steps = append_input_steps(body)
    assert next(steps) is None
    assert at_once(steps) == by_library(body) is not None
