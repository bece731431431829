"""The invariants over all configurations of a group, beside those of one configuration."""

from __future__ import annotations

from collections import Counter

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.ids import LogIndex, NodeId, ReplicaId, Term
from svc_cluster.base.log_ops import AppendEntries, LogEntry, LogOp
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.messages import Ended, PeerMessage, VoteGranted
from svc_cluster.raft.seal import SEAL_TYPE, successor
from tests.simulation.core.checkers import Checkers, ViolationError


class SealCheckers(Checkers):
    """What the group has ever promised, in whichever configuration."""

    def __init__(self, first: Configuration) -> None:
        super().__init__()
        self.decided = {0: first}
        """Configurations that somebody has begun to know of by applying a seal."""
        self.established: set[int] = set()
        """Those in which an entry of their own is committed."""
        self.votes: dict[tuple[ReplicaId, Term], NodeId] = {}
        self.terms_said: dict[ReplicaId, Term] = {}
        self.failed: set[bytes] = set()
        self.effective: set[bytes] = set()
        self.counts: Counter[str] = Counter()

    @property
    def newest(self) -> Configuration:
        return self.decided[max(self.decided)]

    def on_leader(self, node_id: NodeId, group: EngineGroup) -> None:
        """One leader a term; of what is decided up to the end of its configuration it lacks
        nothing."""
        first = self.leaders.setdefault(group.term, node_id)
        if first != node_id:
            raise ViolationError(f"TWO_LEADERS {first} and {node_id} in term {group.term}")
        number = group.seam.configuration.number
        after = self.decided.get(number + 1)
        last = len(self.chosen) if after is None else min(after.seal_index, len(self.chosen))
        for log_index in range(group.base_index + 1, last + 1):
            if group.term_at(LogIndex(log_index)) != self.chosen[log_index].term:
                raise ViolationError(
                    f"LEADER_LACKS {log_index} of {last} in configuration {number}"
                )

    def on_decided(self, before: Configuration, entry: LogEntry) -> None:
        """A replica has applied the seal that ends `before`."""
        begun = successor(before, entry)
        known = self.decided.get(begun.number)
        if known is None:
            if begun.number - 1 not in self.decided:
                raise ViolationError(f"TWO_SEALS {begun} follows upon nothing")
            self.decided[begun.number] = begun
            self.counts["seals"] += 1
        elif known != begun:
            raise ViolationError(f"TWO_SEALS {known} and {begun}")

    def on_told(self, configuration: Configuration) -> None:
        """Only what is decided is told."""
        if configuration.number and self.decided.get(configuration.number) != configuration:
            raise ViolationError(f"UNDECIDED_TOLD {configuration}")

    def on_applied(self, log_index: int, entry: LogEntry, digest: bytes, term: Term) -> None:
        is_news = log_index not in self.chosen
        super().on_applied(log_index, entry, digest, term)
        if not is_news:
            return
        for begun in self.decided.values():
            if log_index > begun.seal_index and entry.term < begun.first_term:
                raise ViolationError(f"ABOVE_SEAL {log_index} of {entry.term} behind {begun}")
        if entry.payload in self.failed:
            raise ViolationError(f"FAILED_TOOK_EFFECT at {log_index}")
        if entry.payload[0] not in (1, SEAL_TYPE):
            self.effective.add(entry.payload)

    def on_failed(self, payload: bytes) -> None:
        """Whoever proposed it was told that it never takes effect."""
        self.counts["failed"] += 1
        self.failed.add(payload)
        if payload in self.effective:
            raise ViolationError("FAILED_TOOK_EFFECT before it was refused")

    def on_said(self, replica_id: ReplicaId, to: NodeId, body: PeerMessage) -> None:
        """By replica and over crashes: one vote a term, and terms never fall."""
        if isinstance(body, Ended):
            self.on_told(body.configuration)
            self.counts["ended"] += 1
            return
        if body.sender_term < self.terms_said.get(replica_id, 0):
            raise ViolationError(f"TERM_FELL on replica {replica_id}")
        self.terms_said[replica_id] = body.sender_term
        if isinstance(body, VoteGranted):
            first = self.votes.setdefault((replica_id, body.sender_term), to)
            if first != to:
                raise ViolationError(f"TWO_VOTES of replica {replica_id} in {body.sender_term}")

    def on_forgotten(self, replica_id: ReplicaId) -> None:
        """It may have forgotten its term, and knows that it may have."""
        self.terms_said.pop(replica_id, None)

    def on_learnt(self, ops: list[LogOp]) -> None:
        """A learner's log has what somebody has applied, and nothing else."""
        for op in ops:
            if isinstance(op, AppendEntries):
                for entry in op.entries:
                    if self.chosen.get(entry.log_index) != entry:
                        raise ViolationError(f"LEARNT_UNDECIDED {entry.log_index}")
