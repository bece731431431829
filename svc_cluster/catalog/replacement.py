"""Whether the place of a node may be given to another directory, and what is lost by it; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.catalog_state import CatalogState
from svc_cluster.catalog.node_rows import replacing
from svc_cluster.catalog.own_group import CatalogGroup, why_no_place
from svc_cluster.model.formation import Asking

SINCE: Final = 3
"""The active version from which on a place is given away: older releases do not know the fence."""


def why_not_replaced(
    state: CatalogState,
    own: CatalogGroup,
    node_id: NodeId,
    asking: Mapping[NodeId, Asking],
    *,
    is_up: bool,
) -> str | None:
    """Return one sentence for an operator; None: it may be. `own`: who votes in the catalog, also
    where no row says so yet. `asking`: the nodes that came up with
    an empty directory; the one that is replaced has to be there now, because its directory gets the
    place for ever. `is_up`: the node takes part now."""
    active = state.active_version.now
    if active < SINCE:
        return (
            f"the cluster is at version {active}, and nodes are replaced from version {SINCE} on: "
            "finalize the upgrade first"
        )
    if node_id not in state.nodes:
        return f"no node {node_id} is registered"
    if is_up:
        return f"node {node_id} is up with its data directory: only one that is lost is replaced"
    no_place = why_no_place(own, node_id)
    if no_place is not None:
        return no_place
    asks = asking.get(node_id)
    if asks is None:
        return (
            f"node {node_id} has not come up with an empty data directory: start it with one, and "
            "ask again some seconds later"
        )
    if not asks.is_now:
        return (
            f"node {node_id} came up with an empty data directory, and is not there any more: "
            "start it with that one, and ask again some seconds later"
        )
    under_way = replacing(state.nodes)
    if under_way not in (None, node_id):
        return (
            f"node {under_way} is being replaced, and node {node_id} came up with an empty data "
            f"directory as well: a volume is probably not mounted; give node {node_id} its "
            f"directory back, or wait until node {under_way} is whole"
        )
    others = sorted(node for node in asking if node != node_id)
    if others:
        names = ", ".join(map(str, others))
        return (
            f"node {names} came up with an empty data directory as well as node {node_id}: a "
            "volume is probably not mounted; give it its directory back, or stop it until this "
            "node is whole"
        )
    return None


def why_not_unasked(
    state: CatalogState,
    own: CatalogGroup,
    node_id: NodeId,
    asking: Mapping[NodeId, Asking],
    whole: Mapping[NodeId, bool],
    nodes: Collection[NodeId],
    *,
    is_up: bool,
) -> str | None:
    """Why a node is not replaced without an operator, as one sentence; None: it may be. `whole`:
    the nodes that answer, and whether each of them has all that it should. `nodes`: all there are.
    """
    reason = why_not_replaced(state, own, node_id, asking, is_up=is_up)
    if reason is not None:
        return reason
    for other in sorted(nodes):
        if other != node_id and other not in whole:
            return (
                f"node {other} does not answer, and node {node_id} is replaced while all others do"
            )
        if other != node_id and not whole[other]:
            return f"node {other} is not whole itself: node {node_id} waits until it is"
    lost = lost_basins(state, node_id)
    if lost:
        return (
            f"with node {node_id} {len(lost)} basins are lost, {lost[0]} among them: bring its "
            f"data directory back, or say svc-cluster admin member replace {node_id} --yes"
        )
    return None


def lost_basins(state: CatalogState, node_id: NodeId) -> list[str]:
    """The basins of which no quorum is left without this node, in the order of their names."""
    return sorted(
        record.name
        for record in state.basins.values()
        if node_id in record.replicas and not _is_enough(len(record.replicas))
    )


def _is_enough(replicas: int) -> bool:
    """Whether all others of so many are a quorum."""
    return replicas - 1 > replicas // 2
