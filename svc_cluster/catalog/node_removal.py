"""What keeps a node from leaving the cluster, and what goes with it; pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.group_change import GroupRow

Row = TypeVar("Row", bound=GroupRow)


def held_by(node_id: NodeId, basins: Iterable[Row | None]) -> tuple[int, list[Row]]:
    """How many basins have a replica on the node, or are to have one, and those that go with it.

    These are deleted ones that were nowhere else. Only the node could seal them, so that a dead one
    would hold up their deletion, and they its removal.
    """
    there = [row for row in basins if row is not None and row.is_on(node_id)]
    gone = [row for row in there if row.deleted_at_ms is not None and _is_alone(row, node_id)]
    return len(there) - len(gone), gone


def _is_alone(row: GroupRow, node_id: NodeId) -> bool:
    return row.change is None and set(row.replicas) == {node_id}
