"""Protobuf bodies: counted right, presence kept, nothing unknown stored."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.base.errors import ErrorCode, InvalidError, MalformedError
from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.codec.batch_codec import RecordOut
from svc_cluster.codec.proto_body import encode_append_ack, encode_read_batch
from svc_cluster.codec.varint import varint
from svc_cluster.model.record import AppendAck, CommandKind, CommandRecord, Position
from tests.at_once import build_batch, decode_proto_append
from tests.property.codec.inputs import field

U64 = st.integers(0, 2**64 - 1)
RECORD = st.tuples(
    st.none() | U64,
    st.lists(st.tuples(st.binary(min_size=1, max_size=140), st.binary(max_size=140)), max_size=4),
    st.binary(max_size=300),
)


def position(seq_num: int, timestamp_ms: int) -> Position:
    return Position(SeqNum(seq_num), TimestampMs(timestamp_ms))


def message_of(records: list[Any], **conditions: Any) -> pb.AppendInput:
    message = pb.AppendInput(**conditions)
    for timestamp_ms, headers, body in records:
        record = message.records.add(body=body)
        if timestamp_ms is not None:
            record.timestamp = timestamp_ms
        for name, value in headers:
            record.headers.add(name=name, value=value)
    return message


@given(
    records=st.lists(RECORD, min_size=1, max_size=5),
    match_seq_num=st.none() | U64,
    fencing_token=st.none() | st.text(max_size=9),
)
def test_any_append_is_decoded_to_what_was_encoded(
    records: list[Any], match_seq_num: int | None, fencing_token: str | None
) -> None:
    """The stored batch is the one that the same records make when they come as JSON."""
    conditions: dict[str, Any] = {}
    if match_seq_num is not None:
        conditions["match_seq_num"] = match_seq_num
    if fencing_token is not None:
        conditions["fencing_token"] = fencing_token
    found = decode_proto_append(message_of(records, **conditions).SerializeToString())
    assert found.batch == build_batch(records)
    assert found.match_seq_num == match_seq_num
    assert found.fencing_token == fencing_token


def test_zero_and_the_empty_token_are_conditions() -> None:
    """Presence counts, not truth."""
    record = field(1, b"")
    none = decode_proto_append(record)
    assert (none.match_seq_num, none.fencing_token) == (None, None)
    both = decode_proto_append(record + field(2, 0) + field(3, b""))
    assert (both.match_seq_num, both.fencing_token) == (0, "")


def test_unknown_fields_are_taken_and_not_stored() -> None:
    """At every depth: what is stored for ever is only what is understood."""
    header = field(1, b"n") + field(2, b"v") + field(7, b"new")
    record = field(2, header) + field(3, b"body") + field(8, 1)
    found = decode_proto_append(field(1, record) + field(9, b"x" * 50))
    assert found.batch == build_batch([(None, [(b"n", b"v")], b"body")])


def test_command_records_are_found() -> None:
    """By the empty name of their one header, wherever they stand in the batch."""
    records = [
        (None, [(b"a", b"b")], b"x"),
        (None, [(b"", b"fence")], b"owner"),
        (None, [(b"", b"trim")], (7).to_bytes(8, "big")),
    ]
    found = decode_proto_append(message_of(records).SerializeToString()).batch
    assert found.commands == (
        CommandRecord(offset=1, kind=CommandKind.FENCE, token="owner"),
        CommandRecord(offset=2, kind=CommandKind.TRIM, trim_point=7),
    )
    assert found.metered_bytes == (8 + 2 + 2 + 1) + (15 + 5) + 22


@pytest.mark.parametrize(
    "record",
    [
        [(b"", b"fence"), (b"a", b"")],
        [(b"a", b""), (b"", b"")],
        [(b"", b"")],
        [(b"", b"other")],
        [(b"", b"trim")],
    ],
)
def test_improper_command_records_are_invalid(record: list[Any]) -> None:
    """As in any other form of an append."""
    with pytest.raises(InvalidError):
        decode_proto_append(message_of([(None, record, b"seven b")]).SerializeToString())


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid"),
        (field(1, b"") * 1001, "invalid"),
        (field(1, field(3, b"x" * 1_048_569)), "invalid"),
        (field(1, b"") + field(3, b"x" * 37), "invalid"),
        (field(1, b"") + field(3, b"\xff"), "bad_proto"),
        (b"\x0a", "bad_proto"),
        (b"\x0a\x05ab", "bad_proto"),
        (b"\x10" + b"\xff" * 10 + b"\x01", "bad_proto"),
        (b"\x0b" * 200, "bad_proto"),
        (b"\x00\x00", "bad_proto"),
        (b'{"records":[]}', "bad_proto"),
    ],
)
def test_what_is_refused_has_its_code(body: bytes, code: str) -> None:
    """Limits are invalid; what does not parse is bad_proto."""
    with pytest.raises((InvalidError, MalformedError)) as refusal:
        decode_proto_append(body)
    assert refusal.value.code is ErrorCode(code)


def test_the_largest_record_is_taken() -> None:
    """1,048,568 bytes of body are exactly 1 MiB metered."""
    found = decode_proto_append(field(1, field(3, b"x" * 1_048_568)))
    assert found.batch.metered_bytes == 1_048_576


def test_an_ack_has_all_its_positions() -> None:
    """Also those that are 0 and 0, which the library would leave out."""
    encoded = encode_append_ack(AppendAck(position(0, 0), position(1, 5), position(1, 5)))
    found = pb.AppendAck.FromString(encoded)
    assert all(found.HasField(name) for name in ("start", "end", "tail"))
    assert (found.end.seq_num, found.tail.timestamp) == (1, 5)


@given(
    records=st.lists(st.tuples(U64, U64, RECORD), max_size=4), tail=st.none() | st.tuples(U64, U64)
)
def test_a_read_batch_is_decoded_to_what_was_encoded(
    records: list[Any], tail: tuple[int, int] | None
) -> None:
    """Positions, headers in order, bodies, and the tail only where there is one."""
    out = [RecordOut(s, t, headers, body, 0) for s, t, (_, headers, body) in records]
    encoded = encode_read_batch(out, None if tail is None else position(*tail))
    found = pb.ReadBatch.FromString(encoded)
    assert [
        (r.seq_num, r.timestamp, [(h.name, h.value) for h in r.headers], r.body)
        for r in found.records
    ] == [(r.seq_num, r.timestamp_ms, list(r.headers), r.body) for r in out]
    assert found.HasField("tail") == (tail is not None)
    assert tail is None or (found.tail.seq_num, found.tail.timestamp) == tail


@pytest.mark.parametrize("last", [b"\x1a\x01x", b"\x1a\x00", b"\x08\x09", b"\x60\x01"])
def test_a_long_record_is_what_the_library_makes_of_it(last: bytes) -> None:
    """Given to it in portions, with a body, a timestamp, unknown fields in several: the last
    that came count, and nothing unknown is stored. What ends within a field is refused, and so is a
    group."""
    headers = b"\x12\x03\x0a\x01a" * 60_000
    content = b"\x08\x07\x1a\x02yz" + headers + b"\x1a\x03abc" + headers + last
    whole = pb.AppendRecord.FromString(content)
    whole.DiscardUnknownFields()
    found = decode_proto_append(b"\x0a" + varint(len(content)) + content).batch
    assert found.records == pb.AppendInput(records=[whole]).SerializeToString()
    assert found.metered_bytes == 8 + 3 * 120_000 + len(whole.body)
    assert found.timestamp_max_ms == whole.timestamp
    for bad in (b"\x12\x05\x0a", b"\x63\x64"):
        broken = content + bad
        with pytest.raises(MalformedError):
            decode_proto_append(b"\x0a" + varint(len(broken)) + broken)


def test_a_short_body_may_have_groups_that_are_unknown() -> None:
    """They are passed over, as protobuf has it; beyond 64 KiB they are refused."""
    record = field(1, field(3, b"x"))
    assert decode_proto_append(record + b"\x63\x08\x01\x64").batch.record_count == 1
    long = field(1, field(3, b"x" * 70_000))
    assert decode_proto_append(long).batch.record_count == 1
    with pytest.raises(MalformedError, match="groups"):
        decode_proto_append(long + b"\x63\x08\x01\x64")
