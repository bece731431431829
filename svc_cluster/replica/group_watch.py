"""How long the stages of a write take in the groups of a node, and how their elections end.

Nothing is decided here. A group tells its watch what happens; the watch keeps a few times in mind,
and adds to the figures of the node, which its metrics show.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.raft.group import Event, Message, Role
from svc_cluster.raft.messages import AppendRequest, AppendResponse, PeerMessage
from svc_cluster.replica.node_traces import FollowedEntries

PROPOSED_MAX: Final = 1024
"""Entries of a group whose proposal is kept in mind; of more at a time, the oldest are let go."""

Seconds = Callable[[float], None]


@dataclass(slots=True, eq=False)
class EntryTimes:
    """When an entry that was proposed here came how far: monotonic seconds."""

    log_index: LogIndex
    proposed: float
    durable: float = 0.0
    """On the disk of this node; 0: it is not known to be."""
    committed: float = 0.0
    """On a majority's disks, as far as this replica knows; 0: it is not."""


def _unseen(seconds: float) -> None:
    """Nobody looks at the time."""


def _unseen_of_peer(peer: NodeId, seconds: float) -> None:
    """Nobody looks at the time."""


@dataclass(slots=True, eq=False)
class NodeFigures:
    """Totals of a node since its start, and who is told how long something took."""

    entries_committed: int = 0
    """Entries that became committed while this node led their group."""
    entries_lost: int = 0
    """Entries proposed here whose place another leader's entry took."""
    reads_unconfirmed: int = 0
    """Linearizable reads that ended because no quorum confirmed the leader."""
    elections_won: int = 0
    elections_lost: int = 0
    """Elections that a replica here had started, and that another one ended."""
    hand_overs_done: int = 0
    hand_overs_failed: int = 0
    """Attempts to give a lead away, and those after which it was still led here."""
    on_queued: Seconds = _unseen
    """Told how long a write waited before it was put into an entry."""
    on_committed: Seconds = _unseen
    """Told the time from an entry's proposal here to its commit."""
    on_applied: Seconds = _unseen
    """Told the time from the first look at a committed entry until the store holds it."""
    on_snapshot_sent: Seconds = _unseen
    """Told how long a snapshot took that its receiver has installed."""
    on_round_trip: Callable[[NodeId, float], None] = _unseen_of_peer
    """Told the time from a message to a follower to an answer that followed upon it."""


class GroupWatch:
    """What one group's times are taken from. `clock` tells monotonic seconds. `followed`: None:
    nobody is told of single entries."""

    def __init__(
        self,
        clock: Callable[[], float],
        figures: NodeFigures,
        followed: FollowedEntries | None = None,
    ) -> None:
        self._clock = clock
        self._figures = figures
        self._followed = followed
        self._proposed: deque[EntryTimes] = deque(maxlen=PROPOSED_MAX)
        self._sent: dict[NodeId, tuple[Term, int, float]] = {}
        """The one message to each follower whose answer is waited for: term, place, time."""
        self._apply_began = 0.0
        self.commits = 0
        """Entries proposed here that became committed."""
        self.commit_seconds = 0.0
        """From their proposal to their commit, all together."""

    def proposed(self, log_index: LogIndex) -> None:
        self._proposed.append(EntryTimes(log_index, self._clock()))

    @property
    def newest(self) -> EntryTimes | None:
        """The times of the entry that was proposed last, while it is not committed."""
        return self._proposed[-1] if self._proposed else None

    def durable(self, newest: EntryTimes | None) -> None:
        """Everything up to this entry is on the disk of this node."""
        if newest is None or newest.durable:
            return
        now = self._clock()
        for entry in self._proposed:
            if entry.log_index > newest.log_index:
                return
            entry.durable = entry.durable or now

    def lost(self) -> None:
        self._figures.entries_lost += 1

    def read_unconfirmed(self, count: int) -> None:
        self._figures.reads_unconfirmed += count

    def committed(self, entries: Sequence[LogEntry], role: Role) -> None:
        """Some entries became committed, in order, while the replica had this role."""
        if not entries or role is not Role.LEADER:
            return
        self._figures.entries_committed += len(entries)
        last = entries[-1].log_index
        if self._proposed and self._proposed[0].log_index <= last:
            now = self._clock()
            while self._proposed and self._proposed[0].log_index <= last:
                entry = self._proposed.popleft()
                entry.committed = now
                took = now - entry.proposed
                self.commits += 1
                self.commit_seconds += took
                self._figures.on_committed(took)

    def apply_begins(self) -> None:
        self._apply_began = self._clock()

    def applied(self) -> None:
        self._figures.on_applied(self._clock() - self._apply_began)

    def sent(self, peer: NodeId, message: PeerMessage) -> None:
        """A message leaves. Of what a leader says one message at a time is timed for each peer."""
        if self._followed is not None:
            self._followed.sent(message)
        if type(message) is AppendRequest and peer not in self._sent:
            self._sent[peer] = (message.sender_term, message.read_sequence, self._clock())

    def heard(self, event: Event) -> None:
        """An event arrives. The first answer to the timed message, or to a later one, ends it."""
        if self._followed is not None:
            self._followed.heard(event)
        if type(event) is not Message or type(event.body) is not AppendResponse:
            return
        timed = self._sent.get(event.sender)
        if timed is None:
            return
        term, place, since = timed
        if (event.body.sender_term, event.body.read_sequence) >= (term, place):
            del self._sent[event.sender]
            if event.body.sender_term == term:
                self._figures.on_round_trip(event.sender, self._clock() - since)

    def role_changed(self, was: Role, now: Role) -> None:
        """What was timed in another role ends without a time, and an election may have ended."""
        self._proposed.clear()
        self._sent.clear()
        if now is Role.LEADER:
            self._figures.elections_won += 1
        elif was is Role.CANDIDATE and now is Role.FOLLOWER:
            self._figures.elections_lost += 1
