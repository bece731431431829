"""Do the replicas of a group hold the same state? They compare digests at one index now and then.

The leader asks with an index that it has applied; each replica answers with its own digest at
exactly that index. What a quorum says is right; whoever says otherwise, the leader included, has
diverged and must be repaired. Pure: no clock, nothing is sent or logged here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.raft.messages import MarkKind, StateMark

REMEMBERED: Final = 256
"""Indexes whose digests are kept: a follower is rarely further ahead of its leader's apply."""

Outgoing = list[tuple[NodeId, StateMark]]


class StateMarks:
    """One replica's part, as follower and as leader."""

    def __init__(self, node_id: NodeId, members: Sequence[NodeId]) -> None:
        self._node_id = node_id
        self._others = [member for member in members if member != node_id]
        self._quorum = len(members) // 2 + 1
        self._recent: deque[tuple[LogIndex, int]] = deque(maxlen=REMEMBERED)
        self._asked: tuple[NodeId, StateMark] | None = None
        """A question about an index that is not applied yet."""
        self._told: tuple[LogIndex, int] = (LogIndex(0), 0)
        """The last answer given."""
        self._round = LogIndex(0)
        self._answers: dict[NodeId, int] = {}
        self._judged: set[NodeId] = set()
        self.diverged = False
        """This replica's state is not what a quorum has."""

    @property
    def undecided(self) -> bool:
        """The answers of the running round differ, and no quorum agrees."""
        return len(set(self._answers.values())) > 1 and self._right_digest() is None

    def applied(self, log_index: LogIndex, digest: int) -> Outgoing:
        """The state is that of `log_index` now; perhaps somebody waits for it."""
        self._recent.append((log_index, digest))
        if self._asked is None or self._asked[1].log_index > log_index:
            return []
        (sender, mark), self._asked = self._asked, None
        return self._answer(sender, mark)

    def ask(self, term: Term, log_index: LogIndex, digest: int) -> Outgoing:
        """Begin a round, as the leader of `term` whose state is at `log_index`."""
        self._round, self._answers, self._judged = log_index, {self._node_id: digest}, set()
        mark = StateMark(term, log_index, digest, MarkKind.QUESTION)
        return [(peer, mark) for peer in self._others]

    def received(self, sender: NodeId, mark: StateMark) -> Outgoing:
        """A mark of the current term from another replica; the answers to it."""
        match mark.kind:
            case MarkKind.QUESTION:
                return self._answer(sender, mark)
            case MarkKind.ANSWER:
                return self._count(sender, mark)
            case MarkKind.VERDICT:
                told_index, told_digest = self._told
                if mark.log_index == told_index and mark.digest != told_digest:
                    self.diverged = True
                return []

    def _answer(self, sender: NodeId, mark: StateMark) -> Outgoing:
        if not self._recent or self._recent[-1][0] < mark.log_index:
            self._asked = (sender, mark)
            return []
        for log_index, digest in reversed(self._recent):
            if log_index == mark.log_index:
                self._told = (log_index, digest)
                return [(sender, StateMark(mark.sender_term, log_index, digest, MarkKind.ANSWER))]
        return []

    def _count(self, sender: NodeId, mark: StateMark) -> Outgoing:
        if mark.log_index != self._round or sender not in self._others:
            return []
        self._answers[sender] = mark.digest
        right = self._right_digest()
        if right is None:
            return []
        verdict = StateMark(mark.sender_term, self._round, right, MarkKind.VERDICT)
        out: Outgoing = []
        for node, digest in sorted(self._answers.items()):
            if digest == right or node in self._judged:
                continue
            self._judged.add(node)
            if node == self._node_id:
                self.diverged = True
            else:
                out.append((node, verdict))
        return out

    def _right_digest(self) -> int | None:
        digests = list(self._answers.values())
        return next((d for d in digests if digests.count(d) >= self._quorum), None)
