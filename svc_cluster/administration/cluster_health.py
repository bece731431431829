"""What is wrong with a cluster, and what waits to be done in it, by what its nodes say. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster.catalog.lead_plan import spread

PROBLEMS_MAX: Final = 100
LAG_ENTRIES_MAX: Final = 1000
"""A node that has more committed entries to apply is behind."""
MEMORY_SHARE_MAX: Final = 0.9
"""A node that holds more of what it may is about to refuse requests."""
FREE_BYTES_MIN: Final = 1024 * 1024 * 1024


def problems(cluster: pb.ClusterResponse) -> list[str]:
    """One sentence each, what concerns all first; nobody has to read more than PROBLEMS_MAX."""
    return [*_of_all(cluster), *_of_nodes(cluster)][:PROBLEMS_MAX]


def _of_all(cluster: pb.ClusterResponse) -> Iterator[str]:
    answering = [node for node in cluster.nodes if node.release]
    if 2 * len(answering) <= len(cluster.nodes):
        yield (
            f"{len(answering)} of {len(cluster.nodes)} nodes answer, which is no majority: nothing "
            "is acknowledged until more are back; where they are lost for good, go on with what is "
            "left: svc-cluster admin recover --force-new-cluster"
        )
    if not cluster.catalog_leader:
        yield "nobody is known to lead the catalog: basins and access tokens cannot be changed"
    elif not cluster.active_version:
        yield f"node {cluster.catalog_leader}, which leads the catalog, does not answer for it"


def _of_nodes(cluster: pb.ClusterResponse) -> Iterator[str]:
    for node in cluster.nodes:
        who = f"node {node.node_id}"
        if not node.release:
            yield f"{who} at {node.address} does not answer: it is {node.standing}"
            continue
        if node.failed_checks and not node.draining:
            yield f"{who} is not ready: {', '.join(node.failed_checks)}"
        if node.groups_without_leader:
            yield f"{who} knows no leader of {_groups(node.groups_without_leader)}"
        if node.groups_held:
            yield (
                f"{who} has stopped or parked {_groups(node.groups_held)}: svc-cluster admin "
                f"status --node {node.node_id}"
            )
        if node.groups_recovering:
            yield f"{who} is making {_groups(node.groups_recovering)} whole"
        if node.groups_lost:
            yield (
                f"{who} has lost {_groups(node.groups_lost)} for good, with their only replica: "
                "delete these basins, or restore them from a backup"
            )
        if not node.takes_appends:
            yield f"{who} refuses appends: its disk has {_mib(node.free_bytes)} MiB free"
        elif node.free_bytes < FREE_BYTES_MIN:
            yield f"{who} has only {_mib(node.free_bytes)} MiB free on its disk"
        if node.lag_entries > LAG_ENTRIES_MAX:
            yield f"{who} has {node.lag_entries} entries of one group still to apply"
        if node.memory_bytes > MEMORY_SHARE_MAX * node.memory_bytes_max:
            yield (
                f"{who} holds {_mib(node.memory_bytes)} of {_mib(node.memory_bytes_max)} MiB in "
                "memory and refuses requests soon"
            )


def outstanding(cluster: pb.ClusterResponse) -> list[str]:
    """One sentence each: what somebody should do some time, and what is under way."""
    out = []
    if cluster.active_version < cluster.newest_version:
        out.append(
            f"version {cluster.active_version + 1} is not active: svc-cluster admin upgrade status"
        )
    releases = sorted({node.release for node in cluster.nodes if node.release})
    if len(releases) > 1:
        out.append(f"nodes run different releases: {', '.join(releases)}")
    out += [
        f"node {node.node_id} is drained: it leads nothing until it is started again"
        for node in cluster.nodes
        if node.draining
    ]
    out += [_drained(node) for node in cluster.nodes if node.state == "draining"]
    led = [node.groups_led for node in cluster.nodes if node.release and not node.avoids_leads]
    if spread(led) > 1:
        out.append(
            f"leads are uneven, from {min(led)} to {max(led)} a node: svc-cluster admin leader "
            "balance"
        )
    return out


def _drained(node: pb.ClusterNode) -> str:
    who = f"node {node.node_id}"
    more = f"svc-cluster admin node status {node.node_id}"
    if not node.release:
        return f"{who} drains and does not answer: what it leads is not known: {more}"
    if node.groups_led:
        return (
            f"{who} is being drained: {node.groups_led} leads and {node.replicas} replicas are "
            f"left on it: {more}"
        )
    if node.replicas:
        return (
            f"{who} is drained of leads: {node.replicas} replicas are left on it, which move where "
            f"others can have them: {more}"
        )
    if node.holds_catalog:
        return f"{who} is drained: it votes in the catalog, until another node can"
    return f"{who} is drained: nothing is left on it"


def _groups(count: int) -> str:
    return "1 group" if count == 1 else f"{count} groups"


def _mib(count: int) -> int:
    return count // (1024 * 1024)
