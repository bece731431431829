"""The catalog's leader knows what is open, and plans while somebody wants something."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId, ReplicaId, TimestampMs
from svc_cluster.base.steps_in_turns import in_turns
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.catalog.group_change import BeginChange, CancelChange, GroupChange
from svc_cluster.catalog.node_rows import NodeRecord, NodeState
from svc_cluster.catalog.own_group import CatalogGroup
from svc_cluster.catalog.placement_loads import NO_LOAD, Load
from svc_cluster.catalog.placement_model import (
    NodeStanding,
    PlacementNode,
    PlannedChange,
    Reason,
)
from svc_cluster.catalog.placement_queue import GONE_SECONDS, OpenMoves, PlacementQueue
from svc_cluster.catalog.placement_view import placement_nodes
from svc_cluster.model import versions
from svc_cluster.model.stream_config import BasinConfig
from svc_cluster.replica.node_questions import Leads, leaders_of_all, led_groups
from svc_cluster.replica.replica_moves import WISH_SECONDS, ReplicaMoves, _steps

NODES = {NodeId(n): NodeRecord(NodeId(n), f"i{n}", f"node-{n}:1") for n in range(1, 5)}
CHANGE = GroupChange(
    9, (NodeId(1), NodeId(2), NodeId(4)), (ReplicaId(1), ReplicaId(2), ReplicaId(10)), "planned: x"
)
BASIN = BasinRecord(
    "basin",
    GroupId(2),
    (NodeId(1), NodeId(2), NodeId(3)),
    BasinConfig(),
    TimestampMs(1),
    change=CHANGE,
)


NOBODY_LEADS = Leads({}, {}, {})


class World:
    """A host with a catalog that it leads, as far as the part looks at them."""

    def __init__(self, active: int = versions.SEALED_CONFIGURATIONS) -> None:
        self.now = 0.0
        self.asked: list[NodeId] = []
        self.commands: list[Any] = []
        self.term = 7
        state = SimpleNamespace(nodes=dict(NODES), basins_by_group={GroupId(2): BASIN})
        group = SimpleNamespace(is_serving=True, engine=SimpleNamespace(term=7))
        self.catalog = SimpleNamespace(
            state=state,
            group=group,
            version=SimpleNamespace(active=active),
            initial=tuple(NODES),
            offered=(),
            change=self._change,
            own_group=CatalogGroup(tuple(NODES)[:3]),
            group_row=self._row,
        )
        clock = SimpleNamespace(monotonic=lambda: self.now)
        log = SimpleNamespace(info=lambda *_, **__: None)
        services = SimpleNamespace(clock=clock, node_id=NodeId(1), log_of=lambda _: log)
        host: Any = SimpleNamespace(
            catalog=self.catalog,
            draining=False,
            services=services,
            is_peer_up=lambda node: node != 4,
            ask_any=self._ask,
        )
        self.moves = ReplicaMoves(host)

    def _row(self, group_id: GroupId) -> BasinRecord | CatalogGroup | None:
        own: CatalogGroup = self.catalog.own_group
        found: BasinRecord | None = self.catalog.state.basins_by_group.get(group_id)
        return own if group_id == CATALOG_GROUP else found

    async def _change(self, sequence: Any, deadline: float) -> None:
        command = sequence(0)
        if command is not None:
            self.commands.append(command)

    async def _ask(self, node: NodeId, *_: Any, **__: Any) -> None:
        self.asked.append(node)

    def look(self) -> None:
        asyncio.run(self.moves.look())


def test_who_comes_to_lead_the_catalog_knows_what_is_open() -> None:
    """It gives it up when its node has been away for long enough, and knows it anew in each term
    in which it leads."""
    world = World()
    world.look()
    assert [one.change_id for one in world.moves.progress.open] == [9]
    world.now = GONE_SECONDS - 1
    world.look()
    assert world.commands == []
    world.catalog.group.engine.term = 9
    world.look()
    world.now = GONE_SECONDS
    world.look()
    assert world.commands == [], "it is another leader, who counts anew"
    world.now = 2 * GONE_SECONDS
    world.look()
    assert world.commands == [CancelChange(GroupId(2), 9)]
    assert world.moves.progress.given_up == 1


def test_nothing_is_planned_while_nobody_wants_anything() -> None:
    """Neither without a wish or a node that is to be emptied, nor behind the time of the wish."""
    world = World()
    world.look()
    assert world.asked == []
    world.moves.wish()
    world.look()
    assert world.asked
    world.asked.clear()
    world.now = WISH_SECONDS + 1
    world.look()
    assert world.asked == []
    drained = replace(NODES[NodeId(3)], state=NodeState.DRAINING)
    world.catalog.state.nodes[NodeId(3)] = drained
    world.look()
    assert world.asked


def test_nothing_happens_before_the_version_or_where_another_node_leads() -> None:
    world = World(versions.SEALED_CONFIGURATIONS - 1)
    world.moves.wish()
    world.look()
    assert (world.asked, world.moves.progress.open) == ([], [])
    assert "version" in world.moves.progress.waits
    world = World()
    world.look()
    world.catalog.group.is_serving = False
    world.moves.wish()
    world.look()
    assert (world.asked, world.moves.progress.open) == ([], [])


def test_nothing_begins_while_a_node_is_being_replaced() -> None:
    world = World()
    world.catalog.state.nodes[NodeId(4)] = replace(NODES[NodeId(4)], is_replacing=True)
    world.moves.wish()
    world.look()
    assert world.asked == []
    assert world.moves.progress.waits == "node 4 is being replaced"


def test_what_others_ordered_is_known_as_soon_as_somebody_asks() -> None:
    """An operator's change is in no plan of this leader."""
    world = World()
    rows = world.catalog.state.basins_by_group
    rows[GroupId(2)] = replace(BASIN, change=None)
    world.look()
    assert world.moves.progress.open == []
    rows[GroupId(2)] = BASIN
    world.look()
    assert world.moves.progress.open == [], "only what it knows is looked at each second"
    asyncio.run(world.moves.refresh())
    assert [one.change_id for one in world.moves.progress.open] == [9]


