"""What is dear to parse is refused by a look at its bytes, before objects are made of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from svc_cluster._pb.cluster.v1 import peer_pb2, replica_pb2
from svc_cluster.base.limits import BATCH_RECORDS_MAX
from svc_cluster.codec.peer_message import (
    ENTRIES_MAX,
    MESSAGES_MAX,
    PARSED_BYTES,
    PeerMessageError,
    decode_members,
    open_envelope,
)
from svc_cluster.codec.request_bounds import SHORT_BYTES_MAX, is_too_long
from svc_cluster.codec.varint import varint
from svc_cluster.codec.wire_fields import find_field, has_more_fields
from svc_cluster.link.credit import MIB
from svc_cluster.model.usage import REPORT_MINUTES_MAX, REPORT_OPS_MAX
from tests.turn_bound import TURN_BOUND_SECONDS

MESSAGE_BYTES = 3 * MIB - 256
"""As long as a message between processes may be."""


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def many(number: int, size: int) -> bytes:
    """As many empty fields of this number as fit."""
    one = field(number, b"")
    return one * (size // len(one))


def lists_of(message: Any) -> list[FieldDescriptor]:
    return [one for one in message.fields if one.is_repeated and one.message_type is not None]


def dear_requests() -> dict[str, bytes]:
    """Each list of messages in a request, as long as a message is; and what nobody knows."""
    found: dict[str, bytes] = {}
    for operation in replica_pb2.Request.DESCRIPTOR.oneofs_by_name["operation"].fields:
        for one in lists_of(operation.message_type):
            inner = many(one.number, MESSAGE_BYTES)
            found[f"{operation.name}.{one.name}"] = field(operation.number, inner)
    found["unknown"] = field(5000, bytes(MESSAGE_BYTES))
    found["many unknown"] = many(5000, MESSAGE_BYTES)
    read = field(replica_pb2.Request.READ_FIELD_NUMBER, b"")
    found["a padded read"] = read + field(5000, bytes(MESSAGE_BYTES))
    records = field(replica_pb2.AppendRequest.RECORDS_FIELD_NUMBER, bytes(MIB))
    append = replica_pb2.Request.APPEND_FIELD_NUMBER
    found["a padded append"] = field(append, records) + field(5000, bytes(MIB))
    found["padding in an append"] = field(append, records + many(5000, MIB))
    found["an append behind much else"] = many(5000, 64) + field(append, records)
    found["no message"] = b"\xff" * MESSAGE_BYTES
    found["a field beyond the end"] = varint(append << 3 | 2) + varint(2**40) + bytes(MIB)
    return found


@pytest.mark.parametrize("what", dear_requests())
def test_a_request_that_is_longer_than_what_it_asks_is_told_at_once(what: str) -> None:
    data = dear_requests()[what]
    begun = time.thread_time()
    assert is_too_long(data)
    assert time.thread_time() - begun < TURN_BOUND_SECONDS


def the_longest_append() -> replica_pb2.Request:
    request = replica_pb2.Request(
        id=2**63, group_id=2**63, deadline_ms=60_000, request_key=bytes(32)
    )
    request.trace.SetInParent()
    append = request.append
    append.stream, append.records = "s" * 512, bytes(2 * MIB)
    append.record_count = BATCH_RECORDS_MAX
    for offset in range(BATCH_RECORDS_MAX):
        append.commands.add(offset=offset, kind=1, token="t" * 36)
    append.match_seq_num, append.fencing_token = 2**63, "t" * 36
    append.session.session_id, append.session.sequence = bytes(16), 2**63
    return request


def the_longest_report() -> replica_pb2.Request:
    request = replica_pb2.Request(id=2**63, group_id=2**63, deadline_ms=60_000)
    report = request.report_usage
    report.reporter, report.sequence = bytes(32), 2**63
    for minute in range(REPORT_MINUTES_MAX):
        counts = report.minutes.add(at=2**32 - 1 - minute, append_bytes_standard=2**48)
        for _ in range(REPORT_OPS_MAX):
            counts.ops.add(op="reconfigure-access-token", count=2**48)
    return request


@pytest.mark.parametrize("longest", [the_longest_append, the_longest_report])
def test_the_longest_request_that_is_written_is_taken(
    longest: Callable[[], replica_pb2.Request],
) -> None:
    assert not is_too_long(longest().SerializeToString())


def test_what_is_as_long_as_may_be_is_parsed_in_one_turn() -> None:
    """The bound is such that no content makes the parser slow."""
    request = replica_pb2.Request
    for number, inner in ((request.APPEND_FIELD_NUMBER, 7), (request.REPORT_USAGE_FIELD_NUMBER, 3)):
        data = field(number, many(inner, SHORT_BYTES_MAX - 16))
        assert SHORT_BYTES_MAX - 64 < len(data) <= SHORT_BYTES_MAX and not is_too_long(data)
        took = min(seconds_to_parse(data) for _ in range(3))
        assert took < TURN_BOUND_SECONDS


def seconds_to_parse(data: bytes) -> float:
    begun = time.thread_time()
    request = replica_pb2.Request.FromString(data)
    del request
    return time.thread_time() - begun


def test_an_envelope_of_very_many_messages_is_refused_before_it_is_parsed() -> None:
    for member in (b"", b"x"):
        data = field(1, member) * (MESSAGE_BYTES // (2 + len(member)))
        begun = time.thread_time()
        with pytest.raises(PeerMessageError, match=f"more than {MESSAGES_MAX} messages"):
            open_envelope(data)
        assert time.thread_time() - begun < TURN_BOUND_SECONDS
    with pytest.raises(PeerMessageError, match="not a protobuf envelope"):
        open_envelope(b"\xff" * MESSAGE_BYTES)


def test_an_envelope_of_as_many_messages_as_may_be_is_opened() -> None:
    """With what the clock shows behind them."""
    members = [field(2, bytes(8))[:8]] * MESSAGES_MAX
    data = b"".join(field(1, member) for member in members)
    data += peer_pb2.PeerBatch(wall_ms=7).SerializeToString()
    assert len(data) > PARSED_BYTES
    opened = open_envelope(data)
    assert (opened.members, opened.wall_ms) == (members, 7)


def entries(count: int, payload: bytes) -> bytes:
    message = peer_pb2.GroupMessage(group_id=7, sender_term=3)
    for _ in range(count):
        message.append_request.entries.add(term=3, payload=payload)
    data: bytes = message.SerializeToString()
    return data


def test_a_message_of_more_entries_than_are_sent_is_not_taken() -> None:
    """Neither a short one nor a long one, and the long one costs no turn."""
    short = decode_members([entries(ENTRIES_MAX + 1, b"x")], None)
    assert short.faults == [f"a message of {ENTRIES_MAX + 1} entries"] and not short.messages
    data = entries(300_000, b"x")
    begun = time.thread_time()
    long = decode_members([data], None)
    assert time.thread_time() - begun < TURN_BOUND_SECONDS
    assert long.faults == ["a message of too many parts"] and not long.messages
    for size in (1, 2048):
        taken = decode_members([entries(ENTRIES_MAX, b"x" * size)], None)
        assert not taken.faults and len(taken.messages[0][1].entries) == ENTRIES_MAX  # type: ignore[union-attr]


def test_fields_are_told_by_their_bytes() -> None:
    """Whatever kinds they have; what is no message is told."""
    data = b"\x08\x96\x01" + b"\x11" + bytes(8) + field(3, b"abc") + b"\x25" + bytes(4)
    assert find_field(data, 0, len(data), 3, 3) == (14, 17)
    assert find_field(data, 0, len(data), 3, 2) is None, "it is the third"
    assert find_field(data, 0, len(data), 1, 9) is None, "it has no length"
    assert not has_more_fields(data, 0, len(data), 4)
    assert has_more_fields(data, 0, len(data), 3)
    assert not has_more_fields(b"", 0, 0, 0)
    for wrong in (b"\x0b", b"\x08", b"\x08\xff", b"\x1a\x04abc", b"\x25abc", b"\x80" * 11):
        with pytest.raises(ValueError, match=r"a (field|number)|no number"):
            has_more_fields(wrong, 0, len(wrong), 9)
