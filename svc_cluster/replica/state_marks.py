"""This finds out whether the replicas of a group hold the same state. They compare digests at one
index now and then.

The leader asks with an index that it has applied; each replica answers with its own digest at
exactly that index. What a quorum says is right; whoever says otherwise, the leader included, has
diverged and must be repaired. A digest is that of one encoding of the state: replicas of different
encodings are never compared, however many agree. Pure: no clock, nothing is sent or logged here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Final

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.raft.messages import MarkKind, StateMark

REMEMBERED: Final = 256
"""Indexes whose digests are kept: a follower is rarely further ahead of its leader's apply."""

Outgoing = list[tuple[NodeId, StateMark]]

_Answer = tuple[int, int]
"""(encoding, digest)"""


class StateMarks:
    """One replica's part, as follower and as leader."""

    def __init__(self, node_id: NodeId, members: Sequence[NodeId], encoding: int) -> None:
        """`encoding`: of the digests of this replica, at least 1."""
        self._node_id = node_id
        self._encoding = encoding
        self._others = [member for member in members if member != node_id]
        self._quorum = len(members) // 2 + 1
        self._recent: deque[tuple[LogIndex, int]] = deque(maxlen=REMEMBERED)
        self._asked: tuple[NodeId, StateMark] | None = None
        """A question about an index that is not applied yet."""
        self._told: tuple[LogIndex, int] = (LogIndex(0), 0)
        """The last answer given."""
        self._round = LogIndex(0)
        self._answers: dict[NodeId, _Answer] = {}
        self._judged: set[NodeId] = set()
        self.diverged = False
        """This replica's state is not what a quorum has."""

    @property
    def undecided(self) -> bool:
        """Answers of the running round differ within one encoding, and no quorum agrees there."""
        answers = set(self._answers.values())
        return any(
            len([one for one in answers if one[0] == encoding]) > 1
            and self._right_digest(encoding) is None
            for encoding in {answer[0] for answer in answers}
        )

    def are_equal(self, log_index: LogIndex, others: Collection[NodeId]) -> bool:
        """Whether all of those have answered, in the running round, that they hold at this index
        what this replica holds."""
        own = self._answers.get(self._node_id)
        same = all(self._answers.get(other) == own for other in others)
        return self._round == log_index and own is not None and same

    def applied(self, log_index: LogIndex, digest: int) -> Outgoing:
        """The state is that of `log_index` now; perhaps somebody waits for it."""
        self._recent.append((log_index, digest))
        if self._asked is None or self._asked[1].log_index > log_index:
            return []
        (sender, mark), self._asked = self._asked, None
        return self._answer(sender, mark)

    def ask(self, term: Term, log_index: LogIndex, digest: int) -> Outgoing:
        """Begin a round, as the leader of `term` whose state is at `log_index`."""
        self._round, self._judged = log_index, set()
        self._answers = {self._node_id: (self._encoding, digest)}
        mark = StateMark(term, log_index, digest, MarkKind.QUESTION, self._encoding)
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
                judged = mark.log_index == told_index and mark.encoding == self._encoding
                if judged and mark.digest != told_digest:
                    self.diverged = True
                return []

    def _answer(self, sender: NodeId, mark: StateMark) -> Outgoing:
        if not self._recent or self._recent[-1][0] < mark.log_index:
            self._asked = (sender, mark)
            return []
        for log_index, digest in reversed(self._recent):
            if log_index == mark.log_index:
                self._told = (log_index, digest)
                answer = StateMark(
                    mark.sender_term, log_index, digest, MarkKind.ANSWER, self._encoding
                )
                return [(sender, answer)]
        return []

    def _count(self, sender: NodeId, mark: StateMark) -> Outgoing:
        if mark.log_index != self._round or sender not in self._others:
            return []
        if not mark.encoding:
            return []  # of releases that do not say it, which need not be one
        encoding = mark.encoding
        self._answers[sender] = (encoding, mark.digest)
        right = self._right_digest(encoding)
        if right is None:
            return []
        verdict = StateMark(mark.sender_term, self._round, right, MarkKind.VERDICT, encoding)
        out: Outgoing = []
        for node, answer in sorted(self._answers.items()):
            if answer[0] != encoding or answer[1] == right or node in self._judged:
                continue
            self._judged.add(node)
            if node == self._node_id:
                self.diverged = True
            else:
                out.append((node, verdict))
        return out

    def _right_digest(self, encoding: int) -> int | None:
        """What a quorum of all members has, of those that are comparable."""
        digests = [digest for version, digest in self._answers.values() if version == encoding]
        return next((d for d in digests if digests.count(d) >= self._quorum), None)
