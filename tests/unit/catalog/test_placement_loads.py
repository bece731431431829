"""What nodes bear is replicas, bytes and appends, each alike, and new basins go where least is."""

from __future__ import annotations

from collections.abc import Iterable

from svc_cluster.base.ids import GroupId, NodeId, TimestampMs
from svc_cluster.catalog.catalog_commands import CreateBasin
from svc_cluster.catalog.placement import place_basin
from svc_cluster.catalog.placement_loads import (
    LITTLE_APPENDS,
    LITTLE_BYTES,
    SHARE,
    STEP_GROUPS,
    Load,
    sum_steps,
    weights,
)
from svc_cluster.catalog.placement_model import PlacementNode
from svc_cluster.model.stream_config import BasinConfig
from tests.unit.catalog.support import Catalog

NODES = tuple(NodeId(number) for number in range(1, 5))


def much(stored: int, appends: int) -> Load:
    """So many times what weighs as much as a replica at least."""
    return Load(stored * LITTLE_BYTES, appends * LITTLE_APPENDS)


def pauses(steps: Iterable[int]) -> int:
    return sum(1 for _ in steps)


def test_all_bytes_weigh_what_all_replicas_do_and_so_do_all_appends() -> None:
    replicas = {NODES[0]: 3, NODES[1]: 1}
    found = weights(replicas, {NODES[0]: much(0, 30), NODES[1]: much(500, 10)})
    assert found == {NODES[0]: (3 + 0 + 3) * SHARE, NODES[1]: (1 + 4 + 1) * SHARE}
    assert sum(found.values()) == 3 * 4 * SHARE


def test_what_is_little_weighs_little() -> None:
    """A cluster with nearly nothing in it is no other than an empty one; what a replica has on an
    average must be so much for all of it to weigh what the replicas do."""
    replicas = {NODES[0]: 3, NODES[1]: 1}
    for load, more in (
        (Load(80_000, 0), 0),
        (Load(0, 1), SHARE // LITTLE_APPENDS),
        (Load(LITTLE_BYTES // 2, LITTLE_APPENDS // 2), SHARE),
        (much(1, 0), SHARE),
        (much(4, 0), 4 * SHARE),
        (much(40, 0), 4 * SHARE),
        (much(0, 40), 4 * SHARE),
    ):
        assert weights(replicas, {NODES[1]: load}) == {NODES[0]: 3 * SHARE, NODES[1]: SHARE + more}
    assert weights({}, {}) == {}


def test_without_loads_replicas_count_alone() -> None:
    assert weights({NODES[0]: 2, NODES[1]: 5}, {}) == {NODES[0]: 2 * SHARE, NODES[1]: 5 * SHARE}


def test_each_member_bears_all_of_a_group() -> None:
    """A group whose leader has not said what it bears adds nothing."""
    groups = [(GroupId(2), NODES[:3]), (GroupId(3), NODES[2:]), (GroupId(4), NODES[:1])]
    loads = {GroupId(2): Load(100, 5), GroupId(3): Load(10, 1)}
    found: dict[NodeId, Load] = {}
    assert pauses(sum_steps(groups, loads, found)) == 0
    assert found == {1: Load(100, 5), 2: Load(100, 5), 3: Load(110, 6), 4: Load(10, 1)}


def test_many_groups_are_added_up_with_pauses() -> None:
    groups = [(GroupId(2 + number), NODES[:1]) for number in range(3 * STEP_GROUPS)]
    found: dict[NodeId, Load] = {}
    assert pauses(sum_steps(groups, {GroupId(2): Load(1, 1)}, found)) == 3
    assert found == {1: Load(1, 1)}


def test_a_new_basin_goes_where_least_is_stored_and_appended() -> None:
    """Not to a node that bears more than others with as many replicas, but to one with a replica
    more where that weighs less. Where nothing is known, the lower id has it."""
    catalog, nodes = Catalog(), [PlacementNode(node) for node in NODES]
    for number, replicas in enumerate([(1, 2, 3), (2, 3, 4), (3, 4, 1), (4, 1, 2)]):
        members = tuple(map(NodeId, replicas))
        group_id = GroupId(2 + number)
        catalog.apply(
            CreateBasin(f"basin-{number}", group_id, members, BasinConfig(), TimestampMs(1))
        )

    def placed(**loads: Load) -> tuple[NodeId, ...]:
        known = {NodeId(int(name[1:])): load for name, load in loads.items()}
        return place_basin(catalog.state, nodes, 1, loads=known)

    assert placed() == (1,)
    assert placed(n1=much(9, 0)) == (2,)
    assert placed(n1=much(0, 9)) == (2,)
    assert placed(n1=much(1, 1), n2=much(0, 3), n3=much(2, 0), n4=much(1, 2)) == (1,)
    assert placed(n1=much(2, 1), n2=much(3, 2), n3=much(0, 3), n4=much(0, 0)) == (4,)
    catalog.apply(CreateBasin("one-more", GroupId(9), (NodeId(4),), BasinConfig(), TimestampMs(1)))
    assert placed(n1=much(5, 5), n2=much(5, 5), n3=much(5, 5)) == (4,), "it has the most replicas"
