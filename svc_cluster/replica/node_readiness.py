"""Whether a node is ready: the checks behind /readyz, and whether its directory is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from svc_cluster.replica.host import Host, Replica
from svc_cluster.replica.lost_replicas import is_mendable

if TYPE_CHECKING:
    from svc_cluster.replica.node import ReplicaNode

BACKLOG_MAX: Final = 1000
"""Committed entries that a group of a ready node may have still to apply, and one more."""


class NodeReadiness:
    """One look at a node; whoever goes over its groups tells it of each."""

    def __init__(self, node: ReplicaNode) -> None:
        self._node = node
        self._took_place = bool(node.former.formation.record.ordinal)
        self._are_caught_up = self._are_whole = True

    def look_at(self, replica: Replica) -> None:
        """Takes one replica into account."""
        if replica.group.backlog_entries >= BACKLOG_MAX:
            self._are_caught_up = False
        if _is_missed(self._node.host, replica, self._took_place):
            self._are_whole = False

    def checks(self) -> dict[str, bool]:
        """The checks by name."""
        node, host = self._node, self._node.host
        catalog = host.catalog
        return {
            "wal_recovered": True,
            "formed": node.former.formation.is_open and node.refusal() is None,
            "registered": node.registration.is_done,
            "catalog_leader_known": catalog is not None and catalog.group.engine.leader is not None,
            "groups_caught_up": host.reconciler.is_open and self._are_caught_up,
            "groups_whole": self._are_whole,
            "not_draining": not host.draining,
        }


def readiness(node: ReplicaNode) -> dict[str, bool]:
    """The checks by name, with one look at all groups that are awake. Those at rest are whole, and
    have applied all there is here."""
    look = NodeReadiness(node)
    for replica in node.host.services.rest.awake():
        look.look_at(replica)
    return look.checks()


def _is_missed(host: Host, replica: Replica, took_place: bool) -> bool:
    """Whether somebody waits for it to become whole: not for one that is lost for good."""
    return _mends(host, replica) if took_place else bool(replica.group.engine.recovery)


def _mends(host: Host, replica: Replica) -> bool:
    group = replica.group
    record = host.rows.trusted_record(group.group_id)
    return is_mendable(group, record, host.services.node_id)


def is_whole(host: Host, *, took_place: bool) -> bool:
    """Whether a directory that took a place has every replica that it can have again."""
    if not took_place:
        return True
    return (
        host.reconciler.is_open
        and not host.lost.are_possible
        and not any(_mends(host, replica) for replica in host.replicas())
    )
