"""The wire form of what replicas say to each other."""

from __future__ import annotations

import pytest

from svc_cluster._pb.cluster.v1 import peer_pb2 as pb
from svc_cluster._pb.cluster.v1 import replica_pb2
from svc_cluster.base.configuration import MEMBERS_MAX, Configuration, GroupMember
from svc_cluster.base.ids import GroupId, LogIndex, NodeId, ReplicaId, Term
from svc_cluster.base.limits import MESSAGE_BYTES_MAX
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.base.tracing import TraceContext
from svc_cluster.codec.peer_message import (
    MEMBER_OVERHEAD_BYTES,
    PeerMessageError,
    encode_envelope,
    encode_message,
    payload_bytes,
)
from svc_cluster.codec.scrub_message import COST_MAX
from svc_cluster.model.content import KEY_BYTES_MAX
from svc_cluster.raft.group import ENTRY_BYTES_MAX
from svc_cluster.raft.messages import (
    AppendRequest,
    AppendResponse,
    Ended,
    EntryTraces,
    MarkKind,
    PeerMessage,
    PreVoteRequest,
    PreVoteResponse,
    ScrubAnswer,
    ScrubOutcome,
    ScrubQuestion,
    ScrubVerdict,
    StaleTerm,
    StateMark,
    TimeoutNow,
    VoteGranted,
    VoteRequest,
)
from tests.at_once import decode_envelope

TERM = Term(2**40)
MANY = tuple(GroupMember(NodeId(n), ReplicaId(2**60 + n)) for n in range(MEMBERS_MAX))
KEY = b"k" * KEY_BYTES_MAX
MESSAGES: list[PeerMessage] = [
    AppendRequest(
        TERM,
        LogIndex(4),
        Term(3),
        LogIndex(2),
        (
            LogEntry(LogIndex(5), Term(3), b"\x09body"),
            LogEntry(LogIndex(6), TERM, b"\x01"),
        ),
        17,
    ),
    AppendRequest(TERM, LogIndex(0), Term(0), LogIndex(0), (), 0),
    AppendResponse(TERM, LogIndex(9), success=True, reset=False, read_sequence=17),
    AppendResponse(TERM, LogIndex(1), success=False, reset=True, read_sequence=0),
    AppendResponse(TERM, LogIndex(0), False, False, read_sequence=3, recovery=2**62 - 1),
    VoteRequest(TERM, LogIndex(9), Term(8)),
    VoteRequest(TERM, LogIndex(0), Term(0)),
    VoteGranted(TERM),
    PreVoteRequest(TERM, Term(TERM + 1), LogIndex(9), Term(8)),
    PreVoteResponse(TERM, Term(TERM + 1), granted=True),
    PreVoteResponse(TERM, Term(TERM + 1), granted=False),
    StaleTerm(TERM),
    TimeoutNow(TERM),
    StateMark(TERM, LogIndex(9), 2**64 - 1, MarkKind.VERDICT, 3),
    StateMark(TERM, LogIndex(9), 2**64 - 1, MarkKind.ANSWER, 3, 1),
    ScrubQuestion(TERM, 2**31, 7, 2**62, LogIndex(2**62), KEY, COST_MAX, 2**62, True, 2**62, 2**62),
    ScrubQuestion(TERM, 0, 0, 0, LogIndex(0), b"", 1, 0, False),
    *[ScrubAnswer(TERM, 1, 1, 3, outcome) for outcome in ScrubOutcome],
    ScrubAnswer(TERM, 1, 1, 2**62, ScrubOutcome.COMPARED, KEY, 2**64 - 1, 2**62, True, 2**62),
    ScrubVerdict(TERM, 1, 1, 2**62, KEY, 2**64 - 1, 2**62),
    EntryTraces(TERM, LogIndex(2**62), (TraceContext(b"t" * 16, b"s" * 8, "a=b"),) * 8),
    Ended(TERM, Configuration(2**20 - 1, MANY, LogIndex(2**62), Term(2**62))),
    Ended(TERM, Configuration(1, MANY[:1], LogIndex(1), Term(1))),
]


