"""The port between what is agreed (this package) and everything else.

A group decides and never performs: events go in through `step`, effects come out through `ready`.
It knows no clock, no disk and no socket. `engine.py` is its only implementation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NewType, Protocol

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.ids import GroupId, LogIndex, NodeId, Term
from svc_cluster.base.log_ops import LogEntry, LogOp
from svc_cluster.raft.messages import PeerMessage
from svc_cluster.raft.repair import Repair

PAYLOAD_TYPE: Final = 9
"""First byte of every proposed payload; entries with another one are the engine's own."""
PAYLOAD_HEAD: Final = bytes([PAYLOAD_TYPE])

ENTRY_BYTES_MAX: Final = 2 * 1024 * 1024 + 64 * 1024
"""Longest payload a group takes: 2 MiB of commands and their envelope."""


def is_noop(payload: bytes) -> bool:
    """Whether the entry is the engine's own (a new leader's first, a seal) and changes no state."""
    return payload[0] != PAYLOAD_TYPE


class Role(Enum):
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Where a proposal was put in the leader's log. It may still be lost."""

    log_index: LogIndex
    term: Term


ReadTicket = NewType("ReadTicket", int)


@dataclass(frozen=True, slots=True)
class ReadState:
    """The answer to a ReadIndex round.

    `read_index` is None when leadership or the quorum was lost before the round ended; otherwise
    a read is linearizable once the **state store's** applied index has reached it.
    """

    ticket: ReadTicket
    read_index: LogIndex | None


@dataclass(frozen=True, slots=True)
class Message:
    """A message from another replica of the same group."""

    sender: NodeId
    body: PeerMessage


@dataclass(frozen=True, slots=True)
class Durable:
    """Everything of the `Ready` batches up to and including `ready_number` is synced."""

    ready_number: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed. `now` is monotonic seconds, never less than in the tick before."""

    now: float
    grace: float = 0.0
    """Seconds for which the silence of others says nothing yet, beyond the usual: this node has so
    much to do that what they have sent may wait here. It moves when a follower stands, when a voter
    takes a leader whose connection stands for gone, and when a leader without answers steps down:
    nothing that is counted or promised."""


@dataclass(frozen=True, slots=True)
class PeerDown:
    """The connection to a peer is lost, or its queue is full: send it nothing more for now."""

    peer: NodeId


@dataclass(frozen=True, slots=True)
class PeerUp:
    """The peer can be sent to (again). Every peer starts as down."""

    peer: NodeId


@dataclass(frozen=True, slots=True)
class PeerRoom:
    """The way to a peer takes entries again, after it did not."""

    peer: NodeId


@dataclass(frozen=True, slots=True)
class PeerInstalled:
    """The peer has told, in this node's term as leader, that the snapshot it was sent is its state,
    durably. It needs what comes behind `log_index`."""

    peer: NodeId
    log_index: LogIndex


@dataclass(frozen=True, slots=True)
class Trim:
    """Everything up to here is in the flushed state store and no longer needed by a live peer."""

    log_index: LogIndex


Event = Message | Durable | Tick | PeerDown | PeerUp | PeerRoom | PeerInstalled | Trim
"""What a replica is told by who performs. A feed of decided entries goes to its seam."""


@dataclass(slots=True)
class Ready:
    """A Ready tells what the group wants done now, in this order. The `log_ops` go to the WAL (no
    waiting), `messages` to the peers, `committed` to the state machine. All of `messages` may leave
    at once: whatever has to wait for the disk is held back inside the group until `Durable` says
    so.
    """

    number: int
    log_ops: list[LogOp] = field(default_factory=list)
    messages: list[tuple[NodeId, PeerMessage]] = field(default_factory=list)
    committed: list[LogEntry] = field(default_factory=list)
    """Committed **and** durable in this replica's own WAL; consecutive over all Ready batches,
    starting behind the applied index the group was built with. The engine's own no-ops are in it
    (see `is_noop`)."""
    read_states: list[ReadState] = field(default_factory=list)
    snapshot_wanted: list[NodeId] = field(default_factory=list)
    """Leader only: peers whose next entry is no longer in the log, and recovering ones (then see
    `repair_of`). Repeated until it is gone."""
    has_more: bool = False
    """There is more than one batch holds: ask again at once. Otherwise there is nothing before the
    next call of another method."""


class NotLeaderError(Exception):
    """Nothing was proposed. `leader` is the last known one, or None."""

    def __init__(self, leader: NodeId | None) -> None:
        super().__init__(f"not the leader; last known leader: {leader}")
        self.leader = leader


class EngineFault(Exception):
    """The group's state can no longer be trusted: drop it and build it again from the WAL."""


