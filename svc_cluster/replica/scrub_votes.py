"""This judges which replica is wrong where what they hold differs. Pure.

A majority of all members says what is right. Copies do not add to it: a replica whose state came
from another one's snapshot holds what that one held, damage included, until a whole round has found
all of them equal. And no number of replicas makes right what they see themselves is damaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from svc_cluster.base.ids import NodeId

Identity = tuple[bytes, int, int]
"""A chunk's end, digest and rows."""


@dataclass(frozen=True, slots=True)
class Vote:
    """What one replica holds, of the version that all of them are compared in."""

    identity: Identity
    flawed: bool = False
    """It sees alone that this is damaged."""
    copied_from: NodeId | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """`right` is what a majority holds; None where nobody knows what is right. `damaged` are those
    that hold something else than that."""

    right: Identity | None
    damaged: frozenset[NodeId] = frozenset()

    @property
    def in_doubt(self) -> bool:
        """What is right cannot be told from these votes, though they should."""
        return self.right is None


def judge(votes: Mapping[NodeId, Vote], member_count: int) -> Judgement:
    """Judge at least one vote; `member_count` counts the silent ones too.

    Votes that all agree and show no flaw are right, however few they are: nothing speaks against
    them. Otherwise there must be a majority of origins; or one of replicas, where all others see
    themselves that they are damaged.
    """
    assert votes, "a judgement is made of something"
    quorum = member_count // 2 + 1
    holders: dict[Identity, list[NodeId]] = {}
    for node, vote in sorted(votes.items()):
        holders.setdefault(vote.identity, []).append(node)
    flawed = {vote.identity for vote in votes.values() if vote.flawed}
    if len(holders) == 1:
        (only,) = holders
        return Judgement(None if only in flawed else only)
    for identity, nodes in holders.items():
        if identity in flawed or len(nodes) < quorum:
            continue
        origins = {_origin(votes, node) for node in nodes}
        if len(origins) >= quorum or len(flawed) == len(holders) - 1:
            return Judgement(identity, frozenset(votes.keys() - set(nodes)))
    return Judgement(None)


def _origin(votes: Mapping[NodeId, Vote], node: NodeId) -> NodeId:
    """Whose state a replica's is a copy of, as far back as is known."""
    seen = {node}
    while node in votes and (source := votes[node].copied_from) is not None:
        if source in seen:
            return min(seen)  # each is a copy of the other's earlier state
        seen.add(source)
        node = source
    return node
