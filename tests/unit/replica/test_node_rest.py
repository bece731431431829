"""Which groups of a node rest, and which of them wake because of another node."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId, Term
from svc_cluster.raft.messages import REST_LIST_MAX, Beat
from svc_cluster.raft.raft_settings import RaftSettings
from svc_cluster.replica.node_rest import (
    QUIET_TICK_SECONDS,
    VISIT_SECONDS,
    WAKE_SECONDS,
    WOKEN_PER_TURN,
    NodeRest,
)
from svc_cluster.replica.pulse import EXCUSED_SECONDS, SILENCE_SECONDS

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
MEMBERS = (ONE, TWO, THREE)


class _Rest:
    """A group's rest, as far as its node knows it."""

    def __init__(self, node: NodeRest, group_id: int, leader: NodeId | None) -> None:
        self.group_id, self.leader, self.term = GroupId(group_id), leader, Term(1)
        self.partners = (TWO, THREE) if leader == ONE else ()
        self.due = float("inf")
        self.woken: list[bool] = []
        self._node: Any = node

    def due_in(self) -> float:
        return self.due

    def wake(self, *, stands: bool) -> None:
        self.woken.append(stands)
        self._node.woke(self)


class _Node:
    """Node 1 of three, all of which are heard, and its time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.up = {TWO, THREE}
        self.log_bytes = 0
        loop: Any = SimpleNamespace(call_later=self._call_later)
        clock: Any = SimpleNamespace(monotonic=lambda: self.now)
        peers: Any = SimpleNamespace(send=None, names=lambda feature, peer: peer in self.up)
        self.rest = NodeRest(ONE, loop, clock, peers)
        self.rest.begin(5.0, (TWO, THREE), self.up.__contains__, _fail)
        self.hear(TWO, THREE)

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> Any:
        self.timers.append((self.now + seconds, callback))
        return SimpleNamespace(cancel=lambda: None)

    def hear(self, *nodes: NodeId) -> None:
        for node in nodes:
            self.rest.pulses[node].heard(Beat(1, 0, 0, lists=False), 0, 0, self.now)

    def lose(self, node: NodeId) -> None:
        self.up.discard(node)
        assert self.rest.pulses[node].link_down()
        self.rest.peer_lost(node)

    def sleeps(
        self, group_id: int, leader: NodeId | None, members: tuple[NodeId, ...] = MEMBERS
    ) -> _Rest:
        rest: Any = _Rest(self.rest, group_id, leader)
        group = SimpleNamespace(
            group_id=rest.group_id,
            engine=SimpleNamespace(members=members, log_bytes=self.log_bytes),
            rest=rest,
        )
        replica: Any = SimpleNamespace(group=group)
        self.rest.opened(replica)
        self.rest.slept(rest)
        found: _Rest = rest
        return found

    def passes(self, seconds: float) -> None:
        end = self.now + seconds
        while self.timers and min(at for at, _ in self.timers) <= end:
            self.timers.sort(key=lambda timer: timer[0])
            self.now, callback = self.timers.pop(0)
            callback()
        self.now = end


def _fail(fault: BaseException) -> None:
    raise fault


def test_what_rests_is_visited_when_it_is_due() -> None:
    """At the time that it says, seldom otherwise, and not with those that are awake."""
    node = _Node()
    seldom, soon = node.sleeps(4, TWO), _Rest(node.rest, 5, ONE)
    soon.due = 2.0
    other = node.sleeps(5, ONE)
    node.rest.woke(other)  # type: ignore[arg-type]
    assert [one.group.group_id for one in node.rest.awake()] == [5]
    node.rest.slept(soon)  # type: ignore[arg-type]
    node.rest._replicas[GroupId(5)].group.rest = soon  # type: ignore[assignment]
    assert node.rest.awake() == []
    assert node.rest.due(1.9) == []
    assert [one.group.group_id for one in node.rest.due(2.0)] == [5]
    assert node.rest.due(2.0) == []
    found = [one.group.group_id for one in node.rest.due(VISIT_SECONDS)]
    assert sorted(found) == [4, 5]
    assert seldom.woken == []


def test_a_lost_node_wakes_what_it_led_and_nothing_else() -> None:
    """What is led here goes on resting with the third node; what that leads too."""
    node = _Node()
    theirs, mine, others = node.sleeps(4, TWO), node.sleeps(5, ONE), node.sleeps(6, THREE)
    node.lose(TWO)
    node.passes(0.0)
    assert (len(theirs.woken), mine.woken, others.woken) == (1, [], [])


def test_a_leader_without_a_quorum_wakes() -> None:
    """With the second node that is lost."""
    node = _Node()
    mine = node.sleeps(5, ONE)
    node.lose(TWO)
    node.passes(1.0)
    assert mine.woken == []
    node.lose(THREE)
    node.passes(0.0)
    assert len(mine.woken) == 1


def test_a_node_that_is_back_wakes_what_is_led_here() -> None:
    """It may be damaged, and cannot say so to a leader that rests."""
    node = _Node()
    mine, others = node.sleeps(5, ONE), node.sleeps(6, THREE)
    node.rest.peer_back(TWO)
    node.passes(0.0)
    assert (len(mine.woken), others.woken) == (1, [])


def test_many_wake_in_turn() -> None:
    """Two hundred a second, each stood for by one of the nodes that are left."""
    node = _Node()
    groups = [node.sleeps(number, TWO) for number in range(100, 200)]
    node.lose(TWO)
    node.passes(0.0)
    assert sum(len(one.woken) for one in groups) == WOKEN_PER_TURN
    node.hear(THREE)
    node.passes(WAKE_SECONDS)
    assert sum(len(one.woken) for one in groups) == 2 * WOKEN_PER_TURN
    for _ in range(10):
        node.hear(THREE)
        node.passes(WAKE_SECONDS)
    assert [len(one.woken) for one in groups] == [1] * 100
    assert sum(one.woken[0] for one in groups) == 50
    assert WOKEN_PER_TURN / WAKE_SECONDS == 200


def test_who_is_to_wake_waits_once_however_often_that_is_said() -> None:
    """As a node with a full disk says it of all, twice a second; who wakes by itself does not
    wait, and whoever is behind does not wait for it."""
    node = _Node()
    groups = [node.sleeps(number, TWO) for number in range(100, 200)]
    for _ in range(50):
        node.rest.wake_all()
    assert len(node.rest._waking) == len(groups)
    for one in groups[:50]:
        one.wake(stands=False)
    assert list(node.rest._waking) == [one.group_id for one in groups[50:]]
    node.passes(4 * WAKE_SECONDS + 0.001)
    assert [len(one.woken) for one in groups] == [1] * 100
    assert not node.rest._waking


def test_what_was_opened_asleep_wakes_in_turn_what_is_stood_for_here_first() -> None:
    """A third of the groups is for each of three nodes to stand for. The others mostly wake by what
    those nodes ask; those that do not, because one of them is lost, wake behind the own ones."""
    node = _Node()
    groups = [node.sleeps(number, None) for number in range(120)]
    for one in groups:
        node.rest.wakes_in_turn(one)  # type: ignore[arg-type]
    assert node.rest.asleep == 120
    own, others = [groups[number::3] for number in (0, 1)]
    node.passes(3 * WAKE_SECONDS + 0.001)
    assert [one.woken for one in own] == [[True]] * 40
    assert not any(one.woken for one in groups if one not in own)
    for one in others:
        one.wake(stands=False)  # whose node has asked
    node.passes(3 * WAKE_SECONDS)
    left = groups[2::3]
    assert sum(len(one.woken) for one in left) == 3 * WOKEN_PER_TURN
    node.passes(WAKE_SECONDS)
    assert [one.woken for one in left] == [[False]] * 40, "they wait for a time-out"
    assert not node.rest._own and not node.rest._others and node.rest.asleep == 0


def test_what_was_opened_asleep_waits_for_a_quorum_that_can_be_asked() -> None:
    """It keeps nobody waiting who is to wake for another reason, and wakes when there is one."""
    node = _Node()
    node.up.clear()
    groups = [node.sleeps(number, None) for number in range(30)]
    for one in groups:
        node.rest.wakes_in_turn(one)  # type: ignore[arg-type]
    led = node.sleeps(100, TWO)
    node.passes(20 * WAKE_SECONDS)
    node.rest.peer_lost(TWO)
    node.passes(WAKE_SECONDS)
    assert led.woken and not any(one.woken for one in groups)
    node.up.add(THREE)
    node.passes(3 * WAKE_SECONDS)
    assert [len(one.woken) for one in groups] == [1] * 30


def test_who_waits_for_a_quorum_keeps_nobody_from_waking() -> None:
    """Two nodes of five are lost for good: groups that have both of them wait, however many they
    are and whoever is to stand for them, and all others wake."""
    node = _Node()
    lost = (NodeId(4), NodeId(5))
    waiting = [node.sleeps(5 * number, None, (ONE, *lost)) for number in range(30)]
    able = [node.sleeps(5 * number + 1, None, (ONE, TWO, lost[0])) for number in range(40)]
    for one in (*waiting, *able):
        node.rest.wakes_in_turn(one)  # type: ignore[arg-type]
    assert len(node.rest._own) > WOKEN_PER_TURN and node.rest._others
    node.passes(12 * WAKE_SECONDS)
    assert [len(one.woken) for one in able] == [1] * 40
    assert not any(one.woken for one in waiting)
    assert len(node.rest._own) + len(node.rest._others) == len(waiting)


def test_what_only_one_of_two_nodes_believes_wakes() -> None:
    """Here at once; what is not at rest here is told."""
    node = _Node()
    both, mine, older = node.sleeps(4, TWO), node.sleeps(5, TWO), node.sleeps(6, TWO)
    listed = [(GroupId(4), Term(1)), (GroupId(6), Term(2)), (GroupId(7), Term(1))]
    assert node.rest.listed(TWO, listed) == [6, 7]
    node.passes(0.0)
    assert (both.woken, len(mine.woken), len(older.woken)) == ([], 1, 1)


def test_everybody_who_lives_is_asked() -> None:
    """Who is lost is excused behind some silence, as long as the others are a quorum; and nobody
    rests while it is not known whether a member lives."""
    node = _Node()
    assert node.rest.partners(MEMBERS) == (TWO, THREE)
    node.lose(TWO)
    assert node.rest.partners(MEMBERS) is None
    node.now = EXCUSED_SECONDS
    node.hear(THREE)
    assert node.rest.partners(MEMBERS) == (THREE,)
    node.lose(THREE)
    node.now = 2 * EXCUSED_SECONDS
    assert node.rest.partners(MEMBERS) is None
    assert node.rest.partners((ONE,)) == ()


def test_a_node_that_is_connected_and_silent_is_not_excused() -> None:
    """Neither is one that takes no part."""
    node = _Node()
    node.now = SILENCE_SECONDS + EXCUSED_SECONDS
    node.hear(THREE)
    assert node.rest.pulses[TWO].falls_silent(node.now)
    assert node.rest.partners(MEMBERS) is None


@pytest.mark.parametrize("there", [REST_LIST_MAX - 1, REST_LIST_MAX])
def test_no_more_groups_rest_than_a_list_tells(there: int) -> None:
    """With one other node."""
    node = _Node()
    for number in range(there):
        node.rest.led[TWO].add(GroupId(number), Term(1))
    assert (node.rest.partners(MEMBERS) is None) == (there == REST_LIST_MAX)


def test_ticks_are_seldom_while_the_catalog_alone_is_awake() -> None:
    """One basin that wakes has its node's ticks as often as ever. Where nothing ever rests nothing
    changes, and ticks that are seldom by the settings stay so."""
    node = _Node()
    group = SimpleNamespace(group_id=CATALOG_GROUP)
    catalog: Any = SimpleNamespace(group=group)
    node.rest.opened(catalog)
    basin, _ = node.sleeps(4, TWO), node.sleeps(5, TWO)
    assert node.rest.tick_seconds(0.02) == QUIET_TICK_SECONDS
    beat = RaftSettings().heartbeat
    assert beat < QUIET_TICK_SECONDS < 1.1 * beat, "one heartbeat a tick, and hardly later"
    assert node.rest.tick_seconds(0.2) == 0.2
    node.rest.woke(basin)  # type: ignore[arg-type]
    assert node.rest.tick_seconds(0.02) == 0.02
    node.rest.slept(basin)  # type: ignore[arg-type]
    node.rest.seconds = 0.0
    assert node.rest.tick_seconds(0.02) == 0.02


def test_logs_at_rest_are_counted_without_going_over_them() -> None:
    """What each held when it fell asleep, or at its last visit, and what is awake holds now."""
    node = _Node()
    node.log_bytes = 100
    first, _ = node.sleeps(4, TWO), node.sleeps(5, ONE)
    assert node.rest.log_bytes() == 200
    engine: Any = node.rest._replicas[GroupId(5)].group.engine
    engine.log_bytes = 10
    assert node.rest.log_bytes() == 200
    node.rest.due(VISIT_SECONDS)
    assert node.rest.log_bytes() == 110
    node.rest.woke(first)  # type: ignore[arg-type]
    awake: Any = node.rest._replicas[GroupId(4)].group.engine
    awake.log_bytes = 7
    assert node.rest.log_bytes() == 17
    node.rest.slept(first)  # type: ignore[arg-type]
    assert node.rest.log_bytes() == 17


def test_groups_at_rest_of_one_kind_are_counted_as_they_come_and_go() -> None:
    """One stands for all that are led here with the same members, and their number is that of
    now."""
    node = _Node()
    node.sleeps(4, TWO)
    assert list(node.rest.one_led_of_each_kind()) == []
    first = node.sleeps(5, ONE)
    node.sleeps(6, ONE)
    [(replica, count)] = node.rest.one_led_of_each_kind()
    assert (replica.group.group_id, count) == (5, 2)
    node.rest.woke(first)  # type: ignore[arg-type]
    [(replica, count)] = node.rest.one_led_of_each_kind()
    assert (replica.group.group_id, count) == (6, 1)
    node.rest.closed(GroupId(6))
    assert list(node.rest.one_led_of_each_kind()) == []