@pytest.mark.parametrize(
    ("is_up", "begins"),
    [
        (lambda node: True, True),
        (lambda node: node != 3, False),
        (lambda node: node != 4, False),
        (lambda node: node != 1, True),
    ],
    ids=["all are there", "who stays is away", "who comes is away", "who leaves is away"],
)
def test_what_was_planned_begins_while_its_next_members_are_there(
    is_up: Callable[[NodeId], bool], begins: bool
) -> None:
    """A plan is made for many changes, of which a few are open: much may die in between."""
    world = World()
    world.catalog.state.nodes[NodeId(1)] = replace(NODES[NodeId(1)], state=NodeState.DRAINING)
    world.catalog.state.basins_by_group[GroupId(2)] = replace(BASIN, change=None)
    moves: Any = world.moves
    moves._host.is_peer_up = is_up
    moves._host.services.node_id = NodeId(9)
    moves._term = world.term
    moves._nodes = tuple(placement_nodes(world.catalog.state, world.catalog.initial))
    members = (NodeId(4), NodeId(2), NodeId(3))
    moves._queue = PlacementQueue(
        [PlannedChange(GroupId(2), NodeId(1), NodeId(4), members, Reason.DRAIN)]
    )
    world.look()
    assert [type(one) for one in world.commands] == ([BeginChange] if begins else [])


def test_of_two_drained_nodes_the_dead_one_is_left_first() -> None:
    """Leaving the other one would need the dead one's word."""
    catalog: Any = SimpleNamespace(
        state=SimpleNamespace(
            basins_by_group={GroupId(2): replace(BASIN, change=None)}, nodes=dict(NODES)
        ),
        offered=(),
        own_group=CatalogGroup((NodeId(2),)),
    )
    nodes = [
        PlacementNode(
            NodeId(n),
            standing=NodeStanding.DRAINING if n in (1, 3) else NodeStanding.ACTIVE,
            takes_more=n != 3,
        )
        for n in range(1, 6)
    ]
    steps = _steps(catalog, nodes, NOBODY_LEADS, {NodeId(3)}, OpenMoves(), everything=False)
    assert [one.leaving for one in asyncio.run(in_turns(steps)).changes] == [NodeId(3)]


def test_what_is_evened_out_is_what_the_leaders_say_that_groups_bear() -> None:
    """Two basins on the same nodes: the one that bears something stays, the other goes to a node
    that has nothing. Without loads one goes as well as the other."""
    rows = {
        GroupId(group): replace(BASIN, name=f"basin-{group}", group_id=GroupId(group), change=None)
        for group in (2, 3)
    }
    catalog: Any = SimpleNamespace(
        state=SimpleNamespace(basins_by_group=rows, nodes=dict(NODES)),
        offered=(),
        own_group=CatalogGroup((NodeId(2),)),
    )
    nodes = [PlacementNode(NodeId(n)) for n in range(1, 5)]
    for heavy in (2, 3):
        for load in (Load(1 << 30, 0), Load(0, 500)):
            leads = Leads({}, {}, {GroupId(heavy): load})
            steps = _steps(catalog, nodes, leads, (), OpenMoves(), everything=True)
            moved = asyncio.run(in_turns(steps)).changes
            assert {one.group_id for one in moved} == {5 - heavy}, "the other one"
            assert {one.coming for one in moved} == {NodeId(4)}


