"""A group falls asleep only where its node has a place for it with each of those who agreed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from svc_cluster.base.ids import GroupId, LogIndex, NodeId, Term
from svc_cluster.raft.group import Message, Role
from svc_cluster.raft.messages import REST_LIST_MAX, PreVoteRequest, RestKind, RestMark
from svc_cluster.replica.group_rest import (
    ANSWER_SECONDS,
    BRIEF_SECONDS,
    UNUSED_SECONDS,
    GroupRest,
)
from svc_cluster.replica.housekeeping import INTERVAL_SECONDS
from svc_cluster.replica.node_rest import NodeRest
from tests.unit.replica.test_node_rest import MEMBERS, ONE, THREE, TWO, _Node

TERM, LAST = Term(3), LogIndex(9)


def quiet(rest: NodeRest, clock: Any, number: int) -> GroupRest:
    """A group that is led here, and for which nothing is to be done."""
    engine = SimpleNamespace(
        log_bytes=0,
        role=Role.LEADER,
        term=TERM,
        last_index=LAST,
        members=MEMBERS,
        node_id=ONE,
        match_index=lambda peer: LAST,
    )
    group: Any = SimpleNamespace(
        group_id=GroupId(number),
        engine=engine,
        comparison=SimpleNamespace(are_equal=lambda partners: True),
        drain_now=lambda: None,
        is_settled=True,
        is_serving=True,
        stopped=False,
    )
    group.rest = GroupRest(group, rest, clock)
    group.rest.heed(lambda: False, lambda: float("inf"))
    rest.opened(SimpleNamespace(group=group))  # type: ignore[arg-type]
    return group.rest  # type: ignore[no-any-return]


def agreed(rest: GroupRest, *peers: NodeId) -> None:
    for peer in peers:
        rest.received(peer, RestMark(TERM, RestKind.AGREE, LAST, 1))


def test_of_groups_that_fall_asleep_at_once_no_more_do_than_a_list_tells() -> None:
    """Both have asked while there was one place left; who is agreed with first has it."""
    node = _Node()
    node.rest.send = lambda *said: None
    for number in range(REST_LIST_MAX - 1):
        node.rest.led[TWO].add(GroupId(number), Term(1))
    clock = SimpleNamespace(monotonic=lambda: node.now)
    groups = [quiet(node.rest, clock, REST_LIST_MAX + number) for number in range(2)]
    for now in (0.0, node.rest.seconds):
        node.now = now
        node.hear(TWO, THREE)
        for one in groups:
            one.look(now)
    for one in groups:
        agreed(one, TWO, THREE)
    assert [one.asleep for one in groups] == [True, False]
    assert len(node.rest.led[TWO]) == REST_LIST_MAX
    node.rest.woke(groups[0])
    groups[1].look(node.now)
    groups[1].received(TWO, RestMark(TERM, RestKind.AGREE, LAST, 2))
    groups[1].received(THREE, RestMark(TERM, RestKind.AGREE, LAST, 2))
    assert groups[1].asleep, "the place is free again"


def rests_after(seconds: float, used_s: float, *, is_unused: bool = False) -> float | None:
    """How long it is quiet until it rests, behind so many seconds in which something is asked of it
    each 0.1 s; None: it does not. `seconds`: its node's."""
    node = _Node()
    node.rest.send = lambda *said: None
    node.rest.seconds = seconds
    clock = SimpleNamespace(monotonic=lambda: node.now)
    group = quiet(node.rest, clock, 7)
    group.heed(lambda: False, lambda: float("inf"), lambda: is_unused)
    for number in range(600):
        node.now = number * 0.1
        node.hear(TWO, THREE)
        if node.now <= used_s:
            group.used()
        group.look(node.now)
        agreed(group, TWO, THREE)
        if group.asleep:
            return node.now - used_s
    return None


@pytest.mark.parametrize(
    ("seconds", "used_s", "is_unused", "wanted"),
    [
        (5.0, 0.0, False, BRIEF_SECONDS),
        (5.0, 0.7, False, BRIEF_SECONDS),
        (5.0, 3.0, False, 3.0),
        (5.0, 20.0, False, 5.0),
        (0.2, 20.0, False, 0.2),
        (0.0, 0.0, False, None),
        (5.0, 0.0, True, UNUSED_SECONDS),
        (5.0, 20.0, True, UNUSED_SECONDS),
        (0.2, 0.0, True, 0.2),
        (0.0, 0.0, True, None),
    ],
)
def test_a_group_rests_when_it_was_quiet_as_long_as_it_was_used(
    seconds: float, used_s: float, is_unused: bool, wanted: float | None
) -> None:
    """For a moment at least, and for the node's time at most. What nobody could use rests sooner.
    Where a node's groups do not rest, none does."""
    found = rests_after(seconds, used_s, is_unused=is_unused)
    assert found == (None if wanted is None else pytest.approx(wanted, abs=0.11))


