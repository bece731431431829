"""How good a place is for a replica: the rules of spreading over hosts and zones. Pure.

What the members of a group are worth is a tuple that is compared member by member, the lower the
better: lost and draining members, members outside the location's zones, members that share a host,
the sum of the squares of the members in each zone. A change is planned only where it makes that
lower, or leaves it and evens the loads out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.placement_model import NodeStanding, PlacementNode, Reason

Worth = tuple[int, int, int, int, int]
"""Lost, draining, outside, on shared hosts, squares of zones."""


class Spread:
    """The rules for one set of nodes."""

    def __init__(self, nodes: Iterable[PlacementNode]) -> None:
        self.nodes: Mapping[NodeId, PlacementNode] = {node.node_id: node for node in nodes}
        staying = [node for node in self.nodes.values() if node.standing is NodeStanding.ACTIVE]
        self._zones = {node.zone for node in staying}
        self._hopeless: set[tuple[object, ...]] = set()
        """Kinds of members that no change makes better."""

    def worth(self, members: Sequence[NodeId], zones: frozenset[str]) -> Worth:
        """What these members are worth, for a group that belongs to these zones (empty: all)."""
        lost = draining = outside = shared = 0
        hosts: set[str] = set()
        in_zone: dict[str, int] = {}
        for member in members:
            node = self.nodes.get(member)
            if node is None or node.standing is NodeStanding.LOST:
                lost += 1
                continue
            draining += node.standing is NodeStanding.DRAINING
            outside += bool(zones) and node.zone not in zones
            host = node.host_name
            if host in hosts:
                shared += 1
            hosts.add(host)
            in_zone[node.zone] = in_zone.get(node.zone, 0) + 1
        return lost, draining, outside, shared, sum(count * count for count in in_zone.values())

    def is_fine(self, worth: Worth, size: int, zones: frozenset[str]) -> bool:
        """Whether no members could be worth more: without a look at any other node."""
        lost, draining, outside, shared, squares = worth
        if lost or draining or outside or shared:
            return False
        places = len(self._zones & zones if zones else self._zones) or 1
        each, more = divmod(size, places)
        return squares <= more * (each + 1) ** 2 + (places - more) * each**2

    def kind(self, members: Sequence[NodeId], zones: frozenset[str]) -> tuple[object, ...]:
        """Members of one kind have the same rules: what is hopeless for one is for all."""
        return zones, tuple(sorted(self._kind_of(member) for member in members))

    def _kind_of(self, member: NodeId) -> tuple[str, str, int, bool]:
        node = self.nodes.get(member)
        if node is None:
            return "", "", NodeStanding.LOST, False
        return node.host_name, node.zone, node.standing, node.is_taking

    def is_hopeless(self, kind: tuple[object, ...]) -> bool:
        return kind in self._hopeless

    def give_up(self, kind: tuple[object, ...]) -> None:
        self._hopeless.add(kind)

    def best(
        self,
        members: Sequence[NodeId],
        leavers: Sequence[NodeId],
        order: Iterable[NodeId],
        zones: frozenset[str],
    ) -> tuple[NodeId, NodeId] | None:
        """Return which of `leavers` to replace, and by which node; None: nothing is better so.
        Among equals it is the first leaver and the node that comes first in `order`."""
        best = self.worth(members, zones)
        size = len(members)
        found: tuple[NodeId, NodeId] | None = None
        rests = [(gone, [one for one in members if one != gone]) for gone in leavers]
        for node_id in order:
            if node_id in members or not self.nodes[node_id].is_taking:
                continue
            for gone, rest in rests:
                worth = self.worth([*rest, node_id], zones)
                if worth < best:
                    best, found = worth, (gone, node_id)
            if found is not None and self.is_fine(best, size, zones):
                break
        return found

    def choose(self, count: int, order: Sequence[NodeId], zones: frozenset[str]) -> list[NodeId]:
        """Return nodes for the replicas of a new group, fewer where not enough take any. It is one
        after another the one with which the members are worth most, the first in `order` among
        equals."""
        members: list[NodeId] = []
        left = [node_id for node_id in order if self.nodes[node_id].is_taking]
        while left and len(members) < count:
            best = min(left, key=lambda node_id: self.worth([*members, node_id], zones))
            members.append(best)
            left.remove(best)
        return members


def reason_of(before: Worth, after: Worth) -> Reason:
    """What a change makes better, the most urgent of it."""
    if after[3] < before[3]:
        return Reason.HOSTS
    if after[2] < before[2] or (after[:2] == before[:2] and after[4] < before[4]):
        return Reason.ZONES
    return Reason.REPAIR if after[0] < before[0] else Reason.DRAIN
