"""What replicas of one group say to each other. Wire form: codec/peer_message.py.

Every message carries the sender's term at the moment it was created (`sender_term`), so that a
late answer of an older term can be told from one of this term.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.ids import GroupId, LogIndex, Term
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.base.tracing import TraceContext


@dataclass(frozen=True, slots=True)
class AppendRequest:
    """Leader to follower; a heartbeat when `entries` is empty."""

    sender_term: Term
    previous_index: LogIndex
    previous_term: Term
    commit_index: LogIndex
    entries: tuple[LogEntry, ...]
    read_sequence: int
    """Grows with each message the leader sends; the answer echoes it (ReadIndex rounds)."""


@dataclass(frozen=True, slots=True)
class AppendResponse:
    """Follower to leader (the engine's `next_node_idx`)."""

    sender_term: Term
    next_index: LogIndex
    success: bool
    reset: bool
    read_sequence: int
    """The `read_sequence` of the last AppendRequest processed from this leader in this term."""
    recovery: int = 0
    """Not 0: the sender has lost part of what it promised. The answer acknowledges nothing and
    asks for a snapshot under this number, which is new with every start of the replica."""


@dataclass(frozen=True, slots=True)
class VoteRequest:
    sender_term: Term
    last_index: LogIndex
    last_term: Term


@dataclass(frozen=True, slots=True)
class VoteGranted:
    """A granted vote; a refusal is silence, or StaleTerm."""

    sender_term: Term


@dataclass(frozen=True, slots=True)
class PreVoteRequest:
    """A PreVoteRequest asks whether the receiver would vote for the sender in `next_term`. Changes
    no state anywhere."""

    sender_term: Term
    next_term: Term
    last_index: LogIndex
    last_term: Term


@dataclass(frozen=True, slots=True)
class PreVoteResponse:
    sender_term: Term
    next_term: Term
    granted: bool


@dataclass(frozen=True, slots=True)
class StaleTerm:
    """This is the answer to a message of an older term, where `sender_term` is the newer one."""

    sender_term: Term


@dataclass(frozen=True, slots=True)
class TimeoutNow:
    """Start an election at once: the leader is handing over."""

    sender_term: Term


class MarkKind(IntEnum):
    QUESTION = 1
    ANSWER = 2
    VERDICT = 3
    """This is what a quorum's state is at the index."""


@dataclass(frozen=True, slots=True)
class StateMark:
    """The digest of the state machine at one applied index. The engine has no use for it: the
    replicas compare their states with it, now and then."""

    sender_term: Term
    log_index: LogIndex
    digest: int
    """64 bits."""
    kind: MarkKind
    encoding: int
    """Version of the encoding that the digest was taken over; only equal ones are compared. 0:
    the sender is of a release that did not say."""
    scrub: int = 0
    """Version of the scrub that the sender takes part in; 0: in none."""


@dataclass(frozen=True, slots=True)
class ScrubQuestion:
    """A ScrubQuestion asks what a node holds behind the key `after`, with exactly `log_index`
    applied. As StateMark, none of the engine's business; see replica/scrub.py."""

    sender_term: Term
    version: int
    encoding: int
    """Replicas of different ones of either are not compared."""
    chunk: int
    """Counts the chunks of one leadership."""
    log_index: LogIndex
    after: bytes
    cost_max: int
    """Size of the chunk in bytes of content, at least 1."""
    round_number: int
    covered: bool
    """Every replica took part in the round so far, and all were equal."""
    completed_round: int = 0
    """The last one of which that was true to its end; 0: none is known."""
    completed_ago_ms: int = 0


class ScrubOutcome(IntEnum):
    COMPARED = 1
    MISSED = 2
    """The index has passed."""
    BUSY = 3
    UNFIT = 4
    """The replica recovers, or applies nothing."""
    OTHER_VERSION = 5


@dataclass(frozen=True, slots=True)
class ScrubAnswer:
    """Everything behind `outcome` is of `COMPARED` alone."""

    sender_term: Term
    version: int
    encoding: int
    chunk: int
    outcome: ScrubOutcome
    end: bytes = b""
    """The last key of the chunk; empty: the content ends in it."""
    digest: int = 0
    """64 bits."""
    rows: int = 0
    flawed: bool = False
    """The sender sees alone that its content is damaged."""
    copied_from: int = 0
    """The node whose snapshot its state came from, unless a round was complete since; 0: none."""


@dataclass(frozen=True, slots=True)
class ScrubVerdict:
    """This is what a quorum holds."""

    sender_term: Term
    version: int
    encoding: int
    chunk: int
    end: bytes
    digest: int
    rows: int


ENTRY_TRACES_MAX: Final = 8
"""Traces that are told of one entry."""


@dataclass(frozen=True, slots=True)
class EntryTraces:
    """The leader says whose sampled traces an entry of its term belongs to. As StateMark, none of
    the engine's business; see replica/node_traces.py."""

    sender_term: Term
    log_index: LogIndex
    traces: tuple[TraceContext, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """The answer to every message of a configuration that has ended: the sender's own. It is
    decided, as is each that is told."""

    sender_term: Term
    configuration: Configuration


ScrubMessage = ScrubQuestion | ScrubAnswer | ScrubVerdict


class RestKind(IntEnum):
    ASK = 1
    AGREE = 2
    WAKE = 3


@dataclass(frozen=True, slots=True)
class RestMark:
    """A RestMark is of a group that has nothing to do. As StateMark, none of the engine's business;
    see replica/group_rest.py."""

    sender_term: Term
    kind: RestKind
    log_index: LogIndex
    number: int
    """The question's; the answer repeats it."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A node is there. No group's message; see replica/beats.py."""

    boot: int
    """64 bits, drawn when the process started."""
    count: int
    """Groups led by the sender that rest with the receiver's consent."""
    digest: int
    """64 bits, of those groups and their terms."""
    lists: bool
    """The receiver is asked for the list of those that it leads."""
    sender_term: Term = Term(0)


REST_LIST_MAX: Final = 4096
"""Groups that one node leads and that rest with another one's consent; so many fit a message."""


@dataclass(frozen=True, slots=True)
class RestList:
    """The groups of a Beat, with their terms."""

    groups: tuple[tuple[GroupId, Term], ...]
    sender_term: Term = Term(0)


RestMessage = RestMark | Beat | RestList


MessageAside = StateMark | EntryTraces | ScrubMessage | Ended | RestMessage
"""None of the engine's business: who runs it deals with these."""

PeerMessage = (
    AppendRequest
    | AppendResponse
    | VoteRequest
    | VoteGranted
    | PreVoteRequest
    | PreVoteResponse
    | StaleTerm
    | TimeoutNow
    | StateMark
    | EntryTraces
    | Ended
    | ScrubMessage
    | RestMessage
)
