"""What waits for the disk.

A message says something that must still be true after a crash, so it names the log operation it
depends on and leaves when that is durable. Acknowledgements are never late as a whole: they are
clipped to what is durable. A message keeps the term it was created in and is dropped when that
term is over.

A leader's entries wait for nothing, and may leave before its own log has them, synced or only
framed. Such a message promises nothing about the leader's disk, and a follower promises with its
answer only what is on its own. The leader is one vote of the quorum, and that vote counts when its
sync is told: until then the followers' answers are not shown to the engine (LeaderAcks), which
counts itself always. A leader that loses what it has sent comes back with a shorter log, and has
acknowledged nothing of it to anybody; in its term it cannot send others in that place, because it
comes back as a follower and leads again only in a newer term.
"""

from __future__ import annotations

from dataclasses import dataclass

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.raft.messages import PeerMessage


@dataclass(frozen=True, slots=True)
class _Held:
    ordinal: int
    to: NodeId
    message: PeerMessage


class Gate:
    """Messages that promise a hard state: votes, vote requests, answers of a new term."""

    def __init__(self) -> None:
        self._held: list[_Held] = []

    @property
    def holds(self) -> bool:
        """Whether anything waits here."""
        return bool(self._held)

    def hold(self, ordinal: int, to: NodeId, message: PeerMessage) -> None:
        """Keep `message` until the log operation `ordinal` is durable."""
        self._held.append(_Held(ordinal, to, message))

    def release(self, durable_ordinal: int, term: Term) -> list[tuple[NodeId, PeerMessage]]:
        """The messages that may leave now, in order; those of an older term are dropped."""
        if not self._held:
            return []
        current = [held for held in self._held if held.message.sender_term == term]
        self._held = [held for held in current if held.ordinal > durable_ordinal]
        return [(held.to, held.message) for held in current if held.ordinal <= durable_ordinal]


class FollowerAcks:
    """How far this follower's log equals its leader's, told only as far as it is durable."""

    def __init__(self) -> None:
        self._term = Term(0)
        self._leader = NodeId(0)
        self._verified = LogIndex(0)
        self._told = LogIndex(0)

    def verified(self, term: Term, leader: NodeId, log_index: LogIndex) -> None:
        """The log equals the leader's up to `log_index`."""
        if (term, leader) != (self._term, self._leader):
            self._term, self._leader = term, leader
            self._verified = self._told = LogIndex(0)
        self._verified = max(self._verified, log_index)

    def told(self, log_index: LogIndex) -> None:
        self._told = max(self._told, log_index)

    def newly_durable(self, term: Term, durable_index: LogIndex) -> tuple[NodeId, LogIndex] | None:
        """The leader and the index to acknowledge now, or None when there is no news."""
        if term != self._term:
            return None
        index = LogIndex(min(self._verified, durable_index))
        if index <= self._told:
            return None
        self._told = index
        return self._leader, index


class LeaderAcks:
    """This shows the followers' acknowledgements to the engine only as far as the leader's own log
    is durable. The engine counts the leader itself for every entry."""

    def __init__(self) -> None:
        self._acked: dict[NodeId, LogIndex] = {}
        self._shown: dict[NodeId, LogIndex] = {}

    def clear(self) -> None:
        self._acked.clear()
        self._shown.clear()

    def acked(self, peer: NodeId) -> LogIndex:
        """The highest index that `peer` has said is durable there."""
        return self._acked.get(peer, LogIndex(0))

    def shown_by(self, others: int) -> LogIndex:
        """The highest index that so many of the followers, at least one, are shown to have."""
        shown = sorted(self._shown.values(), reverse=True)
        return shown[others - 1] if len(shown) >= others else LogIndex(0)

    def on_ack(self, peer: NodeId, log_index: LogIndex, durable_index: LogIndex) -> LogIndex:
        """Note an acknowledgement; returns what of it may be shown."""
        self._acked[peer] = max(self.acked(peer), log_index)
        shown = LogIndex(min(log_index, durable_index))
        self._shown[peer] = max(self._shown.get(peer, LogIndex(0)), shown)
        return shown

    def newly_durable(self, durable_index: LogIndex) -> list[tuple[NodeId, LogIndex]]:
        """What may be shown in addition, now that the own log is durable up to there."""
        news = []
        for peer, acked in self._acked.items():
            index = LogIndex(min(acked, durable_index))
            if index > self._shown[peer]:
                self._shown[peer] = index
                news.append((peer, index))
        return news
