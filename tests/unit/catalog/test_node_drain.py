"""Whether a node may be drained, and what is left on it."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import GroupId, NodeId, TimestampMs
from svc_cluster.catalog.catalog_commands import CreateBasin, DeleteBasin, DrainNode, RegisterNode
from svc_cluster.catalog.group_change import BeginChange
from svc_cluster.catalog.node_drain import DrainLeft, drain_left, why_not_drained
from svc_cluster.catalog.node_rows import NodeState
from svc_cluster.model.stream_config import BasinConfig
from tests.unit.catalog.support import Catalog
from tests.unit.catalog.test_active_version import NEXT, said

TWO, FOUR = NodeId(2), NodeId(4)


def cluster(nodes: int, *, is_active: bool = True) -> Catalog:
    """Two basins, one of three replicas and one of a single one, on the first nodes."""
    catalog = Catalog()
    for node in range(1, nodes + 1):
        catalog.apply(RegisterNode(NodeId(node), f"incarnation-{node}", "address"))
    if is_active:
        catalog.apply(said(*((node, NEXT) for node in range(1, nodes + 1))))
    for number, replicas in enumerate(((1, 2, 3), (2,)), start=2):
        members = tuple(map(NodeId, replicas))
        command = CreateBasin(
            f"basin-{number}", GroupId(number), members, BasinConfig(), TimestampMs(1)
        )
        catalog.apply(command)
    return catalog


def test_what_is_left_counts_replicas_that_come() -> None:
    """And those that have no other; until nothing is left."""
    catalog = cluster(4)
    assert drain_left(catalog.state, TWO) == DrainLeft(NodeState.ACTIVE, 2, 1)
    assert drain_left(catalog.state, FOUR) == DrainLeft(NodeState.ACTIVE, 0, 0)
    catalog.apply(BeginChange(GroupId(2), 0, tuple(map(NodeId, (1, 2, 4))), "why"))
    catalog.apply(DrainNode(FOUR, True))
    assert drain_left(catalog.state, FOUR) == DrainLeft(NodeState.DRAINING, 1, 0)
    assert drain_left(catalog.state, NodeId(9)) is None


@pytest.mark.parametrize(
    ("nodes", "drained", "node", "forced", "reason"),
    [
        (4, (), 2, False, None),
        (4, (4,), 2, False, "without node 2 2 nodes take replicas, and a basin there has 3"),
        (3, (), 2, False, "--force gives its leads away"),
        (3, (), 2, True, None),
        (4, (), 9, True, "no node 9 is registered"),
        (4, (2,), 2, False, None),
        (4, (2,), 4, False, None),
    ],
)
def test_a_node_is_drained_where_its_replicas_have_a_place_to_go_to(
    nodes: int, drained: tuple[int, ...], node: int, forced: bool, reason: str | None
) -> None:
    """Others that drain are no place; a node without replicas needs none."""
    catalog = cluster(nodes)
    for each in drained:
        catalog.apply(DrainNode(NodeId(each), True))
    why = why_not_drained(catalog.state, NodeId(node), forced=forced)
    assert (why is None) if reason is None else reason in (why or "")


def test_before_the_version_no_node_is_drained() -> None:
    why = why_not_drained(cluster(4, is_active=False).state, TWO, forced=True)
    assert why is not None and "finalize the upgrade first" in why


def test_a_deleted_basin_that_is_nowhere_else_is_not_left() -> None:
    """It goes with its node (`node_removal`), so that a dead one is empty in the end."""
    catalog = Catalog()
    for node in (1, 2):
        catalog.apply(RegisterNode(NodeId(node), f"{node}" * 32, "address"))
    at = TimestampMs(1)
    catalog.apply(CreateBasin("alone", GroupId(2), (TWO,), BasinConfig(), at))
    assert drain_left(catalog.state, TWO) == DrainLeft(NodeState.ACTIVE, 1, 1)
    catalog.apply(DeleteBasin("alone", at))
    assert drain_left(catalog.state, TWO) == DrainLeft(NodeState.ACTIVE, 0, 0)
