"""The catalog as the planner of placement sees it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from svc_cluster.base.errors import InvalidError, UnavailableError
from svc_cluster.base.ids import GroupId, NodeId, TimestampMs
from svc_cluster.base.steps import at_once
from svc_cluster.catalog.catalog_commands import (
    CreateBasin,
    DeleteBasin,
    DrainNode,
    RegisterNode,
)
from svc_cluster.catalog.group_change import BeginChange
from svc_cluster.catalog.node_facts import AnnouncedFacts
from svc_cluster.catalog.own_group import CatalogGroup
from svc_cluster.catalog.placement import check_wish, place_basin
from svc_cluster.catalog.placement_model import (
    NodeStanding,
    OpenChange,
    PlacementNode,
    Reason,
)
from svc_cluster.catalog.placement_plan import plan_steps
from svc_cluster.catalog.placement_view import (
    open_changes,
    placement_groups,
    placement_nodes,
    zones_of,
)
from svc_cluster.model.stream_config import BasinConfig
from tests.unit.catalog.support import Catalog

ALL = tuple(map(NodeId, (1, 2, 3, 4)))
THREE = ALL[:3]


def cluster() -> Catalog:
    """Four nodes, each on a machine of its own, in two zones; two basins, one of a replica."""
    catalog = Catalog()
    for node in ALL:
        facts = AnnouncedFacts(host=f"h{node}", zone="north" if node < 3 else "south")
        catalog.apply(RegisterNode(node, f"incarnation-{node}", "address", facts))
    for number, replicas in ((2, THREE), (3, ALL[:1])):
        catalog.apply(
            CreateBasin(f"basin-{number}", GroupId(number), replicas, BasinConfig(), TimestampMs(1))
        )
    return catalog


def test_nodes_are_told_with_hosts_zones_and_standings() -> None:
    """Those of the settings that never registered as well."""
    catalog = cluster()
    catalog.apply(DrainNode(ALL[1], True))
    nodes = placement_nodes(catalog.state, [*ALL, NodeId(9)])
    assert nodes == [
        PlacementNode(ALL[0], "h1", "north"),
        PlacementNode(ALL[1], "h2", "north", NodeStanding.DRAINING),
        PlacementNode(ALL[2], "h3", "south"),
        PlacementNode(ALL[3], "h4", "south"),
        PlacementNode(NodeId(9)),
    ]
    assert zones_of("south", nodes) == {"south"}
    assert zones_of("local", nodes) == zones_of("", nodes) == frozenset()


OWN = CatalogGroup(ALL[1:])
"""Nobody who votes in the catalog is drained."""


def test_a_new_basin_is_placed_on_no_node_that_drains() -> None:
    """Where too few are left it is refused."""
    catalog = cluster()
    catalog.apply(DrainNode(ALL[3], True))
    assert sorted(place_basin(catalog.state, placement_nodes(catalog.state, ALL), 3)) == [1, 2, 3]
    catalog.apply(DrainNode(ALL[0], True))
    with pytest.raises(UnavailableError):
        place_basin(catalog.state, placement_nodes(catalog.state, ALL), 3)


def test_a_basin_asks_for_no_more_replicas_than_there_are_nodes_for() -> None:
    """Of its zones, where there are such; the cluster's own number is waited for instead."""
    nodes = [
        PlacementNode(NodeId(n), zone="a" if n < 4 else "b", takes_more=n != 5) for n in range(1, 7)
    ]
    for factor in (None, 1, 3, 5):
        check_wish(nodes, factor)
    with pytest.raises(InvalidError, match="5 nodes take replicas, and the basin was to have 7"):
        check_wish(nodes, 7)
    check_wish(nodes, 3, frozenset({"a"}))
    check_wish(nodes, None, frozenset({"b"}))
    with pytest.raises(InvalidError, match="2 nodes in b take replicas"):
        check_wish(nodes, 3, frozenset({"b"}))


def test_what_drains_is_planned_away_and_what_is_open_counts_as_done() -> None:
    """A single replica stays, and so does what is being deleted."""
    catalog = cluster()
    catalog.apply(DrainNode(ALL[0], True))
    nodes = placement_nodes(catalog.state, ALL)
    groups = list(placement_groups(catalog.state, OWN, {GroupId(2): ALL[1]}, {}))
    assert [(group.is_fixed, group.leader) for group in groups] == [(False, 2), (True, None)]
    (change,) = at_once(plan_steps(nodes, groups)).changes
    assert (change.group_id, change.leaving, change.coming) == (2, 1, 4)
    assert change.reason is Reason.DRAIN
    catalog.apply(BeginChange(GroupId(2), 0, change.members, "drain"))
    opened = open_changes(catalog.state.basins.values())
    assert opened == [OpenChange(GroupId(2), (ALL[3],), change.members)]
    groups = list(placement_groups(catalog.state, OWN, {}, {}))
    assert at_once(plan_steps(nodes, groups, opened)).is_empty
    catalog.apply(DeleteBasin("basin-2", TimestampMs(2)))
    assert [group.is_fixed for group in placement_groups(catalog.state, OWN, {}, {})] == [
        True,
        True,
    ]
    assert all(not group.recovering for group in groups) and replace(groups[0]) == groups[0]
