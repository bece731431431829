"""Wire form of what replicas say to each other: one envelope for the messages of many groups.

An entry's payload is copied twice by protobuf each way and never looked into. Every number and
length of an incoming envelope is checked here; what its messages mean is checked by the group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, assert_never

from google.protobuf.message import DecodeError

from svc_cluster._pb.cluster.v1 import peer_pb2 as pb
from svc_cluster.base.configuration import (
    MEMBERS_MAX,
    ConfigurationFormatError,
    decode_configuration,
    encode_configuration,
)
from svc_cluster.base.ids import GroupId, LogIndex, Term
from svc_cluster.base.limits import MESSAGE_BYTES_MAX
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.codec.rest_message import RestMessageError, put_rest, rest_message
from svc_cluster.codec.scrub_message import ScrubMessageError, put_scrub, scrub_message
from svc_cluster.codec.trace_pb import TraceFormatError, get_trace, put_trace
from svc_cluster.codec.wire_fields import find_field, has_more_fields
from svc_cluster.model.content import KEY_BYTES_MAX
from svc_cluster.raft.group import ENTRY_BYTES_MAX
from svc_cluster.raft.messages import (
    ENTRY_TRACES_MAX,
    AppendRequest,
    AppendResponse,
    Beat,
    Ended,
    EntryTraces,
    MarkKind,
    PeerMessage,
    PreVoteRequest,
    PreVoteResponse,
    RestList,
    RestMark,
    ScrubAnswer,
    ScrubQuestion,
    ScrubVerdict,
    StaleTerm,
    StateMark,
    TimeoutNow,
    VoteGranted,
    VoteRequest,
)

MESSAGES_MAX: Final = 8192
"""Messages of one envelope: small ones fill 64 KiB before they are so many."""

ENTRIES_MAX: Final = 512
"""Entries of one message: senders cut them so (`replica/portions.py`)."""

PARSED_BYTES: Final = 64 * 1024
"""What is longer is counted before it is parsed."""

_HEAD_FIELDS_MAX: Final = 16
"""Fields of a message, and of what it carries, beside entries."""

MEMBER_OVERHEAD_BYTES: Final = 6
"""What one message takes in an envelope beside its own bytes, at most."""

_MEMBER_TAG: Final = b"\x0a"

NUMBER_MAX: Final = 2**62
"""Terms, indexes and ids stay far below; so that arithmetic on them fits 63 bits."""


class Envelope(NamedTuple):
    """`wall_ms`: what the sender's wall clock showed, Unix milliseconds; None: it did not say.
    `faults`: what is wrong with each of the messages that cannot be read."""

    messages: list[tuple[GroupId, PeerMessage]]
    wall_ms: int | None
    faults: list[str]


class PeerMessageError(Exception):
    """The bytes are not an envelope, or not a message that is known here."""


def encode_message(group_id: GroupId, message: PeerMessage) -> bytes:
    """One message, to be put into an envelope with `encode_envelope`."""
    out = pb.GroupMessage(group_id=group_id, sender_term=message.sender_term)
    _put(out, message)
    encoded: bytes = out.SerializeToString()
    return encoded


def encode_envelope(head: bytes, members: Iterable[bytes], wall_ms: int | None = None) -> bytes:
    """Messages of some groups for one peer, with what the wall clock shows, behind `head`. The
    bytes of a member are copied once."""
    parts = [head]
    for member in members:
        parts.append(_member_head(len(member)))
        parts.append(member)
    if wall_ms is not None:
        parts.append(pb.PeerBatch(wall_ms=wall_ms).SerializeToString())
    return b"".join(parts)


def _member_head(size: int) -> bytes:
    """The tag of PeerBatch.messages, and the length as protobuf writes it."""
    out = bytearray(_MEMBER_TAG)
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out)


def payload_bytes(message: PeerMessage) -> int:
    """About how many bytes `message` takes in an envelope; never too few."""
    if isinstance(message, AppendRequest):
        return 96 + sum(len(entry.payload) + 32 for entry in message.entries)
    if isinstance(message, EntryTraces):
        return 96 + sum(48 + len(trace.state) for trace in message.traces)
    if isinstance(message, Ended):
        return 128 + 16 * MEMBERS_MAX
    if isinstance(message, ScrubQuestion | ScrubAnswer | ScrubVerdict):
        return 192 + KEY_BYTES_MAX
    if isinstance(message, RestList):
        return 96 + 20 * len(message.groups)
    return 96


class Opened(NamedTuple):
    """An envelope whose messages are still encoded. `wall_ms` as in Envelope."""

    members: list[bytes]
    wall_ms: int | None


def open_envelope(data: bytes) -> Opened:
    """Raises PeerMessageError for what is no envelope."""
    if len(data) > MESSAGE_BYTES_MAX:
        raise PeerMessageError(f"an envelope of {len(data)} bytes")
    try:
        # one field more is for the clock
        if len(data) > PARSED_BYTES and has_more_fields(data, 0, len(data), MESSAGES_MAX + 1):
            raise PeerMessageError(f"an envelope of more than {MESSAGES_MAX} messages")
        batch = pb.PeerBatch.FromString(data)
    except (DecodeError, ValueError) as error:
        raise PeerMessageError("not a protobuf envelope") from error
    members = batch.messages
    if len(members) > MESSAGES_MAX:
        raise PeerMessageError(f"an envelope of {len(members)} messages")
    wall_ms = _checked(batch.wall_ms) if batch.HasField("wall_ms") else None
    return Opened(list(members), wall_ms)


def decode_members(members: Iterable[bytes], wall_ms: int | None) -> Envelope:
    """Some messages of an envelope, in order. What cannot be read may be a kind of message that
    only a later version knows, and is the business of its group alone."""
    messages: list[tuple[GroupId, PeerMessage]] = []
    faults: list[str] = []
    for member in members:
        try:
            if len(member) > PARSED_BYTES:
                _check_fields(member)
            message = pb.GroupMessage.FromString(member)
            messages.append((GroupId(_checked(message.group_id)), _message(message)))
        except DecodeError:
            faults.append("not a message")
        except PeerMessageError as fault:
            faults.append(str(fault))
    return Envelope(messages, wall_ms, faults)


def _check_fields(member: bytes) -> None:
    """Raises PeerMessageError for a long message that is not long for its entries' sizes."""
    number, most = pb.GroupMessage.APPEND_REQUEST_FIELD_NUMBER, _HEAD_FIELDS_MAX
    try:
        is_many = has_more_fields(member, 0, len(member), most)
        body = None if is_many else find_field(member, 0, len(member), number, most)
        if is_many or (body is not None and has_more_fields(member, *body, ENTRIES_MAX + most)):
            raise PeerMessageError("a message of too many parts")
    except ValueError as error:
        raise PeerMessageError("not a message") from error


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
            out.state_mark.encoding = message.encoding
            out.state_mark.scrub = message.scrub
        case EntryTraces():
            out.entry_traces.log_index = message.log_index
            for trace in message.traces:
                put_trace(out.entry_traces.traces.add(), trace)
        case Ended():
            out.ended.configuration = encode_configuration(message.configuration)
        case ScrubQuestion() | ScrubAnswer() | ScrubVerdict():
            put_scrub(out, message)
        case RestMark() | Beat() | RestList():
            put_rest(out, message)
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
        case "entry_traces":
            return _entry_traces(term, message.entry_traces)
        case "ended":
            return _ended(term, message.ended)
        case "scrub_question" | "scrub_answer" | "scrub_verdict":
            try:
                return scrub_message(term, message)
            except ScrubMessageError as error:
                raise PeerMessageError(str(error)) from error
        case "rest_mark" | "beat" | "rest_list":
            try:
                return rest_message(term, message, NUMBER_MAX)
            except RestMessageError as error:
                raise PeerMessageError(str(error)) from error
        case _:
            raise PeerMessageError("a message without a known body")