class PeerLieError(EngineFault):
    """A message that contradicts what is decided here, so that no replica could have sent it.
    Raised before anything was changed: the message is to be dropped, the group goes on."""


class Standstill(Protocol):
    """How a replica goes without ticks, for as long as it likes, while nothing is under way."""

    def is_possible(self, commit_index: LogIndex) -> bool:
        """Whether all of the log is durable and committed, with this commit index. The replica must
        be idle beside that."""
        ...

    def is_over(self, now: float, *, leader_lives: bool) -> None:
        """Time goes on at `now`; a `Tick` of that time is next. A leader waits for its peers'
        answers from here on, a follower for a message. `leader_lives`: a follower consents to
        nobody's election before its leader has been silent for long enough again."""
        ...


class RaftGroup(Protocol):
    """One replica of one group. Not thread-safe; any exception but NotLeaderError from a method
    is fatal for the group: drop it and build it again from the WAL."""

    group_id: GroupId
    node_id: NodeId
    members: tuple[NodeId, ...]
    """The voters, this node among them, in order."""

    @property
    def standstill(self) -> Standstill: ...

    @property
    def role(self) -> Role: ...

    @property
    def term(self) -> Term: ...

    @property
    def leader(self) -> NodeId | None: ...

    @property
    def can_propose(self) -> bool:
        """Leader, of a term that is durable here."""
        ...

    def is_idle(self, seen: tuple[Role, Term]) -> bool:
        """Whether `ready` would bring nothing now, and role and term are what was seen."""
        ...

    @property
    def commit_index(self) -> LogIndex: ...

    @property
    def last_index(self) -> LogIndex: ...

    @property
    def durable_index(self) -> LogIndex: ...

    @property
    def base_index(self) -> LogIndex: ...

    @property
    def configuration(self) -> Configuration | None:
        """The newest that it has begun; None: the one that the group was created with."""
        ...

    def term_at(self, log_index: LogIndex) -> Term | None:
        """Term of the entry at `log_index` in this log; None when it is not there (any more)."""
        ...

    def match_index(self, peer: NodeId) -> LogIndex:
        """Leader only: the highest index known durable on `peer`."""
        ...

    @property
    def recovery(self) -> int:
        """Not 0: this replica has lost part of what it promised. It does not vote, lead, take or
        acknowledge entries, and is replaced by the snapshot that it gets under this number."""
        ...

    def repair_of(self, peer: NodeId) -> Repair | None:
        """Leader only: what a snapshot for a recovering peer must be; None for other peers."""
        ...

    def distrust(self) -> None:
        """What this replica holds was found to be wrong: it recovers from now on. The caller sees
        to it that this is still known after a restart."""
        ...

    def abstain(self) -> None:
        """This replica cannot apply what is decided. Until it is built again it leads no more and
        does not stand for election; it goes on logging, acknowledging and voting. The only member
        of its group has nobody to leave the lead to and keeps it."""
        ...

    def propose(self, payload: bytes) -> LogPosition:
        """Append to the leader's log. `payload[0]` must be `PAYLOAD_TYPE`; at most
        `ENTRY_BYTES_MAX` long. Raises NotLeaderError, without effect."""
        ...

    def step(self, event: Event) -> None: ...

    def ready(self) -> Ready | None:
        """The next batch of effects, or None when there is nothing to do. Each call moves on."""
        ...

    def read_index(self) -> ReadTicket:
        """Start (or join) a leadership confirmation round; its ReadState comes in a later Ready.
        Raises NotLeaderError, also while no entry of the own term is committed yet."""
        ...

    def transfer_leadership(self, to: NodeId) -> None:
        """Ask `to` to take over at once. Best effort: the caller stops proposing first."""
        ...

    def campaign(self) -> None:
        """Stand for election without waiting for the time-out (a pre-vote still comes first)."""
        ...

    def release(self) -> None:
        """This replica is used no more: let go of what its log holds in memory. What it was asked
        to make durable stays so; only the properties may still be asked."""
        ...

    @property
    def log_bytes(self) -> int:
        """Payload bytes of the entries that are kept in memory."""
        ...

    def index_keeping_bytes(self, size: int) -> LogIndex:
        """The highest index such that the entries behind it have at least `size` bytes; the base
        when the whole log is smaller."""
        ...
