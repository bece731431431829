"""Whether a node may be drained, and what is left on one that is. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.catalog_state import CatalogState
from svc_cluster.catalog.node_removal import held_by
from svc_cluster.catalog.node_rows import NodeState, is_active
from svc_cluster.model import versions


@dataclass(frozen=True, slots=True)
class DrainLeft:
    """What a node has by the catalog."""

    state: NodeState
    replicas: int
    """Basins with a replica there, and those of which one is on its way there; not those that go
    with the node."""
    alone: int
    """Those of them that have no other replica: no change of members takes it away."""


def drain_left(state: CatalogState, node_id: NodeId) -> DrainLeft | None:
    """None: no node of this id is registered."""
    record = state.nodes.get(node_id)
    if record is None:
        return None
    replicas, gone = held_by(node_id, state.basins.values())
    alone = sum(set(basin.replicas) == {node_id} for basin in state.basins.values())
    return DrainLeft(record.state, replicas, alone - len(gone))


def why_not_drained(state: CatalogState, node_id: NodeId, *, forced: bool) -> str | None:
    """Return one sentence for an operator; None: it may be. What `forced` leaves out: that others
    could have its replicas."""
    active = state.active_version.now
    if active < versions.DRAINING:
        return (
            f"the cluster is at version {active}, and nodes are drained from version "
            f"{versions.DRAINING} on: finalize the upgrade first"
        )
    record = state.nodes.get(node_id)
    if record is None:
        return f"no node {node_id} is registered"
    if record.state is NodeState.REMOVED:
        return f"node {node_id} was removed from the cluster"
    others = sum(is_active(one) for other, one in state.nodes.items() if other != node_id)
    widest = max(
        (len(basin.replicas) for basin in state.basins.values() if node_id in basin.replicas),
        default=0,
    )
    if widest > others and not forced:
        return (
            f"without node {node_id} {others} nodes take replicas, and a basin there has {widest}: "
            "its replicas have no other place; --force gives its leads away, and new basins wait"
        )
    return None
