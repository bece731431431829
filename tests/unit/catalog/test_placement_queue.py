"""What begins next of a plan, and which open changes are given up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from svc_cluster.base.ids import GroupId, NodeId, ReplicaId, TimestampMs
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.catalog.group_change import BeginChange, GroupChange
from svc_cluster.catalog.node_rows import NodeRecord, NodeState
from svc_cluster.catalog.placement_model import CHANGES_MAX, PlannedChange, Reason
from svc_cluster.catalog.placement_queue import (
    GONE_SECONDS,
    PLANNED,
    SLOW_SECONDS,
    OpenMoves,
    PlacementQueue,
    Watched,
    command_for,
    watched,
)
from svc_cluster.model.stream_config import BasinConfig

NODES = {NodeId(n): NodeRecord(NodeId(n), f"i{n}", f"node-{n}:1") for n in range(1, 31)}


def ids(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, numbers))


def planned(group: int, coming: int, *, reason: Reason = Reason.DRAIN) -> PlannedChange:
    return PlannedChange(GroupId(group), NodeId(1), NodeId(coming), ids(coming, 2, 3), reason)


def opened(group: int, coming: int, *, reason: str = PLANNED + "drain") -> Watched:
    return Watched(GroupId(group), 1000 + group, ids(coming), ids(coming, 2, 3), reason, False)


def row(*replicas: int, change: GroupChange | None = None) -> BasinRecord:
    return BasinRecord(
        "basin", GroupId(2), ids(*replicas), BasinConfig(), TimestampMs(1), change=change
    )


def state(number: int, now: NodeState) -> dict[NodeId, NodeRecord]:
    return NODES | {NodeId(number): replace(NODES[NodeId(number)], state=now)}


def test_no_more_begins_than_may_be_open_in_all_and_come_to_one_node() -> None:
    """What is open counts, and the rest keeps its order."""
    queue = PlacementQueue([planned(group, 4) for group in range(10, 14)])
    assert [one.group_id for one in queue.take([opened(2, 4)])] == [10]
    assert queue.take([opened(2, 4), opened(10, 4)]) == []
    assert [one.group_id for one in queue.take([opened(10, 4)])] == [11]
    queue = PlacementQueue([planned(group, group) for group in range(4, 30)])
    full = [opened(group, 30) for group in range(40, 40 + CHANGES_MAX - 3)]
    assert [one.group_id for one in queue.take(full)] == [4, 5, 6]
    assert queue.take([*full, *(opened(n, n) for n in (4, 5, 6))]) == []
    assert len(queue) == 23


def test_a_group_of_which_a_change_is_open_is_left_to_the_next_plan() -> None:
    queue = PlacementQueue([planned(2, 4), planned(3, 5)])
    assert [one.group_id for one in queue.take([opened(2, 6)])] == [3]
    assert not len(queue)


def test_a_change_whose_node_is_gone_is_given_up_after_a_while() -> None:
    """Not one that an operator ordered, and not one whose node was back in between."""
    moves, up = OpenMoves(), {NodeId(node) for node in range(1, 10)} - {NodeId(4), NodeId(5)}
    by_hand = opened(8, 5, reason="planned by me")
    moves.see([opened(7, 4), by_hand], 0.0)
    assert moves.to_give_up(NODES, up.__contains__, 0.0) == []
    assert moves.to_give_up(NODES, up.__contains__, GONE_SECONDS - 1) == []
    assert moves.to_give_up(NODES, up.__contains__, GONE_SECONDS) == [opened(7, 4)]
    assert moves.to_give_up(NODES, lambda _: True, GONE_SECONDS) == []
    assert moves.to_give_up(NODES, up.__contains__, GONE_SECONDS + 1) == []
    moves.see([replace(opened(7, 4), is_given_up=True)], 2 * GONE_SECONDS + 1)
    assert moves.to_give_up(NODES, up.__contains__, 2 * GONE_SECONDS + 1) == []


def test_a_change_of_which_a_member_that_stays_is_gone_is_given_up_as_well() -> None:
    """It cannot be sealed without that one, and its place is for others."""
    moves = OpenMoves()
    change = opened(7, 4)
    moves.see([change], 0.0)
    stays = next(node for node in change.to if node not in change.coming)
    assert moves.to_give_up(NODES, lambda node: node != stays, 0.0) == []
    assert moves.to_give_up(NODES, lambda node: node != stays, GONE_SECONDS) == [change]


@pytest.mark.parametrize("now", [NodeState.DRAINING, NodeState.REMOVED])
def test_a_change_to_a_node_that_takes_nothing_more_is_given_up_at_once(now: NodeState) -> None:
    moves = OpenMoves()
    moves.see([opened(7, 4)], 0.0)
    assert moves.to_give_up(NODES, lambda _: True, 0.0) == []
    assert moves.to_give_up(state(4, now), lambda _: True, 0.0) == [opened(7, 4)]


def test_a_node_that_takes_long_to_take_something_in_is_told() -> None:
    """Counted from when it was seen first, and as long as it is open."""
    moves = OpenMoves()
    moves.see([opened(7, 4)], 10.0)
    moves.see([opened(7, 4), opened(8, 5)], 500.0)
    assert moves.slow(10.0 + SLOW_SECONDS) == set()
    assert moves.slow(11.0 + SLOW_SECONDS) == {4}
    moves.see([opened(8, 5)], 500.0)
    assert moves.slow(11.0 + SLOW_SECONDS) == set()


def test_a_planned_change_becomes_a_command_while_it_is_still_wanted() -> None:
    """The row is as it was planned for, the new node takes replicas, the old one still drains."""
    drained = state(1, NodeState.DRAINING)
    command = command_for(planned(2, 4), row(1, 2, 3), drained)
    assert command == BeginChange(GroupId(2), 0, ids(4, 2, 3), "planned: drain")
    assert command_for(planned(2, 4), None, drained) is None
    assert command_for(planned(2, 4), row(5, 2, 3), drained) is None
    assert (
        command_for(planned(2, 4), replace(row(1, 2, 3), deleted_at_ms=TimestampMs(2)), drained)
        is None
    )
    assert command_for(planned(2, 4), row(1, 2, 3), NODES) is None, "it is drained no more"
    assert command_for(planned(2, 4, reason=Reason.BALANCE), row(1, 2, 3), NODES) is not None
    both = drained | {NodeId(4): replace(NODES[NodeId(4)], state=NodeState.DRAINING)}
    assert command_for(planned(2, 4), row(1, 2, 3), both) is None
    change = GroupChange(9, ids(1, 2, 5), tuple(map(ReplicaId, (1, 2, 10))), "by hand")
    assert command_for(planned(2, 4), row(1, 2, 3, change=change), drained) is None


def test_what_is_open_is_told_by_its_row() -> None:
    assert watched(row(1, 2, 3)) is None
    change = GroupChange(9, ids(1, 2, 5), tuple(map(ReplicaId, (1, 2, 10))), "planned: balance")
    found = watched(row(1, 2, 3, change=change))
    assert found is not None
    assert (found.change_id, found.coming, found.is_planned) == (9, ids(5), True)
