"""Wire form of what replicas say to each other: one envelope for the messages of many groups.

An entry's payload is copied once by protobuf each way and never looked into. Every number and
length of an incoming envelope is checked here; what its messages mean is checked by the group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, assert_never

from google.protobuf.message import DecodeError

from svc_cluster._pb.cluster.v1 import peer_pb2 as pb
from svc_cluster.base.ids import GroupId, LogIndex, Term
from svc_cluster.base.log_ops import LogEntry
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

ENVELOPE_BYTES_MAX: Final = 16 * 1024 * 1024
MESSAGES_MAX: Final = 65_536
"""Messages of one envelope."""

_NUMBER_MAX: Final = 2**62
"""Terms, indexes and ids stay far below; so that arithmetic on them fits 63 bits."""


class PeerMessageError(Exception):
    """The bytes are not an envelope; whoever sent them is not to be listened to."""


def encode_envelope(messages: Iterable[tuple[GroupId, PeerMessage]]) -> bytes:
    """One envelope. The caller keeps it below ENVELOPE_BYTES_MAX (see `payload_bytes`)."""
    envelope = pb.PeerEnvelope()
    for group_id, message in messages:
        out = envelope.messages.add()
        out.group_id = group_id
        out.sender_term = message.sender_term
        _put(out, message)
    return envelope.SerializeToString()


def payload_bytes(message: PeerMessage) -> int:
    """About how many bytes `message` takes in an envelope; never too few."""
    if isinstance(message, AppendRequest):
        return 96 + sum(len(entry.payload) + 32 for entry in message.entries)
    return 96


def decode_envelope(data: bytes) -> list[tuple[GroupId, PeerMessage]]:
    """The messages in order. Raises PeerMessageError."""
    if len(data) > ENVELOPE_BYTES_MAX:
        raise PeerMessageError(f"an envelope of {len(data)} bytes")
    try:
        envelope = pb.PeerEnvelope.FromString(data)
    except DecodeError as error:
        raise PeerMessageError("not a protobuf envelope") from error
    if len(envelope.messages) > MESSAGES_MAX:
        raise PeerMessageError(f"an envelope of {len(envelope.messages)} messages")
    return [
        (GroupId(_checked(message.group_id)), _message(message)) for message in envelope.messages
    ]


def _put(out: Any, message: PeerMessage) -> None:
    match message:
        case AppendRequest():
            _put_append_request(out.append_request, message)
        case AppendResponse():
            body = out.append_response
            body.SetInParent()
            body.next_index = message.next_index
            body.success = message.success
            body.reset = message.reset
            body.read_sequence = message.read_sequence
            body.recovery = message.recovery
        case VoteRequest():
            out.vote_request.SetInParent()
            out.vote_request.last_index = message.last_index
            out.vote_request.last_term = message.last_term
        case VoteGranted():
            out.vote_granted.SetInParent()
        case PreVoteRequest():
            body = out.pre_vote_request
            body.SetInParent()
            body.next_term = message.next_term
            body.last_index = message.last_index
            body.last_term = message.last_term
        case PreVoteResponse():
            out.pre_vote_response.SetInParent()
            out.pre_vote_response.next_term = message.next_term
            out.pre_vote_response.granted = message.granted
        case StaleTerm():
            out.stale_term.SetInParent()
        case TimeoutNow():
            out.timeout_now.SetInParent()
        case StateMark():
            out.state_mark.log_index = message.log_index
            out.state_mark.digest = message.digest
            out.state_mark.kind = message.kind
        case _:
            assert_never(message)


def _put_append_request(body: Any, message: AppendRequest) -> None:
    body.SetInParent()
    body.previous_index = message.previous_index
    body.previous_term = message.previous_term
    body.commit_index = message.commit_index
    body.read_sequence = message.read_sequence
    for entry in message.entries:
        body.entries.add(term=entry.term, payload=entry.payload)


def _message(message: Any) -> PeerMessage:
    term = Term(_checked(message.sender_term))
    match message.WhichOneof("body"):
        case "append_request":
            return _append_request(term, message.append_request)
        case "append_response":
            body = message.append_response
            next_index = LogIndex(_checked(body.next_index))
            sequence = _checked(body.read_sequence)
            recovery = _checked(body.recovery)
            return AppendResponse(term, next_index, body.success, body.reset, sequence, recovery)
        case "vote_request":
            body = message.vote_request
            return VoteRequest(
                term, LogIndex(_checked(body.last_index)), Term(_checked(body.last_term))
            )
        case "vote_granted":
            return VoteGranted(term)
        case "pre_vote_request":
            body = message.pre_vote_request
            return PreVoteRequest(
                term,
                Term(_checked(body.next_term)),
                LogIndex(_checked(body.last_index)),
                Term(_checked(body.last_term)),
            )
        case "pre_vote_response":
            body = message.pre_vote_response
            return PreVoteResponse(term, Term(_checked(body.next_term)), body.granted)
        case "stale_term":
            return StaleTerm(term)
        case "timeout_now":
            return TimeoutNow(term)
        case "state_mark":
            return _state_mark(term, message.state_mark)
        case _:
            raise PeerMessageError("a message without a known body")


def _state_mark(term: Term, body: Any) -> StateMark:
    try:
        kind = MarkKind(body.kind)
    except ValueError as error:
        raise PeerMessageError("a state mark of unknown kind") from error
    return StateMark(term, LogIndex(_checked(body.log_index)), body.digest, kind)


def _append_request(term: Term, body: Any) -> AppendRequest:
    previous_index = _checked(body.previous_index)
    entries = []
    for log_index, entry in enumerate(body.entries, start=previous_index + 1):
        payload = entry.payload
        if not 0 < len(payload) <= ENTRY_BYTES_MAX:
            raise PeerMessageError(f"an entry of {len(payload)} bytes")
        entries.append(LogEntry(LogIndex(log_index), Term(_checked(entry.term)), payload))
    return AppendRequest(
        term,
        LogIndex(previous_index),
        Term(_checked(body.previous_term)),
        LogIndex(_checked(body.commit_index)),
        tuple(entries),
        _checked(body.read_sequence),
    )


def _checked(number: int) -> int:
    if number > _NUMBER_MAX:
        raise PeerMessageError("a number out of range")
    return number