def test_an_open_change_of_votes_is_known_as_those_of_basins_are() -> None:
    """Whoever comes to lead the catalog gives it up where it was planned and leads nowhere."""
    world = World()
    world.catalog.own_group = CatalogGroup(tuple(NODES)[:3], change=replace(CHANGE, change_id=11))
    world.look()
    assert [(one.group_id, one.change_id) for one in world.moves.progress.open] == [(1, 11), (2, 9)]
    world.now = GONE_SECONDS
    world.look()
    assert world.commands == [CancelChange(CATALOG_GROUP, 11), CancelChange(GroupId(2), 9)]


def test_votes_become_fewer_only_with_nodes_that_are_there() -> None:
    """Node 4 is away. Of five votes one is drained, and three are left that are up, or none is
    taken away."""
    for drained, voters in ((3, None), (5, (1, 2, 3))):
        world = World()
        rows = {**NODES, NodeId(5): NodeRecord(NodeId(5), "i5", "node-5:1")}
        rows[NodeId(drained)] = replace(rows[NodeId(drained)], state=NodeState.DRAINING)
        if drained == 3:
            rows[NodeId(5)] = replace(rows[NodeId(5)], state=NodeState.DRAINING)
        world.catalog.state.nodes = rows
        world.catalog.state.basins_by_group = {}
        world.catalog.own_group = CatalogGroup(tuple(rows))
        world.look()
        begun = [one.replicas for one in world.commands if isinstance(one, BeginChange)]
        assert begun == ([] if voters is None else [voters])


def answering(pages: dict[int, list[pb.LedGroups] | None]) -> Any:
    """Nodes that give these pages one after another, the last one again and again; None: silent."""
    asked: Counter[int] = Counter()

    async def ask(node: NodeId, fill: Any, **_: Any) -> pb.Response | None:
        request = pb.Request()
        fill(request)
        found = pages[node]
        if found is None:
            return None
        asked[node] += 1
        assert asked[node] < 10, "it does not go on for ever"
        return pb.Response(led_groups=found[min(asked[node], len(found)) - 1])

    return ask


def test_a_node_that_repeats_itself_is_not_asked_for_ever() -> None:
    """Each page begins behind the one before."""
    pages = [pb.LedGroups(groups=[2, 3], has_more=True), pb.LedGroups(groups=[3], has_more=True)]
    found = asyncio.run(led_groups(answering({1: pages}), NodeId(1)))
    assert found == {2: NO_LOAD, 3: NO_LOAD}


def test_who_has_not_answered_is_told_of_with_the_loads() -> None:
    """Loads of some groups say nothing beside those that are not known."""
    page = pb.LedGroups(groups=[2], stored_bytes=[10], appends=[3])
    both = answering({1: [page], 2: [pb.LedGroups(groups=[5], stored_bytes=[1], appends=[0])]})
    leads = asyncio.run(leaders_of_all(both, [NodeId(1), NodeId(2)], with_loads=True))
    assert (leads.loads, leads.are_all) == ({2: Load(10, 3), 5: Load(1, 0)}, True)
    one = answering({1: [page], 2: None})
    leads = asyncio.run(leaders_of_all(one, [NodeId(1), NodeId(2)], with_loads=True))
    assert (leads.counts, leads.loads, leads.are_all) == ({1: 1}, {2: Load(10, 3)}, False)


@pytest.mark.parametrize("answers", [True, False], ids=["all answer", "one does not"])
def test_loads_weigh_where_every_node_has_told_them(answers: bool) -> None:
    """Otherwise what is moved is as if none were known: groups of the silent one are not idle."""
    world = World()
    rows = world.catalog.state.basins_by_group
    rows.clear()
    for group in (2, 3):
        rows[GroupId(group)] = replace(
            BASIN, name=f"basin-{group}", group_id=GroupId(group), change=None
        )
    heavy = pb.LedGroups(groups=[3], stored_bytes=[1 << 40], appends=[0])

    async def ask(node: NodeId, fill: Any, **_: Any) -> pb.Response | None:
        request = pb.Request()
        fill(request)
        if request.HasField("overview"):
            return pb.Response(overview=pb.NodeOverview(node_id=node, takes_appends=True))
        led = heavy if node == 1 else pb.LedGroups()
        return None if node == 2 and not answers else pb.Response(led_groups=led)

    moves: Any = world.moves
    moves._host.ask_any = ask
    moves._host.is_peer_up = lambda node: True
    world.moves.wish()
    world.look()
    moved = {one.group_id for one in world.commands if isinstance(one, BeginChange)}
    assert moved == ({2} if answers else {3}), "where all are alike the last one goes"
