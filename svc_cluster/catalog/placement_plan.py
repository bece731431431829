"""Which replicas move, and where to: what breaks a rule, then what evens the loads out. Pure.

It works on paper: open changes count as done, and each move that is found counts for the next.
Every move makes the worth of its group better, or leaves it and lessens the sum of the squares of
the loads by a whole number; so plans end, and where there is none left nothing moves any more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.catalog import lead_plan
from svc_cluster.catalog.placement_loads import SHARE, Load, weight_beside
from svc_cluster.catalog.placement_model import (
    NodeStanding,
    OpenChange,
    PlacementGroup,
    PlacementNode,
    PlacementPlan,
    PlannedChange,
    PlannedTransfer,
    Policy,
    Reason,
)
from svc_cluster.catalog.placement_rules import Spread, reason_of

STEP_GROUPS: Final = 64
STEP_MOVES: Final = 4
"""Groups that are looked at, and moves that are found, in one step of a plan."""

LIGHT_GROUPS: Final = 8 * STEP_GROUPS
"""Groups of which one step only takes note."""

FRUITLESS_MAX: Final = 64
"""Moves in a row that the limits do not let begin, after which no more are looked for."""

LOOKS_MAX: Final = 2048
"""Groups that are weighed for one move; a node that has none among them keeps its load."""


def plan_steps(
    nodes: Sequence[PlacementNode],
    groups: Sequence[PlacementGroup],
    in_flight: Collection[OpenChange] = (),
    policy: Policy = Policy(),
) -> Generator[int, None, PlacementPlan]:
    """Return what is to be begun now, with a pause behind some groups or moves. `nodes`: all there
    are, the lost ones too."""
    paper = _Paper(nodes, policy)
    yield from paper.take_in(groups, in_flight)
    limits = _Limits(policy, in_flight)
    fixes: dict[Reason, list[PlannedChange]] = {reason: [] for reason in sorted(Reason)}
    deferred = 0
    for number, group in enumerate(groups, start=1):
        if paper.is_fine(group):
            if number % STEP_GROUPS == 0:
                yield 1
            continue
        change = paper.fix(group)
        if change is not None:
            fixes[change.reason].append(change)
            deferred += not paper.is_fine(group)
        yield 1
    begun = yield from _admitted(fixes, limits)
    has_fixes = any(fixes.values())
    has_more = deferred + sum(map(len, fixes.values())) > len(begun)
    is_even = True
    if not has_more:
        for number, change in enumerate(paper.balance(), start=1):
            if change is None:
                yield 1
                continue
            is_even = False
            if limits.admit(change):
                begun.append(change)
            else:
                has_more = True
            if not limits.has_room or limits.fruitless >= FRUITLESS_MAX:
                has_more = True
                break
            if number % STEP_MOVES == 0:
                yield 1
    transfers: list[PlannedTransfer] = []
    if is_even and not has_fixes and not in_flight:
        # leads follow replicas: behind a change they are another node's matter
        transfers = yield from _transfers(paper, groups, policy)
    yield from paper.let_go()
    return PlacementPlan(
        tuple(begun), tuple(transfers), has_more or len(transfers) >= policy.transfers_max
    )


def _admitted(
    fixes: Mapping[Reason, Sequence[PlannedChange]], limits: _Limits
) -> Generator[int, None, list[PlannedChange]]:
    """What may begin, the most urgent reason first. Of one reason they were found in the order in
    which the groups are given."""
    begun: list[PlannedChange] = []
    for number, change in enumerate(chain.from_iterable(fixes.values()), start=1):
        if limits.admit(change):
            begun.append(change)
        if number % LIGHT_GROUPS == 0:
            yield 1
    return begun


def _transfers(
    paper: _Paper, groups: Sequence[PlacementGroup], policy: Policy
) -> Generator[int, None, list[PlannedTransfer]]:
    """Leads of nodes that keep theirs are evened out; those of the others are their own matter."""
    leaders: dict[GroupId, NodeId] = {}
    members: dict[GroupId, Sequence[NodeId]] = {}
    for number, group in enumerate(groups, start=1):
        members[group.group_id] = group.members
        if group.leader is not None:
            leaders[group.group_id] = group.leader
        if number % LIGHT_GROUPS == 0:
            yield 1
    takers = [node_id for node_id in paper.order if paper.spread.nodes[node_id].is_taking]
    steps = lead_plan.plan_steps(leaders, members, takers, moves_max=policy.transfers_max)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            moves: list[lead_plan.LeadMove] = end.value
            return [PlannedTransfer(move.group_id, move.giver, move.taker) for move in moves]
        yield 1


class _Limits:
    """How much may begin."""

    def __init__(self, policy: Policy, in_flight: Collection[OpenChange]) -> None:
        self._policy = policy
        self._open = len(in_flight)
        self._groups = {change.group_id for change in in_flight}
        self._incoming = Counter(node for change in in_flight for node in change.coming)
        self.fruitless = 0

    @property
    def has_room(self) -> bool:
        return self._open < self._policy.changes_max

    def admit(self, change: PlannedChange) -> bool:
        """Whether this one may begin now; it counts if so."""
        if (
            not self.has_room
            or change.group_id in self._groups
            or self._incoming[change.coming] >= self._policy.incoming_max
        ):
            self.fruitless += 1
            # what follows of the group is planned on top of this one
            self._groups.add(change.group_id)
            return False
        self.fruitless = 0
        self._open += 1
        self._groups.add(change.group_id)
        self._incoming[change.coming] += 1
        return True


class _Paper:
    """The cluster as it would be."""

    def __init__(self, nodes: Sequence[PlacementNode], policy: Policy) -> None:
        self.spread = Spread(nodes)
        self._policy = policy
        self._loads: dict[NodeId, int] = dict.fromkeys(sorted(self.spread.nodes), 0)
        self.order: list[NodeId] = []
        """The nodes, those with the least load first."""
        self._keys: list[tuple[int, NodeId]] = []
        self._held: dict[NodeId, list[tuple[int, GroupId]]] = {node: [] for node in self._loads}
        """What could leave each node, by weight."""
        self._members: dict[GroupId, tuple[NodeId, ...]] = {}
        self._zones: dict[GroupId, frozenset[str]] = {}
        self._weights: dict[GroupId, int] = {}
        self._open: set[GroupId] = set()
        self._moved: set[GroupId] = set()
        """Those of which the plan moves a replica: one at a time, so that they stay then."""

    def take_in(
        self, groups: Sequence[PlacementGroup], in_flight: Collection[OpenChange]
    ) -> Iterator[int]:
        """Where everything is, open changes counted as done."""
        opened = {change.group_id: change.members for change in in_flight}
        self._open = set(opened)
        count = len(groups) or 1
        stored = appends = 0
        for number, group in enumerate(groups, start=1):
            stored += group.load.stored_bytes
            appends += group.load.appends
            if number % LIGHT_GROUPS == 0:
                yield 1
        whole = Load(stored, appends)
        for number, group in enumerate(groups, start=1):
            group_id = group.group_id
            members = opened.get(group_id, group.members)
            weight = SHARE + weight_beside(group.load, whole, count)
            self._members[group_id] = members
            self._weights[group_id] = weight
            self._zones[group_id] = self._policy.zones(group.location)
            is_held = not (group_id in opened or group.is_fixed or group.recovering)
            for member in members:
                if member in self._loads:
                    self._loads[member] += weight
                    if is_held:
                        self._held[member].append((weight, group_id))
            if number % LIGHT_GROUPS == 0:
                yield 1
        for held in self._held.values():
            held.sort()
            yield 1
        self._keys = sorted((load, node) for node, load in self._loads.items())
        self.order = [node for _, node in self._keys]

    def let_go(self) -> Iterator[int]:
        """Give what it knows back in pieces: that of a large cluster is a turn of its own."""
        for held in self._held.values():
            held.clear()
            yield 1
        for table in (self._members, self._zones, self._weights):
            while table:
                for _ in range(min(len(table), LIGHT_GROUPS)):
                    table.popitem()
                yield 1

    def is_fine(self, group: PlacementGroup) -> bool:
        """Whether no rule wants anything of a group: nearly always, and quickly said."""
        group_id = group.group_id
        if group_id in self._open or group.is_fixed:
            return True
        members, zones = self._members[group_id], self._zones[group_id]
        return self.spread.is_fine(self.spread.worth(members, zones), len(members), zones)

    def fix(self, group: PlacementGroup) -> PlannedChange | None:
        """The first thing that the rules want of a group which is not fine: one replica's move."""
        group_id, zones = group.group_id, self._zones[group.group_id]
        members = self._members[group_id]
        kind = self.spread.kind(members, zones)
        if not group.recovering and self.spread.is_hopeless(kind):
            return None
        found = self.spread.best(members, self._leavers(group, members), self.order, zones)
        if found is None:
            if not group.recovering:
                self.spread.give_up(kind)
            return None
        leaving, coming = found
        after = self._replaced(members, leaving, coming)
        worth = self.spread.worth(members, zones)
        reason = reason_of(worth, self.spread.worth(after, zones))
        if leaving in group.recovering:
            reason = Reason.REPAIR
        self._move(group_id, leaving, coming)
        return PlannedChange(group_id, leaving, coming, after, reason)

    def _leavers(self, group: PlacementGroup, members: Sequence[NodeId]) -> list[NodeId]:
        """Who may go, those first whose going costs least: a leader last, the loaded before others.
        While a member recovers, nobody else goes."""
        able = [member for member in members if member in group.recovering] or list(members)
        return sorted(
            able, key=lambda node: (node == group.leader, -self._loads.get(node, 0), node)
        )

    def balance(self) -> Iterator[PlannedChange | None]:
        """Moves from the nodes with the most load to those with the least. None: a node was looked
        at that has nothing to give."""
        taking = [node for node in self.order if self.spread.nodes[node].is_taking]
        if len(taking) < 2:
            return
        mean = sum(self._loads[node] for node in taking) // len(taking)
        slack = mean * self._policy.slack_percent // 100
        stuck: set[NodeId] = set()
        while True:
            givers = (node for node in reversed(self.order) if self._may_give(node, stuck))
            giver = next(givers, None)
            if giver is None:
                return
            found = self._relief(giver, slack)
            if found is None:
                stuck.add(giver)
                yield None
                continue
            group_id, coming = found
            after = self._replaced(self._members[group_id], giver, coming)
            self._move(group_id, giver, coming)
            yield PlannedChange(group_id, giver, coming, after, Reason.BALANCE)

    def _may_give(self, node: NodeId, stuck: Collection[NodeId]) -> bool:
        """Draining and lost ones give by the rules; those that have no room give load as well."""
        return node not in stuck and self.spread.nodes[node].standing is NodeStanding.ACTIVE

    def _relief(self, giver: NodeId, slack: int) -> tuple[GroupId, NodeId] | None:
        """A group that the giver should have less, and who should have it."""
        load, looks, zone = self._loads[giver], 0, self.spread.nodes[giver].zone
        takers = [node for node in self.order if self.spread.nodes[node].is_taking]
        # within the zone first: what goes to another one would mostly break a rule there
        takers.sort(key=lambda node: self.spread.nodes[node].zone != zone)
        for taker in takers:
            apart = load - self._loads[taker]
            if apart <= slack:
                continue
            held = self._held[giver]
            # the taker is behind the giver still, or as far: so the squares become less
            for place in range(bisect_right(held, (apart // 2, 1 << 63)) - 1, -1, -1):
                group_id = held[place][1]
                members = self._members[group_id]
                if taker in members or group_id in self._moved:
                    continue
                looks += 1
                if self._may_go(group_id, members, giver, taker):
                    return group_id, taker
                if looks >= LOOKS_MAX:
                    return None
        return None

    def _may_go(
        self, group_id: GroupId, members: Sequence[NodeId], giver: NodeId, taker: NodeId
    ) -> bool:
        zones = self._zones[group_id]
        after = self._replaced(members, giver, taker)
        return self.spread.worth(after, zones) <= self.spread.worth(members, zones)

    @staticmethod
    def _replaced(members: Sequence[NodeId], leaving: NodeId, coming: NodeId) -> tuple[NodeId, ...]:
        return tuple(coming if member == leaving else member for member in members)

    def _move(self, group_id: GroupId, leaving: NodeId, coming: NodeId) -> None:
        weight = self._weights[group_id]
        self._moved.add(group_id)
        self._members[group_id] = self._replaced(self._members[group_id], leaving, coming)
        if leaving in self._loads:
            held = self._held[leaving]
            place = bisect_left(held, (weight, group_id))
            if place < len(held) and held[place] == (weight, group_id):
                del held[place]
            self._weigh(leaving, -weight)
        insort(self._held[coming], (weight, group_id))
        self._weigh(coming, weight)

    def _weigh(self, node: NodeId, weight: int) -> None:
        place = bisect_left(self._keys, (self._loads[node], node))
        del self._keys[place], self.order[place]
        self._loads[node] += weight
        key = (self._loads[node], node)
        place = bisect_left(self._keys, key)
        self._keys.insert(place, key)
        self.order.insert(place, node)
