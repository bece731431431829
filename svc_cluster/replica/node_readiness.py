"""Whether a node is ready: the checks behind /readyz, and whether its directory is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svc_cluster.replica.host import Host, Replica
from svc_cluster.replica.lost_replicas import is_mendable

if TYPE_CHECKING:
    from svc_cluster.replica.node import ReplicaNode


def readiness(node: ReplicaNode) -> dict[str, bool]:
    """The checks by name."""
    host = node.host
    catalog = host.catalog
    took_place = bool(node.former.formation.record.ordinal)
    return {
        "wal_recovered": True,
        "formed": node.former.formation.is_open and node.refusal() is None,
        "registered": node.registered,
        "catalog_leader_known": catalog is not None and catalog.group.engine.leader is not None,
        "groups_caught_up": host.reconciler.is_open
        and all(replica.group.backlog_entries < 1000 for replica in host.replicas()),
        "groups_whole": not any(_is_missed(one, took_place) for one in host.replicas()),
        "not_draining": not host.draining,
    }


def _is_missed(replica: Replica, took_place: bool) -> bool:
    """Whether somebody waits for it to become whole: not for one that is lost for good."""
    if took_place:
        return is_mendable(replica.group)
    return bool(replica.group.engine.recovery)


def is_whole(host: Host, *, took_place: bool) -> bool:
    """Whether a directory that took a place has every replica that it can have again."""
    if not took_place:
        return True
    return (
        host.reconciler.is_open
        and not host.lost.are_possible
        and not any(is_mendable(replica.group) for replica in host.replicas())
    )
