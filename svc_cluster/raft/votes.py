"""Which votes count: one per member and term. The engine itself counts every message."""

from __future__ import annotations

from svc_cluster.base.ids import NodeId, Term


class VoteLedger:
    """The voters already counted in the newest term."""

    def __init__(self, voters: frozenset[NodeId]) -> None:
        self._voters = voters
        self._term = Term(0)
        self._counted: set[NodeId] = set()

    def count(self, term: Term, voter: NodeId) -> bool:
        """Whether this vote counts; false for a repeated one, an old one and a stranger's."""
        if voter not in self._voters or term < self._term:
            return False
        if term > self._term:
            self._term = term
            self._counted.clear()
        if voter in self._counted:
            return False
        self._counted.add(voter)
        return True