def _state_mark(term: Term, body: Any) -> StateMark:
    try:
        kind = MarkKind(body.kind)
    except ValueError as error:
        raise PeerMessageError("a state mark of unknown kind") from error
    log_index = LogIndex(_checked(body.log_index))
    return StateMark(term, log_index, body.digest, kind, body.encoding, body.scrub)


def _entry_traces(term: Term, body: pb.EntryTraces) -> EntryTraces:
    if not 0 < len(body.traces) <= ENTRY_TRACES_MAX:
        raise PeerMessageError(f"an entry of {len(body.traces)} traces")
    try:
        traces = tuple(get_trace(trace) for trace in body.traces)
    except TraceFormatError as error:
        raise PeerMessageError(str(error)) from error
    return EntryTraces(term, LogIndex(_checked(body.log_index)), traces)


def _ended(term: Term, body: Any) -> Ended:
    try:
        configuration = decode_configuration(body.configuration)
    except ConfigurationFormatError as error:
        raise PeerMessageError(str(error)) from error
    _checked(configuration.seal_index)
    _checked(configuration.seal_term)
    return Ended(term, configuration)


def _append_request(term: Term, body: Any) -> AppendRequest:
    previous_index = _checked(body.previous_index)
    if len(body.entries) > ENTRIES_MAX:
        raise PeerMessageError(f"a message of {len(body.entries)} entries")
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
    if number > NUMBER_MAX:
        raise PeerMessageError("a number out of range")
    return number
