"""Which nodes hold a new basin, by the rules of the planner. Pure; the catalog leader asks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from svc_cluster.base.errors import InvalidError, UnavailableError
from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.catalog_state import CatalogState
from svc_cluster.catalog.placement_loads import Load, weights
from svc_cluster.catalog.placement_model import PlacementNode
from svc_cluster.catalog.placement_rules import Spread


def check_wish(
    nodes: Sequence[PlacementNode],
    replication_factor: int | None,
    zones: frozenset[str] = frozenset(),
) -> None:
    """Raises InvalidError where a basin is asked for that has more replicas than there are nodes
    for them. They are of `zones` if there are any. A factor that nobody asked for is waited for."""
    there = [node for node in nodes if node.is_taking and (not zones or node.zone in zones)]
    if replication_factor is not None and replication_factor > len(there):
        where = f" in {', '.join(sorted(zones))}" if zones else ""
        raise InvalidError(
            f"{len(there)} nodes{where} take replicas, and the basin was to have "
            f"{replication_factor}"
        )


def place_basin(
    state: CatalogState,
    nodes: Sequence[PlacementNode],
    replication_factor: int,
    zones: frozenset[str] = frozenset(),
    loads: Mapping[NodeId, Load] = {},
) -> tuple[NodeId, ...]:
    """The least loaded nodes on different hosts and in different zones, the preferred leader first.
    They are of `zones` if there are any. Raises UnavailableError where too few nodes take
    replicas.

    Load is counted in replicas, and in the bytes and appends of `loads` where these are known;
    preferred leadership in leaders, so that basins made one after another are led by different
    nodes. Ties go to the lower id.
    """
    assert replication_factor > 0, "settings are validated at start"
    replicas = {node.node_id: 0 for node in nodes}
    leaders = dict(replicas)
    for record in state.basins.values():
        for place, node in enumerate(record.replicas):
            if node in replicas:
                replicas[node] += 1
                leaders[node] += place == 0
    weight = weights(replicas, loads)
    order = sorted(replicas, key=lambda n: (weight[n], leaders[n], n))
    chosen = Spread(nodes).choose(replication_factor, order, zones)
    if len(chosen) < replication_factor:
        raise UnavailableError(
            f"{len(chosen)} nodes take new basins, and one has {replication_factor} replicas"
        )
    return tuple(sorted(chosen, key=lambda n: (leaders[n], n)))
