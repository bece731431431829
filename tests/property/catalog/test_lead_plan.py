"""Plans of who should lead which group: valid, as even as the members allow, few moves, an end."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.catalog.lead_plan import STEP_GROUPS, STEP_PATHS, LeadMove, plan_steps, spread

Leaders = dict[GroupId, NodeId]
Members = dict[GroupId, tuple[NodeId, ...]]
Case = tuple[Leaders, Members, set[NodeId], set[GroupId]]
"""Who leads, who is a member, who takes leads, which groups stay."""


def plan_leads(*arguments: Any, **named: Any) -> list[LeadMove]:
    """The plan, whatever steps it takes."""
    return steps_of(*arguments, **named)[1]


def steps_of(*arguments: Any, **named: Any) -> tuple[int, list[LeadMove]]:
    """How often others had a turn before the plan was there, and the plan."""
    steps, turns = plan_steps(*arguments, **named), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return turns, end.value
        turns += 1


@st.composite
def cases(draw: st.DrawFn, nodes_max: int = 6, groups_max: int = 30) -> Case:
    nodes = [NodeId(n) for n in range(1, draw(st.integers(1, nodes_max)) + 1)]
    leaders: Leaders = {}
    members: Members = {}
    for number in range(1, draw(st.integers(0, groups_max)) + 1):
        chosen = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=3, unique=True))
        members[GroupId(number)] = tuple(chosen)
        leaders[GroupId(number)] = draw(st.sampled_from(chosen))
    takers = set(draw(st.lists(st.sampled_from(nodes), unique=True)))
    fixed = {GroupId(1)} if draw(st.booleans()) else set()
    return leaders, members, takers, fixed


def after(leaders: Leaders, moves: list[LeadMove]) -> Leaders:
    return leaders | {move.group_id: move.taker for move in moves}


def counts(leaders: Leaders, takers: set[NodeId]) -> Counter[NodeId]:
    found = Counter(dict.fromkeys(takers, 0))
    found.update(node for node in leaders.values() if node in takers)
    return found


def unevenness(leaders: Leaders, takers: set[NodeId]) -> int:
    return sum(count * count for count in counts(leaders, takers).values())


@given(cases())
@settings(max_examples=400, deadline=None)
def test_every_move_is_one_that_can_be_made_and_a_second_plan_has_none(case: Case) -> None:
    """From who leads now to another member, both of them takers, each group once; where the plan
    was carried out there is nothing left to do."""
    leaders, members, takers, fixed = case
    moves = plan_leads(leaders, members, takers, fixed=fixed)
    assert len({move.group_id for move in moves}) == len(moves)
    for move in moves:
        assert move.giver == leaders[move.group_id] != move.taker
        assert {move.giver, move.taker} <= takers
        assert move.taker in members[move.group_id]
        assert move.group_id not in fixed
    assert plan_leads(after(leaders, moves), members, takers, fixed=fixed) == []


@given(cases(nodes_max=4, groups_max=6))
@settings(max_examples=150, deadline=None)
def test_no_other_way_to_lead_is_more_even(case: Case) -> None:
    """Against all ways there are, where they can be counted; chains of moves are found too."""
    leaders, members, takers, fixed = case
    moves = plan_leads(leaders, members, takers, fixed=fixed)
    groups = sorted(leaders)
    choices = [
        [node for node in members[group] if node in takers]
        if leaders[group] in takers and group not in fixed
        else [leaders[group]]
        for group in groups
    ]
    best = min(
        (unevenness(dict(zip(groups, way, strict=True)), takers) for way in product(*choices)),
        default=0,
    )
    assert unevenness(after(leaders, moves), takers) == best


@given(st.lists(st.integers(1, 5), max_size=60), st.integers(1, 5))
@settings(max_examples=300, deadline=None)
def test_where_every_node_has_a_replica_nobody_leads_two_more_and_no_move_is_wasted(
    led_by: list[int], nodes: int
) -> None:
    """As many moves as there are leads above the even share, whoever keeps the odd ones."""
    everybody = tuple(NodeId(n) for n in range(1, nodes + 1))
    leaders = {GroupId(n + 1): NodeId(1 + by % nodes) for n, by in enumerate(led_by)}
    moves = plan_leads(leaders, dict.fromkeys(leaders, everybody), everybody)
    assert spread(counts(after(leaders, moves), set(everybody)).values()) <= 1
    before = sorted(counts(leaders, set(everybody)).values(), reverse=True)
    share, odd = divmod(len(leaders), nodes)
    needed = sum(max(led - share - (place < odd), 0) for place, led in enumerate(before))
    assert len(moves) == needed


def test_a_chain_of_moves_goes_round_nodes_that_share_no_group() -> None:
    """Node 1 leads three, node 2 two, node 3 one; nothing is on both 1 and 3."""
    n1, n2, n3 = (NodeId(n) for n in (1, 2, 3))
    groups = [GroupId(n) for n in range(1, 7)]
    leaders = dict(zip(groups, (n1, n1, n1, n2, n2, n3), strict=True))
    members: Members = {group: (n1, n2) if group < 4 else (n2, n3) for group in groups}
    moves = plan_leads(leaders, members, (n1, n2, n3))
    assert [(move.giver, move.taker) for move in moves] == [(n1, n2), (n2, n3)]


def test_a_plan_is_cut_and_the_next_goes_on() -> None:
    """A thousand groups on one node of three: plans of at most so many moves come to the end."""
    nodes = tuple(NodeId(n) for n in (1, 2, 3))
    leaders = {GroupId(n): nodes[0] for n in range(1, 1001)}
    members = dict.fromkeys(leaders, nodes)
    rounds = 0
    while moves := plan_leads(leaders, members, nodes, moves_max=100):
        assert len(moves) <= 100
        leaders, rounds = after(leaders, moves), rounds + 1
        assert rounds < 10
    assert rounds == 7
    assert spread(Counter(leaders.values()).values()) == 1


def test_a_plan_is_made_in_steps_whose_number_goes_with_its_groups_and_moves() -> None:
    """Groups that stay are steps as well: nobody waits for all of them at once."""
    nodes = tuple(NodeId(n) for n in (1, 2, 3))
    for groups in (STEP_GROUPS - 1, 10 * STEP_GROUPS):
        leaders = {GroupId(n): nodes[n % 3] for n in range(1, groups + 1)}
        assert steps_of(leaders, dict.fromkeys(leaders, nodes), nodes) == (
            groups // STEP_GROUPS,
            [],
        )
    leaders = {GroupId(n): nodes[0] for n in range(1, STEP_GROUPS)}
    turns, moves = steps_of(leaders, dict.fromkeys(leaders, nodes), nodes)
    assert turns == len(moves) // STEP_PATHS > 1
