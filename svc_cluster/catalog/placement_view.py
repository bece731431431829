"""The catalog as the planner of placement sees it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.catalog.catalog_state import CatalogState
from svc_cluster.catalog.node_rows import NodeRecord, NodeState
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


def placement_groups(
    state: CatalogState, leaders: Mapping[GroupId, NodeId]
) -> Iterator[PlacementGroup]:
    """The groups of the basins, in the order of their ids. A basin that is being deleted stays
    where it is, and so does one with a single replica: nobody else surely has what it holds."""
    for group_id in sorted(state.basins_by_group):
        record = state.basins_by_group.get(group_id)
        if record is None:
            continue  # it was removed between two steps
        yield PlacementGroup(
            group_id,
            record.replicas,
            record.location,
            leader=leaders.get(group_id),
            is_fixed=record.deleted_at_ms is not None or len(record.replicas) == 1,
        )


def open_changes(records: Iterable[BasinRecord]) -> list[OpenChange]:
    """The changes of members that have begun and are not over."""
    found = []
    for record in records:
        if record.change is not None:
            coming = tuple(node for node in record.change.replicas if node not in record.replicas)
            found.append(OpenChange(record.group_id, coming, record.change.replicas))
    return found
