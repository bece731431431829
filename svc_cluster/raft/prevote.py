"""Asking before raising the term, so that a node that was cut off does not depose a leader.

A voter says yes when it would vote for that log in that term and has not heard from a leader for
an election timeout, longer on a node that is behind (`Tick.grace`). Nothing here changes anybody's
term or vote.
"""

from __future__ import annotations

from dataclasses import dataclass

from svc_cluster.base.ids import LogIndex, NodeId, Term


@dataclass(frozen=True, slots=True)
class VoterView:
    """What a voter decides by."""

    term: Term
    last_index: LogIndex
    last_term: Term
    leader_is_alive: bool


def would_grant(
    voter: VoterView, *, next_term: Term, last_index: LogIndex, last_term: Term
) -> bool:
    """Whether the voter would vote, in `next_term`, for a candidate whose log ends there."""
    if voter.leader_is_alive or next_term <= voter.term:
        return False
    return (last_term, last_index) >= (voter.last_term, voter.last_index)


class PreVoteRound:
    """The answers to this node's own question; at most one question is open."""

    def __init__(self, voters: frozenset[NodeId], quorum: int) -> None:
        self._voters = voters
        self._quorum = quorum
        self._next_term: Term | None = None
        self._granted: set[NodeId] = set()

    def start(self, next_term: Term, own: NodeId) -> None:
        self._next_term = next_term
        self._granted = {own}

    def cancel(self) -> None:
        self._next_term = None

    def won_by(self, voter: NodeId, next_term: Term) -> bool:
        """Count a yes; true exactly once, when the quorum is reached. Ends the round then."""
        if next_term != self._next_term or voter not in self._voters:
            return False
        self._granted.add(voter)
        if len(self._granted) < self._quorum:
            return False
        self.cancel()
        return True
