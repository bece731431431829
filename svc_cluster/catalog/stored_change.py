"""An open change of a group's members, as the rows of the catalog have it."""

from __future__ import annotations

import msgspec

from svc_cluster.base.ids import NodeId, ReplicaId, Term
from svc_cluster.catalog.group_change import GroupChange


class StoredChange(msgspec.Struct, array_like=True):
    """The part of a row that says which change is open."""

    change_id: int
    replicas: list[int]
    replica_ids: list[int]
    reason: str
    sealing_term: int
    is_cancelled: bool


def stored_change(change: GroupChange | None) -> StoredChange | None:
    """Return what a row has of the change; None: it has none."""
    if change is None:
        return None
    return StoredChange(
        change.change_id,
        list(change.replicas),
        list(change.replica_ids),
        change.reason,
        change.sealing_term,
        change.is_cancelled,
    )


def change_of(stored: StoredChange | None) -> GroupChange | None:
    """Return the change that a row has, if it has one."""
    if stored is None:
        return None
    return GroupChange(
        stored.change_id,
        tuple(NodeId(n) for n in stored.replicas),
        tuple(ReplicaId(n) for n in stored.replica_ids),
        stored.reason,
        Term(stored.sealing_term),
        stored.is_cancelled,
    )
