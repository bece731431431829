"""The invariants, looked at after every step that could break one."""

from __future__ import annotations

import hashlib

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.base.log_ops import AppendEntries, LogEntry, LogOp
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.group import LogPosition
from svc_cluster.raft.messages import AppendResponse, PeerMessage, VoteGranted


class ViolationError(Exception):
    """An invariant is broken; the text begins with its name."""


def extend_digest(digest: bytes, entry: LogEntry) -> bytes:
    """The state of the model state machine: a chain over everything applied."""
    return hashlib.blake2b(digest + entry.payload, digest_size=8).digest()


class Checkers:
    """What the whole cluster has ever promised."""

    def __init__(self) -> None:
        self.leaders: dict[Term, NodeId] = {}
        self.written: dict[tuple[LogIndex, Term], bytes] = {}
        self.predecessors: dict[tuple[int, Term], Term] = {}
        self.chosen: dict[int, LogEntry] = {}
        self.chosen_by: dict[int, Term] = {}
        """By index, the term of whoever applied it first, which is no lower than the one it was
        chosen in."""
        self.digests: dict[int, bytes] = {0: b""}
        self.proposed: dict[Term, list[LogIndex]] = {}
        self.proposals_chosen: dict[Term, int] = {}
        self.granted: dict[tuple[NodeId, Term], NodeId] = {}
        self.terms_sent: dict[NodeId, Term] = {}
        self.acked_index = 0
        self.acked_count = 0
        self.read_count = 0

    def on_leader(self, node_id: NodeId, group: EngineGroup) -> None:
        """A node shows itself as a leader: nobody else in its term, and nothing missing that was
        chosen before its term. One whose own vote took long to reach its disk may be shown when a
        later term has chosen more; it can choose nothing any more."""
        first = self.leaders.setdefault(group.term, node_id)
        if first != node_id:
            raise ViolationError(f"TWO_LEADERS {first} and {node_id} in term {group.term}")
        for log_index in range(group.base_index + 1, len(self.chosen) + 1):
            if self.chosen_by[log_index] >= group.term:
                continue
            if group.term_at(LogIndex(log_index)) != self.chosen[log_index].term:
                raise ViolationError(f"LEADER_LACKS {log_index} of {len(self.chosen)}")

    def on_log_ops(self, ops: list[LogOp]) -> None:
        """Log matching: an index and a term name one payload."""
        for op in ops:
            if isinstance(op, AppendEntries):
                for entry in op.entries:
                    key = (entry.log_index, entry.term)
                    if self.written.setdefault(key, entry.payload) != entry.payload:
                        raise ViolationError(f"LOG_MATCHING {key}")

    def on_log(self, group: EngineGroup) -> None:
        """Log matching over a whole log: the entry before each is the same on every node."""
        previous = group.term_at(group.base_index)
        assert previous is not None
        for log_index in range(group.base_index + 1, group.last_index + 1):
            term = group.term_at(LogIndex(log_index))
            assert term is not None
            known = self.predecessors.setdefault((log_index, term), previous)
            if known != previous:
                raise ViolationError(f"LOG_MATCHING before ({log_index}, {term})")
            previous = term

    def on_proposed(self, position: LogPosition) -> None:
        self.proposed.setdefault(position.term, []).append(position.log_index)

    def _no_hole(self, entry: LogEntry) -> None:
        """What a leader proposed in one term is chosen from the first on, none without all before:
        what append sessions stand on."""
        proposed = self.proposed.get(entry.term, [])
        place = self.proposals_chosen.get(entry.term, 0)
        if place < len(proposed) and proposed[place] == entry.log_index:
            self.proposals_chosen[entry.term] = place + 1
        elif entry.log_index in proposed:
            raise ViolationError(f"HOLE before {entry.log_index} in term {entry.term}")

    def on_applied(self, log_index: int, entry: LogEntry, digest: bytes, term: Term) -> None:
        """State machine safety: every node applies the same entry at an index. `term`: of whoever
        applies it."""
        if entry.log_index != log_index:
            raise ViolationError(f"APPLY_GAP {entry.log_index} instead of {log_index}")
        if log_index not in self.chosen:
            self._no_hole(entry)
        chosen = self.chosen.setdefault(log_index, entry)
        self.chosen_by.setdefault(log_index, term)
        if chosen != entry:
            raise ViolationError(f"SM_DIVERGENCE at {log_index}: {chosen} and {entry}")
        if self.digests.setdefault(log_index, digest) != digest:
            raise ViolationError(f"SM_DIVERGENCE of the state at {log_index}")

    def on_acked(self, log_index: int) -> None:
        self.acked_count += 1
        self.acked_index = max(self.acked_index, log_index)

    def on_read(self, read_index: LogIndex, acked_before: int) -> None:
        """A read sees everything acknowledged before it began."""
        self.read_count += 1
        if read_index < acked_before:
            raise ViolationError(f"STALE_READ at {read_index}, acknowledged {acked_before}")

    def on_sent(self, sender: NodeId, to: NodeId, body: PeerMessage) -> None:
        """Over crashes too, a node votes once per term and its term never falls."""
        if body.sender_term < self.terms_sent.get(sender, 0):
            raise ViolationError(f"TERM_FELL on {sender}")
        self.terms_sent[sender] = body.sender_term
        if isinstance(body, VoteGranted):
            first = self.granted.setdefault((sender, body.sender_term), to)
            if first != to:
                raise ViolationError(f"TWO_VOTES of {sender} in term {body.sender_term}")

    def on_disk_lost(self, node_id: NodeId) -> None:
        """It forgets its term; that it voted is not forgotten here."""
        self.terms_sent.pop(node_id, None)

    def on_ack_sent(self, body: PeerMessage, durable_index: int) -> None:
        """An acknowledgement speaks only of what is on the disk."""
        if not isinstance(body, AppendResponse) or not body.success:
            return
        if body.next_index - 1 > durable_index:
            raise ViolationError(f"ACK_BEFORE_DISK {body.next_index - 1} > {durable_index}")
