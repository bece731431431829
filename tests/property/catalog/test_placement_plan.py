"""Plans of where replicas go: valid, by the rules in their order, few moves, limits, an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.steps import at_once
from svc_cluster.catalog.placement_loads import LITTLE_APPENDS, LITTLE_BYTES, Load
from svc_cluster.catalog.placement_model import (
    NodeStanding,
    OpenChange,
    PlacementGroup,
    PlacementNode,
    PlacementPlan,
    PlannedChange,
    Policy,
    Reason,
)
from svc_cluster.catalog.placement_plan import plan_steps
from svc_cluster.catalog.placement_rules import Spread
from tests.benchmarks.placement import run

ROUNDS_MAX = 400
EXACT = Policy(slack_percent=0)
ZONES = {"north": frozenset({"a"}), "south": frozenset({"b", "c"})}


def plan(
    nodes: list[PlacementNode],
    groups: list[PlacementGroup],
    in_flight: Sequence[OpenChange] = (),
    policy: Policy = Policy(),
) -> PlacementPlan:
    """The plan, whatever steps it takes."""
    return at_once(plan_steps(nodes, groups, in_flight, policy))


Case = tuple[list[PlacementNode], list[PlacementGroup]]


@st.composite
def some_nodes(draw: st.DrawFn, most: int = 8) -> list[PlacementNode]:
    return [
        PlacementNode(
            NodeId(number),
            draw(st.sampled_from(["", "h1", "h2", "h3", "h4"])),
            draw(st.sampled_from(["a", "b", "c"])),
            draw(
                st.sampled_from(
                    [NodeStanding.ACTIVE] * 4 + [NodeStanding.DRAINING, NodeStanding.LOST]
                )
            ),
            draw(st.sampled_from([True, True, True, False])),
        )
        for number in range(1, draw(st.integers(1, most)) + 1)
    ]


@st.composite
def cases(draw: st.DrawFn, groups_max: int = 12) -> Case:
    nodes = draw(some_nodes())
    ids = [node.node_id for node in nodes]
    groups = []
    for number in range(2, 2 + draw(st.integers(0, groups_max))):
        size = min(draw(st.sampled_from([1, 3, 5])), len(ids))
        members = draw(st.lists(st.sampled_from(ids), min_size=size, max_size=size, unique=True))
        groups.append(
            PlacementGroup(
                GroupId(number),
                tuple(members),
                draw(st.sampled_from(["", "north", "south"])),
                Load(
                    draw(st.integers(0, 5)) * LITTLE_BYTES, draw(st.integers(0, 5)) * LITTLE_APPENDS
                ),
                draw(st.sampled_from([None, *members])),
                frozenset(draw(st.sampled_from([[], [], [], members[:1]]))),
            )
        )
    return nodes, groups


def applied(
    groups: Iterable[PlacementGroup], changes: Iterable[PlannedChange]
) -> list[PlacementGroup]:
    """The groups as they are once these changes are done; a lead stays where it can."""
    done = {change.group_id: change.members for change in changes}
    out = []
    for group in groups:
        members = done.get(group.group_id, group.members)
        leader = group.leader if group.leader in members else members[0]
        out.append(PlacementGroup(group.group_id, members, group.location, group.load, leader))
    return out


def begun(groups: list[PlacementGroup], found: PlacementPlan) -> list[PlacementGroup]:
    """All changes are done, and all leads handed over."""
    takers = {move.group_id: move.taker for move in found.transfers}
    return [
        replace(group, leader=takers.get(group.group_id, group.leader))
        for group in applied(groups, found.changes)
    ]


def to_the_end(
    nodes: list[PlacementNode], groups: list[PlacementGroup], policy: Policy
) -> tuple[list[PlacementGroup], list[PlannedChange]]:
    """Where plan after plan leads to, and the changes of all."""
    changes: list[PlannedChange] = []
    for _ in range(ROUNDS_MAX):
        found = plan(nodes, groups, (), policy)
        changes += found.changes
        if not (found.changes or found.transfers):
            assert found.is_empty, "it says that there is more, and begins none of it"
            return groups, changes
        groups = begun(groups, found)
    raise AssertionError("plans do not end")


def whole(groups: list[PlacementGroup]) -> list[PlacementGroup]:
    return [replace(group, recovering=frozenset()) for group in groups]


@given(cases())
@settings(max_examples=100, deadline=None)
def test_a_change_is_of_one_replica_to_a_node_that_takes_it_and_makes_nothing_worse(
    case: Case,
) -> None:
    """What it says of the members is what comes of them; a member that recovers goes first."""
    nodes, groups = case
    policy = Policy(ZONES)
    by_id = {group.group_id: group for group in groups}
    rules = Spread(nodes)
    for change in plan(nodes, groups, (), policy).changes:
        group = by_id[change.group_id]
        zones = policy.zones(group.location)
        assert rules.nodes[change.coming].is_taking
        assert change.coming not in group.members and change.leaving in group.members
        assert sorted(change.members) == sorted(
            {*group.members} - {change.leaving} | {change.coming}
        )
        assert not group.recovering or change.leaving in group.recovering
        before, after = rules.worth(group.members, zones), rules.worth(change.members, zones)
        assert after < before or (change.reason is Reason.BALANCE and after == before)


@given(cases())
@settings(max_examples=60, deadline=None)
def test_plans_end_where_no_single_replica_could_have_a_better_place(case: Case) -> None:
    """Above all no two replicas are on one host, and none on a node that drains or is lost, while
    another node could have it without a worse rule broken."""
    nodes, groups = case
    policy = Policy(ZONES)
    rules = Spread(nodes)
    end, _ = to_the_end(nodes, whole(groups), policy)
    for group in end:
        zones = policy.zones(group.location)
        now = rules.worth(group.members, zones)
        for gone in group.members:
            rest = [member for member in group.members if member != gone]
            for node in nodes:
                if node.is_taking and node.node_id not in group.members:
                    assert rules.worth([*rest, node.node_id], zones) >= now


@given(cases())
@settings(max_examples=40, deadline=None)
def test_the_same_question_has_the_same_answer_in_any_order_of_nodes(case: Case) -> None:
    nodes, groups = case
    assert plan(nodes, groups) == plan(list(reversed(nodes)), groups)


@given(st.integers(3, 7), st.integers(1, 60), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_new_nodes_get_their_share_with_as_few_moves_as_that_takes(
    count: int, basins: int, more: int
) -> None:
    """Loads are alike: as many replicas move as the nodes have too few, and nothing a second time;
    in the end no two differ by more than one."""
    nodes = [PlacementNode(NodeId(number)) for number in range(1, count + more + 1)]
    held: Counter[NodeId] = Counter({NodeId(number): 0 for number in range(1, count + 1)})
    groups = []
    for number in range(2, basins + 2):
        members = sorted(held, key=lambda node: (held[node], node))[:3]
        held.update(members)
        groups.append(PlacementGroup(GroupId(number), tuple(members), leader=members[0]))
    end, changes = to_the_end(nodes, groups, EXACT)
    after = Counter({node.node_id: 0 for node in nodes})
    after.update(member for group in end for member in group.members)
    assert max(after.values()) - min(after.values()) <= 1
    least = sum(max(0, after[node] - held[node]) for node in after)
    assert len(changes) == least
    assert {change.reason for change in changes} <= {Reason.BALANCE}


@given(cases(), st.data())
@settings(max_examples=60, deadline=None)
def test_limits_count_what_is_open(case: Case, data: st.DataObject) -> None:
    """One change a group, two replicas that come to a node, eight in all, open ones among them."""
    nodes, groups = case
    ids = [node.node_id for node in nodes]
    open_ones = [
        OpenChange(group.group_id, (data.draw(st.sampled_from(ids)),), group.members)
        for group in groups
        if data.draw(st.integers(0, 3)) == 0
    ][: EXACT.changes_max]
    found = plan(nodes, groups, open_ones, EXACT)
    all_groups = [one.group_id for one in open_ones]
    all_groups += [one.group_id for one in found.changes]
    assert len(set(all_groups)) == len(all_groups) <= EXACT.changes_max
    incoming = Counter(change.coming for change in found.changes)
    already = Counter(node for one in open_ones for node in one.coming)
    assert all(already[node] + many <= EXACT.incoming_max for node, many in incoming.items())
    assert not (open_ones and found.transfers), "leads follow when replicas have come to rest"


def test_what_is_more_urgent_is_begun_first() -> None:
    """Hosts, zones, repair, drain, balance: each group here lacks one of them."""
    spots = [("h1", "a"), ("h1", "a"), ("h2", "b"), ("h3", "a"), ("h4", "c"), ("h5", "c")]
    nodes = [PlacementNode(NodeId(n), *spot) for n, spot in enumerate(spots, start=1)]
    nodes += [
        PlacementNode(NodeId(7), "h7", "b", NodeStanding.DRAINING),
        PlacementNode(NodeId(8), "h8", "b", NodeStanding.LOST),
    ]
    wanted = [
        (5, (1, 2, 3), Reason.HOSTS),
        (4, (1, 3, 4), Reason.ZONES),
        (3, (1, 5, 8), Reason.REPAIR),
        (2, (1, 5, 7), Reason.DRAIN),
    ]
    groups = [
        PlacementGroup(GroupId(number), tuple(map(NodeId, members)))
        for number, members, _ in reversed(wanted)
    ]
    found = plan(nodes, groups)
    assert [(change.group_id, change.reason) for change in found.changes] == [
        (number, reason) for number, _, reason in wanted
    ]
    only = plan(nodes, groups, (), Policy(changes_max=1))
    assert only.changes == found.changes[:1] and only.has_more


def test_a_leader_stays_where_another_replica_can_go() -> None:
    nodes = [PlacementNode(NodeId(n), host) for n, host in enumerate(["h1", "h1", "h2", "h3"], 1)]
    members = (NodeId(1), NodeId(2), NodeId(3))
    for leader, gone in ((1, 2), (2, 1)):
        group = PlacementGroup(GroupId(2), members, leader=NodeId(leader))
        (change,) = plan(nodes, [group]).changes
        assert (change.leaving, change.coming) == (NodeId(gone), NodeId(4))


def test_a_basin_goes_to_the_zones_of_its_location_and_stays_there() -> None:
    """Also when the nodes elsewhere have nothing."""
    nodes = [PlacementNode(NodeId(n), "", zone) for n, zone in enumerate("aaabbb", start=1)]
    groups = [
        PlacementGroup(GroupId(2 + n), tuple(map(NodeId, (4, 5, 6))), "north") for n in range(4)
    ]
    end, changes = to_the_end(nodes, groups, Policy(ZONES))
    assert all(sorted(group.members) == [1, 2, 3] for group in end)
    assert len(changes) == 12


def test_leads_are_evened_out_when_replicas_have_come_to_rest() -> None:
    nodes = [PlacementNode(NodeId(n)) for n in (1, 2, 3)]
    members = tuple(NodeId(n) for n in (1, 2, 3))
    groups = [PlacementGroup(GroupId(2 + n), members, leader=NodeId(1)) for n in range(6)]
    end, changes = to_the_end(nodes, groups, Policy())
    assert not changes
    assert Counter(group.leader for group in end) == {1: 2, 2: 2, 3: 2}


def test_a_plan_of_many_groups_lets_others_have_their_turn() -> None:
    """No step does more than some tens of groups, or one move."""
    nodes = [PlacementNode(NodeId(n), f"h{n}") for n in range(1, 13)]
    members = [tuple(NodeId(1 + (n + k) % 10) for k in range(3)) for n in range(2000)]
    groups = [PlacementGroup(GroupId(2 + n), each) for n, each in enumerate(members)]
    policy = Policy(changes_max=64, incoming_max=64)
    turns = len(list(plan_steps(nodes, groups, (), policy)))
    found = plan(nodes, groups, (), policy)
    assert len(found.changes) == 64
    assert turns >= 2000 // 64 + 64 // 4


def test_the_benchmarks_paper_cluster_rests_grows_and_drains() -> None:
    """A small one; nothing is left out but what the limits hold back."""
    found = run(60, 2000, 400)
    at_rest, grown, many = found["at_rest"], found["grown"], found["grown_400_changes"]
    assert (at_rest["changes"], at_rest["has_more"]) == (0, False)
    assert (grown["changes"], grown["has_more"]) == (8, True)
    assert many["changes"] == 400
    assert (found["draining"]["changes"], found["draining"]["has_more"]) == (8, True)
