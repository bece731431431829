"""The catalog as the planner of placement sees it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.catalog.catalog_state import CatalogState
from svc_cluster.catalog.group_change import GroupRow
from svc_cluster.catalog.node_rows import NodeRecord, NodeState, is_active
from svc_cluster.catalog.own_group import VOTES, CatalogGroup
from svc_cluster.catalog.placement_loads import NO_LOAD, Load
from svc_cluster.catalog.placement_model import (
    NodeStanding,
    OpenChange,
    PlacementGroup,
    PlacementNode,
)

_STANDINGS: Final = {
    NodeState.ACTIVE: NodeStanding.ACTIVE,
    NodeState.DRAINING: NodeStanding.DRAINING,
    NodeState.REMOVED: NodeStanding.LOST,
}


def placement_nodes(state: CatalogState, initial: Iterable[NodeId]) -> list[PlacementNode]:
    """All nodes that are registered, and those of the settings, in the order of their ids. Of one
    that has not registered nothing is known; it may have replicas all the same."""
    found = {node_id: PlacementNode(node_id) for node_id in initial}
    found |= {node_id: _node(record) for node_id, record in state.nodes.items()}
    return [node for _, node in sorted(found.items())]


def _node(record: NodeRecord) -> PlacementNode:
    facts = record.facts
    return PlacementNode(record.node_id, facts.host, facts.zone, _STANDINGS[record.state])


def zones_of(location: str, nodes: Iterable[PlacementNode]) -> frozenset[str]:
    """The zones that basins of a location belong to: the one of its name, where nodes are in such a
    zone; empty: all."""
    return frozenset({node.zone for node in nodes if node.zone and node.zone == location})


def leaving_catalog(
    own: CatalogGroup, nodes: Mapping[NodeId, NodeRecord], away: Collection[NodeId] = ()
) -> PlacementGroup | None:
    """The catalog's own group, where a node with a vote in it is drained or removed. Nothing else
    moves it, and it is no load: None, then. A single vote stays: nobody else surely has what it
    holds. `away`: nodes that do not answer."""
    leaves = [node for node in own.replicas if node in nodes and not is_active(nodes[node])]
    if not leaves or len(own.replicas) == 1:
        return None
    recovering = frozenset(node for node in own.replicas if node in away)
    return PlacementGroup(CATALOG_GROUP, own.replicas, recovering=recovering)


def fewer_votes(
    own: CatalogGroup, nodes: Mapping[NodeId, NodeRecord], away: Collection[NodeId] = ()
) -> tuple[NodeId, ...] | None:
    """Who votes in the catalog once a drained node has taken its vote along. So it is where no
    other node could have that vote, and there are enough without it; None: it goes on, or stays.
    Nodes that are `away` take no vote, and are the last to keep theirs."""
    others = [
        one
        for one in nodes.values()
        if is_active(one) and one.node_id not in own.replicas and one.node_id not in away
    ]
    stay = [node for node in own.replicas if node not in nodes or is_active(nodes[node])]
    if others or len(stay) == len(own.replicas):
        return None
    stay.sort(key=lambda node: node in away)
    votes = max((count for count in VOTES if count <= len(stay)), default=1)
    return tuple(stay[:votes]) if votes > 1 else None


def placement_groups(
    state: CatalogState,
    own: CatalogGroup,
    leaders: Mapping[GroupId, NodeId],
    loads: Mapping[GroupId, Load],
) -> Iterator[PlacementGroup]:
    """The groups of the basins, in the order of their ids, behind the catalog's own where that has
    to move. A basin that is being deleted stays where it is, and so does one with a single replica:
    nobody else surely has what it holds."""
    leaving = leaving_catalog(own, state.nodes)
    if leaving is not None:
        yield leaving
    for group_id in sorted(state.basins_by_group):
        record = state.basins_by_group.get(group_id)
        if record is None:
            continue  # it was removed between two steps
        yield PlacementGroup(
            group_id,
            record.replicas,
            record.location,
            load=loads.get(group_id, NO_LOAD),
            leader=leaders.get(group_id),
            is_fixed=record.deleted_at_ms is not None or len(record.replicas) == 1,
        )


def open_changes(records: Iterable[GroupRow]) -> list[OpenChange]:
    """The changes of members that have begun and are not over."""
    found = []
    for record in records:
        if record.change is not None:
            coming = tuple(node for node in record.change.replicas if node not in record.replicas)
            found.append(OpenChange(record.group_id, coming, record.change.replicas))
    return found