def one_envelope(messages: list[tuple[GroupId, PeerMessage]]) -> bytes:
    return encode_envelope(b"", [encode_message(*each) for each in messages])


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_survives_the_wire(message: PeerMessage) -> None:
    """Decoding gives back an equal value, also when all its numbers are zero."""
    data = one_envelope([(GroupId(7), message)])
    assert decode_envelope(data) == ([(GroupId(7), message)], None, [])
    assert len(data) <= payload_bytes(message) + 16
    assert len(pb.PeerEnvelope.FromString(data).messages) == 1, "older nodes read it as this"


def test_messages_of_many_groups_share_an_envelope_in_order() -> None:
    """Coalesced heartbeats of several groups come out as they went in."""
    small = [message for message in MESSAGES if not getattr(message, "entries", ())]
    messages = [(GroupId(group), message) for group in (5, 1, 9) for message in small]
    assert decode_envelope(one_envelope(messages)) == (messages, None, [])
    assert decode_envelope(encode_envelope(b"", [])) == ([], None, [])


def test_an_entry_of_the_greatest_length_survives_the_wire() -> None:
    """The bound on payloads is inclusive."""
    message = entries_of(ENTRY_BYTES_MAX)
    assert decode_envelope(one_envelope([(GroupId(1), message)])).messages[0][1] == message


def with_clock(wall_ms: int) -> bytes:
    return encode_envelope(b"", [encode_message(GroupId(1), StaleTerm(Term(1)))], wall_ms)


@pytest.mark.parametrize("wall_ms", [0, 1, 1_700_000_000_000, 2**62])
def test_the_clock_of_the_sender_survives_the_wire(wall_ms: int) -> None:
    """Also one that shows the epoch, and where nothing else is said."""
    assert decode_envelope(with_clock(wall_ms)) == (
        [(GroupId(1), StaleTerm(Term(1)))],
        wall_ms,
        [],
    )
    assert decode_envelope(encode_envelope(b"", [], wall_ms)) == ([], wall_ms, [])


@pytest.mark.parametrize("length", [0, 1, 127, 128, 16_383, 16_384, 2**21 - 1, 2**21])
def test_an_envelope_is_what_protobuf_would_write(length: int) -> None:
    """Behind its head, for members of every length of length: to the byte, so that a version which
    leaves the writing to protobuf reads it; and never more than the overhead that is told."""
    members = [b"\x08\x01", b"\x09" * length, b"\x10\x02"]
    envelope = encode_envelope(b"head", members, 1_700_000_000_000)
    batch = pb.PeerBatch(messages=members, wall_ms=1_700_000_000_000)
    assert envelope == b"head" + batch.SerializeToString()
    without = encode_envelope(b"", members)
    assert len(without) <= sum(len(member) + MEMBER_OVERHEAD_BYTES for member in members)


def test_a_clock_that_was_not_told_is_unknown_and_not_zero() -> None:
    """As from a version before clocks were told: its bytes have no such field."""
    older = pb.PeerEnvelope()
    older.messages.add(group_id=1, sender_term=1).stale_term.SetInParent()
    assert decode_envelope(older.SerializeToString()).wall_ms is None
    assert one_envelope([(GroupId(1), StaleTerm(Term(1)))]) == older.SerializeToString()


def entries_of(*lengths: int) -> AppendRequest:
    entries = [
        LogEntry(LogIndex(number), Term(1), b"\x09" * length)
        for number, length in enumerate(lengths, start=1)
    ]
    return AppendRequest(Term(1), LogIndex(0), Term(0), LogIndex(0), tuple(entries), 1)


def test_what_a_message_takes_is_never_guessed_too_low() -> None:
    """The guess bounds what waits for a peer, so it covers the message with everything around it
    but the clock; and it is not far off."""
    for lengths in ((1,), (127, 128), (1,) * 500, (1_900_000, 1_900_000), (ENTRY_BYTES_MAX,)):
        message = entries_of(*lengths)
        data = one_envelope([(GroupId(2**62), message)])
        assert len(data) <= payload_bytes(message) <= len(data) + 128 + 32 * len(lengths)


def _envelope_with_payload(payload: bytes) -> bytes:
    envelope = pb.PeerEnvelope()
    body = envelope.messages.add(group_id=1, sender_term=1).append_request
    body.entries.add(term=1, payload=payload)
    return envelope.SerializeToString()