def compared() -> tuple[_Node, GroupRest, list[Any], list[bool]]:
    """A group that was quiet for long enough, and has asked the others for their states; what it
    says to them, and whether they are equal."""
    node = _Node()
    said: list[Any] = []
    node.rest.send = lambda *one: said.append(one)
    clock = SimpleNamespace(monotonic=lambda: node.now)
    group = quiet(node.rest, clock, 7)
    equal = [False]
    begun: list[bool] = []
    comparison: Any = group._group.comparison
    comparison.are_equal = lambda partners: equal[0]
    comparison.begin = lambda: begun.append(True)
    for now in (0.0, node.rest.seconds):
        node.now = now
        node.hear(TWO, THREE)
        group.look(now)
    assert begun == [True] and said == []
    return node, group, said, equal


def test_who_is_found_to_be_equal_is_asked_at_once() -> None:
    """The next look at the group is half a second away. Who has not answered yet is waited for."""
    _, group, said, equal = compared()
    group.compared()
    assert said == [], "one of them has not answered"
    equal[0] = True
    group.compared()
    assert [(peer, mark.kind) for peer, _, mark in said] == [
        (TWO, RestKind.ASK),
        (THREE, RestKind.ASK),
    ]
    group.compared()
    assert len(said) == 2, "they are asked once"
    agreed(group, TWO, THREE)
    assert group.asleep


def test_a_question_lives_for_longer_than_what_a_look_has_left() -> None:
    """It is asked between two looks, and who has much to do answers behind the next one. Who never
    does is not waited for."""
    node, group, said, equal = compared()
    equal[0] = True
    node.now += INTERVAL_SECONDS - 0.1
    node.hear(TWO, THREE)
    group.compared()
    assert len(said) == 2
    node.now += 0.1
    node.hear(TWO, THREE)
    group.look(node.now)
    agreed(group, TWO, THREE)
    assert group.asleep

    node, group, said, equal = compared()
    equal[0] = True
    group.compared()
    node.now += ANSWER_SECONDS
    group.look(node.now)
    agreed(group, TWO, THREE)
    assert not group.asleep, "that question is over"


def test_states_that_were_compared_for_another_reason_put_nobody_to_rest() -> None:
    """The group was not quiet for long enough yet."""
    node = _Node()
    said: list[Any] = []
    node.rest.send = lambda *one: said.append(one)
    group = quiet(node.rest, SimpleNamespace(monotonic=lambda: node.now), 7)
    group.look(0.0)
    group.compared()
    assert said == []


@pytest.mark.parametrize("what", ["used", "unsettled", "lost"])
def test_equal_states_put_nobody_to_rest_who_is_not_to(what: str) -> None:
    """Something was asked of the group since, or is under way in it, or it is not known whether a
    node lives."""
    node, group, said, equal = compared()
    equal[0] = True
    if what == "used":
        group.used()
    elif what == "unsettled":
        group._group.is_settled = False  # type: ignore[misc]
    else:
        node.now += 1.0
    group.compared()
    assert said == [] and not group.asleep


def test_a_replica_that_was_opened_asleep_wakes_when_it_is_asked_or_told() -> None:
    """It knows of no leader: who asks it has it stand for election, a message only wakes it."""
    for wakes, stands in (("missed", True), ("message", False), ("used", False)):
        node = _Node()
        node.rest.send = lambda *said: None
        clock = SimpleNamespace(monotonic=lambda n=node: n.now)
        group = quiet(node.rest, clock, 6)
        campaigns: list[str] = []
        members: Any = group._group
        members.engine.role = Role.FOLLOWER
        members.engine.campaign = lambda: campaigns.append("stands")  # noqa: B023
        members.engine.standstill = SimpleNamespace(is_over=lambda now, *, leader_lives: None)
        members.engine.step = lambda event: None
        members.have = lambda done: done()
        group.begin()
        assert (group.asleep, group.leader, node.rest.asleep) == (True, None, 1)
        if wakes == "missed":
            group.missed()
        elif wakes == "message":
            group.hears(Message(TWO, PreVoteRequest(TERM, Term(TERM + 1), LAST, TERM)))
        else:
            group.used()
        assert (group.asleep, node.rest.asleep) == (False, 0)
        assert campaigns == ["stands"] * stands, wakes
        assert not (node.rest._waking or node.rest._own or node.rest._others)


@pytest.mark.parametrize("why", ["never rests", "unsettled", "busy"])
def test_who_has_something_to_do_is_not_opened_asleep(why: str) -> None:
    node = _Node()
    clock = SimpleNamespace(monotonic=lambda: node.now)
    group = quiet(node.rest, clock, 6)
    if why == "never rests":
        node.rest.seconds = 0.0
    elif why == "unsettled":
        group._group.is_settled = False  # type: ignore[misc]
    else:
        group.heed(lambda: True, lambda: float("inf"))
    group.begin()
    assert not group.asleep and node.rest.asleep == 0
