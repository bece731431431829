"""Which groups should be led by another of their members, decided from who leads now. Pure.

A move is planned only where it brings the two ends of a chain of moves nearer to one another, so
that plans end; where none is left the leads are as even as the members of the groups allow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from svc_cluster.base.ids import GroupId, NodeId

MOVES_MAX: Final = 256
"""Moves of one plan; another one follows it."""

STEP_GROUPS: Final = 256
STEP_PATHS: Final = 16
"""Groups that are taken in, and chains of moves that are found, in one step of a plan."""


@dataclass(frozen=True, slots=True)
class LeadMove:
    """The lead of a group goes from one of its members to another."""

    group_id: GroupId
    giver: NodeId
    taker: NodeId


def plan_steps(
    leaders: Mapping[GroupId, NodeId],
    members: Mapping[GroupId, Sequence[NodeId]],
    takers: Collection[NodeId],
    *,
    fixed: Collection[GroupId] = (),
    moves_max: int = MOVES_MAX,
) -> Generator[None, None, list[LeadMove]]:
    """Return the moves after which leads are even, in the order of the groups. No node leads more
    than one group above another then, as far as the members allow it. It is a generator, so that
    others have the event loop between two steps of some groups or moves.

    `takers`: the nodes that may lead more; others neither give nor take here. Groups in `fixed`
    count for who leads them, and stay. Who leads a group that is not in `members` counts as well.
    """
    leads = _Leads(members, takers, frozenset(fixed))
    for number, group_id in enumerate(sorted(leaders), start=1):
        leads.add(group_id, leaders[group_id])
        if number % STEP_GROUPS == 0:
            yield
    steps = paths = 0
    while steps < moves_max and (path := leads.path()) is not None:
        leads.move_along(path)
        steps += len(path) - 1
        paths += 1
        if paths % STEP_PATHS == 0:
            yield
    return [
        LeadMove(group_id, leaders[group_id], now)
        for group_id, now in sorted(leads.moved.items())
        if leaders[group_id] != now
    ]


def spread(counts: Collection[int]) -> int:
    """How many more groups the node leads that leads most than the one that leads least."""
    return max(counts, default=0) - min(counts, default=0)


class _Leads:
    """Who leads what while a plan is made."""

    def __init__(
        self,
        members: Mapping[GroupId, Sequence[NodeId]],
        takers: Collection[NodeId],
        fixed: frozenset[GroupId],
    ) -> None:
        self._members = members
        self._fixed = fixed
        self._counts = dict.fromkeys(sorted(takers), 0)
        self._ways: dict[NodeId, dict[NodeId, dict[GroupId, None]]] = {
            node: {} for node in self._counts
        }
        """By giver and taker: the groups that can go that way."""
        self.moved: dict[GroupId, NodeId] = {}

    def add(self, group_id: GroupId, leader: NodeId) -> None:
        """A group is led so."""
        if leader in self._counts:
            self._counts[leader] += 1
            if group_id not in self._fixed and group_id in self._members:
                self._led_by(group_id, leader)

    def _led_by(self, group_id: GroupId, leader: NodeId) -> None:
        for other in self._members[group_id]:
            if other != leader and other in self._counts:
                self._ways[leader].setdefault(other, {})[group_id] = None

    def path(self) -> list[NodeId] | None:
        """Return the nodes of the shortest chain of moves that makes the leads more even. It begins
        where as much is led as anywhere that can give; None: there is none."""
        for giver in sorted(self._counts, key=lambda node: (-self._counts[node], node)):
            found = self._path_from(giver)
            if found is not None:
                return found
        return None

    def _path_from(self, giver: NodeId) -> list[NodeId] | None:
        before: dict[NodeId, NodeId] = {giver: giver}
        level: deque[NodeId] = deque([giver])
        while level:
            following: list[NodeId] = []
            for node in level:
                for other, groups in sorted(self._ways[node].items()):
                    if groups and other not in before:
                        before[other] = node
                        following.append(other)
            least = min(following, key=lambda node: (self._counts[node], node), default=None)
            if least is not None and self._counts[least] + 1 < self._counts[giver]:
                return _back(before, least)
            level = deque(following)
        return None

    def move_along(self, path: Sequence[NodeId]) -> None:
        """One group goes from each node of the path to the next."""
        for giver, taker in pairwise(path):
            group_id = next(iter(self._ways[giver][taker]))
            for groups in self._ways[giver].values():
                groups.pop(group_id, None)
            self._led_by(group_id, taker)
            self.moved[group_id] = taker
        self._counts[path[0]] -= 1
        self._counts[path[-1]] += 1


def _back(before: Mapping[NodeId, NodeId], end: NodeId) -> list[NodeId]:
    path = [end]
    while before[path[-1]] != path[-1]:
        path.append(before[path[-1]])
    return path[::-1]
