"""A step of the planner looks at few groups, however many there are, and whatever it finds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.catalog.placement_model import NodeStanding, PlacementGroup, PlacementNode
from svc_cluster.catalog.placement_plan import LIGHT_GROUPS, plan_steps

GROUPS = 3 * LIGHT_GROUPS


class CountedGroups(list[PlacementGroup]):
    """Groups that count how many of them were looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[PlacementGroup]:
        for group in super().__iter__():
            self.looked_at += 1
            yield group


@pytest.mark.parametrize("standing", NodeStanding)
def test_no_step_looks_at_more_groups_than_its_limit(standing: NodeStanding) -> None:
    """With nothing to be done, and with a node that nearly all groups have to leave."""
    nodes = [
        PlacementNode(NodeId(n), standing=standing if n == 1 else NodeStanding.ACTIVE)
        for n in range(1, 8)
    ]
    groups = CountedGroups(
        PlacementGroup(GroupId(n), (NodeId(1), NodeId(2 + n % 3), NodeId(5 + n % 3)))
        for n in range(2, 2 + GROUPS)
    )
    steps = plan_steps(nodes, groups)
    most = steps_made = seen = 0
    for _ in steps:
        most, seen = max(most, groups.looked_at - seen), groups.looked_at
        steps_made += 1
    assert groups.looked_at - seen < LIGHT_GROUPS
    assert 0 < most <= LIGHT_GROUPS
    assert steps_made >= 3 * GROUPS // LIGHT_GROUPS
