"""The wire form of what replicas say to each other."""

from __future__ import annotations

import pytest

from svc_cluster._pb.cluster.v1 import peer_pb2 as pb
from svc_cluster.base.ids import GroupId, LogIndex, Term
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.codec.peer_message import (
    ENVELOPE_BYTES_MAX,
    PeerMessageError,
    decode_envelope,
    encode_envelope,
    payload_bytes,
)
from svc_cluster.raft.group import ENTRY_BYTES_MAX
from svc_cluster.raft.messages import (
    AppendRequest,
    AppendResponse,
    MarkKind,
    PeerMessage,
    PreVoteRequest,
    PreVoteResponse,
    StaleTerm,
    StateMark,
    TimeoutNow,
    VoteGranted,
    VoteRequest,
)

TERM = Term(2**40)
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
    StateMark(TERM, LogIndex(9), 2**64 - 1, MarkKind.VERDICT),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_survives_the_wire(message: PeerMessage) -> None:
    """Decoding gives back an equal value, also when all its numbers are zero."""
    data = encode_envelope([(GroupId(7), message)])
    assert decode_envelope(data) == [(GroupId(7), message)]
    assert len(data) <= payload_bytes(message) + 16


def test_messages_of_many_groups_share_an_envelope_in_order() -> None:
    """Coalesced heartbeats of several groups come out as they went in."""
    messages = [(GroupId(group), message) for group in (5, 1, 9) for message in MESSAGES]
    assert decode_envelope(encode_envelope(messages)) == messages
    assert decode_envelope(encode_envelope([])) == []


def test_an_entry_of_the_greatest_length_survives_the_wire() -> None:
    """The bound on payloads is inclusive."""
    entry = LogEntry(LogIndex(1), Term(1), b"\x09" * ENTRY_BYTES_MAX)
    message = AppendRequest(Term(1), LogIndex(0), Term(0), LogIndex(0), (entry,), 1)
    assert decode_envelope(encode_envelope([(GroupId(1), message)]))[0][1] == message


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
        encode_envelope([(GroupId(1), MESSAGES[0])])[:-1],
        b"\x00" * (ENVELOPE_BYTES_MAX + 1),
        _envelope_with_payload(b""),
        _envelope_with_payload(b"\x09" * (ENTRY_BYTES_MAX + 1)),
        _envelope_with_huge_term(),
        _envelope_without_body(),
    ],
    ids=["noise", "cut", "long", "empty payload", "long payload", "huge term", "no body"],
)
def test_bytes_that_are_no_envelope_are_refused(data: bytes) -> None:
    """Whatever is wrong with the bytes, the error is the same and nothing else is raised."""
    with pytest.raises(PeerMessageError):
        decode_envelope(data)
