"""What a command makes of the row of the group that changes its members; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from svc_cluster.base.configuration import CONFIGURATIONS_MAX, MEMBERS_MAX, configuration_of
from svc_cluster.base.ids import NodeId, ReplicaId, Term
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.catalog.group_change import (
    REASON_BYTES_MAX,
    AllowSeal,
    BeginChange,
    CancelChange,
    Configured,
    GroupChange,
    GroupRow,
)
from svc_cluster.catalog.node_rows import NodeRecord, lasting_nodes
from svc_cluster.catalog.own_group import CatalogGroup, why_it_stays

Row = TypeVar("Row", BasinRecord, CatalogGroup)
"""A row of either kind; what is made of one is of the same kind."""


def why_not_begun(
    record: GroupRow, nodes: Mapping[NodeId, NodeRecord], command: BeginChange
) -> str | None:
    """Why the change has no effect; None: it is begun. `nodes`: all rows of nodes."""
    wanted = command.replicas
    if record.deleted_at_ms is not None:
        return "the basin is being deleted"
    if record.change is not None:
        return "another change of its members is under way"
    if command.configuration != record.configuration:
        return f"the group is in configuration {record.configuration}"
    if record.configuration + 1 >= CONFIGURATIONS_MAX:
        return "the group has changed its members as often as it may"
    if not 0 < len(wanted) <= MEMBERS_MAX or len(set(wanted)) != len(wanted):
        return "these cannot be the members of a group"
    if len(command.reason.encode()) > REASON_BYTES_MAX:
        return f"the reason has more than {REASON_BYTES_MAX} bytes"
    unknown = sorted(set(wanted) - lasting_nodes(nodes))
    if unknown:
        return f"no node {unknown[0]} is registered"
    if set(wanted) == set(record.replicas):
        return "these are the members already"
    if (
        isinstance(record, CatalogGroup)
        and (reason := why_it_stays(record, nodes, wanted)) is not None
    ):
        return reason
    return _why_not_followed(record.replicas, wanted)


def _why_not_followed(now: Collection[NodeId], wanted: Collection[NodeId]) -> str | None:
    """The replicas that stay have to be a quorum of the next members by themselves, because they
    alone surely hold everything. From one to three there is no other way (raft/readiness.py)."""
    staying = len(set(now) & set(wanted))
    quorum = len(wanted) // 2 + 1
    if staying >= quorum or (staying == len(now) == 1 and len(wanted) == 3):
        return None
    return f"{staying} of the members stay, {quorum} are needed: change fewer of them at once"


def begun(record: Row, command: BeginChange, placement: int) -> tuple[Row, int]:
    """Return the row with the change, and the next number. It takes its own number and one for each
    replica on a node that has none. The others stay what they are."""
    known = dict(zip(record.replicas, record.placements, strict=True))
    change_id, next_one = placement, placement + 1
    replica_ids: list[ReplicaId] = []
    for node in command.replicas:
        if node not in known:
            known[node] = ReplicaId(next_one)
            next_one += 1
        replica_ids.append(known[node])
    change = GroupChange(change_id, command.replicas, tuple(replica_ids), command.reason)
    return replace(record, change=change), next_one


def moved_on(record: Row, command: CancelChange | AllowSeal | Configured) -> Row | str:
    """The row behind a step of its open change, or why the step has no effect."""
    match command:
        case CancelChange():
            return _cancelled(record, command)
        case AllowSeal():
            return _allowed(record, command)
        case Configured():
            return _configured(record, command)


def _allowed(record: Row, command: AllowSeal) -> Row | str:
    """The row once a leader has leave to seal, or why it has not."""
    change = record.change
    if change is None or change.change_id != command.change_id:
        return "no such change is open"
    if change.is_cancelled:
        return "the change is given up"
    if record.deleted_at_ms is not None:
        return "the basin is being deleted"
    if configuration_of(command.term) != record.configuration:
        return f"the group is in configuration {record.configuration}"
    if command.term < change.sealing_term:
        return "a later leader seals"
    return replace(record, change=replace(change, sealing_term=command.term))


def _cancelled(record: Row, command: CancelChange) -> Row | str:
    """The row behind a wish to give the change up, or behind the leader's word that it is. A seal
    can only be made in a term that got leave: where none did there is none, and where one did its
    leader, or a later one, has to say so. A leader whose first entry is committed without a seal
    in its log is one behind which no earlier seal can ever be committed."""
    change = record.change
    if change is None or change.change_id != command.change_id:
        return "no such change is open"
    if not change.sealing_term:
        return replace(record, change=None)
    if command.term == Term(0):
        return replace(record, change=replace(change, is_cancelled=True))
    if not change.is_cancelled:
        return "nobody wishes the change given up"
    if command.term < change.sealing_term:
        return "a later leader may have sealed"
    return replace(record, change=None)


def _configured(record: Row, command: Configured) -> Row | str:
    """The row once the next configuration has begun. Taken once, over the one before alone."""
    change = record.change
    if change is None or change.change_id != command.change_id:
        return "no such change is open"
    if command.configuration != record.configuration + 1:
        return f"the group is in configuration {record.configuration}"
    if not change.sealing_term:
        return "nobody had leave to seal"
    return replace(
        record,
        configuration=command.configuration,
        replicas=change.replicas,
        replica_ids=change.replica_ids,
        change=None,
    )