def _envelope_with_huge_term() -> bytes:
    envelope = pb.PeerEnvelope()
    envelope.messages.add(group_id=1, sender_term=2**63).stale_term.SetInParent()
    return envelope.SerializeToString()


def _envelope_without_body() -> bytes:
    envelope = pb.PeerEnvelope()
    envelope.messages.add(group_id=1, sender_term=1)
    return envelope.SerializeToString()


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff",
        one_envelope([(GroupId(1), MESSAGES[0])])[:-1],
        b"\x00" * (MESSAGE_BYTES_MAX + 1),
        with_clock(2**62 + 1),
    ],
    ids=["noise", "cut", "long", "huge clock"],
)
def test_bytes_that_are_no_envelope_are_refused(data: bytes) -> None:
    """Whatever is wrong with the bytes, the error is the same and nothing else is raised."""
    with pytest.raises(PeerMessageError):
        decode_envelope(data)


@pytest.mark.parametrize(
    "member",
    [
        _envelope_with_payload(b""),
        _envelope_with_payload(b"\x09" * (ENTRY_BYTES_MAX + 1)),
        _envelope_with_huge_term(),
        _envelope_without_body(),
        replica_pb2.Batch(members=[b"\xff\xff\xff"]).SerializeToString(),
        # a body that a later version may have
        replica_pb2.Batch(members=[b"\x08\x01\x10\x01\xfa\x07\x00"]).SerializeToString(),
    ],
    ids=["empty payload", "long payload", "huge term", "no body", "noise", "unknown body"],
)
def test_a_message_that_cannot_be_read_harms_no_other(member: bytes) -> None:
    """It is left out and told of; those before and behind it are taken."""
    before = one_envelope([(GroupId(5), VoteGranted(TERM))])
    behind = one_envelope([(GroupId(6), StaleTerm(TERM))])
    messages, _, faults = decode_envelope(before + member + behind)
    assert messages == [(GroupId(5), VoteGranted(TERM)), (GroupId(6), StaleTerm(TERM))]
    assert len(faults) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("after", b"k" * (KEY_BYTES_MAX + 1)),
        ("cost_max", 0),
        ("cost_max", COST_MAX + 1),
        ("chunk", 2**62 + 1),
        ("log_index", 2**63),
    ],
)
def test_a_question_of_the_scrub_beyond_a_bound_is_not_read(field: str, value: object) -> None:
    """It is a fault of its own group's message, and no other's."""
    member = pb.GroupMessage(group_id=1, sender_term=1)
    member.scrub_question.cost_max = 1
    setattr(member.scrub_question, field, value)
    other = encode_message(GroupId(2), StaleTerm(Term(1)))
    batch = pb.PeerBatch(messages=[member.SerializeToString(), other])
    found = decode_envelope(batch.SerializeToString())
    assert found.messages == [(GroupId(2), StaleTerm(Term(1)))]
    assert len(found.faults) == 1


def test_an_answer_of_an_outcome_to_come_is_not_read() -> None:
    """A later release may have one more: whoever asked hears nothing, as from one that is away."""
    member = pb.GroupMessage(group_id=1, sender_term=1)
    member.scrub_answer.outcome = 6
    batch = pb.PeerBatch(messages=[member.SerializeToString()])
    assert len(decode_envelope(batch.SerializeToString()).faults) == 1


@pytest.mark.parametrize(
    ("count", "trace"),
    [
        (0, TraceContext(b"t" * 16, b"s" * 8)),
        (9, TraceContext(b"t" * 16, b"s" * 8)),
        (1, TraceContext(b"t" * 15, b"s" * 8)),
        (1, TraceContext(b"t" * 16, b"s" * 9)),
        (1, TraceContext(b"t" * 16, b"s" * 8, "a" * 513)),
        (1, TraceContext(b"t" * 16, b"s" * 8, "a=\n")),
    ],
)
def test_traces_of_another_form_are_refused(count: int, trace: TraceContext) -> None:
    """None at all, more than an entry has, ids of another length, a state that is too long or of
    what cannot be printed: a fault each, and nothing is heard."""
    said = EntryTraces(TERM, LogIndex(1), (trace,) * count)
    heard = decode_envelope(one_envelope([(GroupId(7), said)]))
    assert heard.messages == []
    assert len(heard.faults) == 1
