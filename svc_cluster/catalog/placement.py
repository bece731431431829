"""The planner: which nodes hold a new basin. Pure; the catalog leader asks it."""

from __future__ import annotations

from collections.abc import Sequence

from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.catalog_state import CatalogState


def place_basin(
    state: CatalogState, nodes: Sequence[NodeId], replication_factor: int
) -> tuple[NodeId, ...]:
    """The least loaded nodes; the first of them is the preferred leader.

    Load is counted in replicas, preferred leadership in leaders, so that basins made one after
    another are led by different nodes. Ties go to the lower id.
    """
    assert 0 < replication_factor <= len(nodes), "settings are validated at start"
    replicas = dict.fromkeys(nodes, 0)
    leaders = dict.fromkeys(nodes, 0)
    for record in state.basins.values():
        for place, node in enumerate(record.replicas):
            if node in replicas:
                replicas[node] += 1
                leaders[node] += place == 0
    chosen = sorted(nodes, key=lambda n: (replicas[n], leaders[n], n))[:replication_factor]
    return tuple(sorted(chosen, key=lambda n: (leaders[n], n)))
