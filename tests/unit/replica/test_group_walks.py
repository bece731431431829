"""What is done to all groups of a node is done to a bounded number of them in each turn of the
loop, all that is under way side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from svc_cluster.base.ids import NodeId
from svc_cluster.raft.group import Event, PeerDown, PeerRoom, PeerUp
from svc_cluster.replica.group_walks import GROUPS_PER_TURN, GroupWalks
from svc_cluster.replica.peer_news import WAITING_PER_PEER_MAX, PeerNews

TURNS_MAX = 1000

Check = Callable[["Walking"], Coroutine[Any, Any, None]]


class Walking:
    """Walks on a loop of their own, and what they visited."""

    def __init__(self) -> None:
        self.faults: list[BaseException] = []
        self.walks = GroupWalks(asyncio.get_running_loop(), self.faults.append)
        self.visited: list[tuple[str, int]] = []
        self.done: list[str] = []

    def start(
        self,
        name: str,
        count: int,
        visit: Callable[[int], None] = lambda _: None,
        *,
        is_tick: bool = False,
    ) -> None:
        def each(group: int) -> None:
            self.visited.append((name, group))
            visit(group)

        self.walks.start(range(count), each, lambda: self.done.append(name), is_tick=is_tick)

    async def turns(self, names: int = 1) -> list[list[tuple[str, int]]]:
        """What each turn visited, until so many walks are done."""
        found = []
        seen = 0
        for _ in range(TURNS_MAX):
            if self.visited[seen:]:
                found.append(self.visited[seen:])
                seen = len(self.visited)
            if len(self.done) == names:
                return found
            await asyncio.sleep(0)
        raise AssertionError("the walks do not end")


def run(check: Check) -> None:
    async def main() -> None:
        await check(Walking())

    asyncio.run(main())


def test_no_turn_visits_more_groups_than_its_bound() -> None:
    """However many there are: each is visited once, in order, and then it is done."""

    async def check(walking: Walking) -> None:
        count = 10 * GROUPS_PER_TURN + 1
        walking.start("tick", count)
        turns = await walking.turns()
        assert [len(turn) for turn in turns] == [GROUPS_PER_TURN] * 10 + [1]
        assert walking.visited == [("tick", group) for group in range(count)]
        assert walking.done == ["tick"]

    run(check)


def test_few_groups_are_visited_at_once() -> None:
    """A node with few of them ticks as if there were no turns."""

    async def check(walking: Walking) -> None:
        walking.start("tick", GROUPS_PER_TURN)
        assert (len(walking.visited), walking.done) == (GROUPS_PER_TURN, ["tick"])
        walking.start("nobody", 0)
        assert walking.done == ["tick", "nobody"]

    run(check)


def test_walks_go_on_side_by_side_within_one_bound() -> None:
    """A tick does not wait for a long look at everything, and both have one bound together."""

    async def check(walking: Walking) -> None:
        walking.start("look", 100 * GROUPS_PER_TURN)
        walking.start("tick", 4 * GROUPS_PER_TURN)
        turns = []
        while "tick" not in walking.done:
            seen = len(walking.visited)
            await asyncio.sleep(0)
            turns.append(walking.visited[seen:])
        assert max(map(len, turns)) == GROUPS_PER_TURN
        assert len(turns) <= 10, "a tick has every other visit"
        assert walking.done == ["tick"]

    run(check)


async def _turns_of_a_tick(walking: Walking, count: int) -> int:
    """How many turns it has from now on, the one in which it began among them."""
    walking.start("tick", count, is_tick=True)
    turns = 0
    while "tick" not in walking.done:
        await asyncio.sleep(0)
        turns += 1
        assert turns < TURNS_MAX
    return max(1, turns)


def _opens(walks: GroupWalks, dear: int, _: int) -> None:
    walks.spend(dear)


@settings(phases=(Phase.generate,), max_examples=30, deadline=None)
@given(
    count=st.integers(1, 12 * GROUPS_PER_TURN),
    others=st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 40)), max_size=6),
)
def test_a_tick_has_at_most_twice_its_turns_whatever_else_walks(
    count: int, others: list[tuple[int, int]]
) -> None:
    """Also beside walks that open replicas, as dear as many visits each."""

    async def alone(walking: Walking) -> None:
        found.append(await _turns_of_a_tick(walking, count))

    async def beside(walking: Walking) -> None:
        for number, (groups, dear) in enumerate(others):
            walking.start(f"{number}", groups, partial(_opens, walking.walks, dear))
        found.append(await _turns_of_a_tick(walking, count))

    found: list[int] = []
    run(alone)
    run(beside)
    assert found[1] <= 2 * found[0]


@pytest.mark.parametrize("per_turn", [1, 2, 3, GROUPS_PER_TURN])
def test_every_kind_of_walk_goes_on_in_each_turn(
    monkeypatch: pytest.MonkeyPatch, per_turn: int
) -> None:
    """However few visits a turn has: ticks, of which there is always one, hold nobody up."""
    monkeypatch.setattr("svc_cluster.replica.group_walks.GROUPS_PER_TURN", per_turn)

    async def check(walking: Walking) -> None:
        walking.start("look", 200)
        walking.start("tick", 200, is_tick=True)
        for _ in range(3):
            seen = len(walking.visited)
            await asyncio.sleep(0)
            turn = [name for name, _ in walking.visited[seen:]]
            assert (set(turn), len(turn)) == ({"look", "tick"}, max(2, per_turn))

    run(check)


def test_a_dear_visit_leaves_room_for_fewer() -> None:
    async def check(walking: Walking) -> None:
        walking.start("open", 9, lambda _: walking.walks.spend(GROUPS_PER_TURN // 2))
        turns = await walking.turns()
        assert [len(turn) for turn in turns] == [2, 2, 2, 2, 1]

    run(check)


def test_a_walk_that_ends_may_begin_another_one() -> None:
    """Also from inside a turn: the loop has one turn of the walks at a time."""

    async def check(walking: Walking) -> None:
        count = 2 * GROUPS_PER_TURN
        walking.walks.start(
            range(count), lambda _: None, lambda: walking.start("second", count + 1)
        )
        turns = await walking.turns()
        assert max(map(len, turns)) <= GROUPS_PER_TURN
        assert walking.visited == [("second", group) for group in range(count + 1)]

    run(check)


def test_stopped_walks_visit_nobody_and_are_not_done() -> None:
    async def check(walking: Walking) -> None:
        walking.start("tick", 3 * GROUPS_PER_TURN)
        await asyncio.sleep(0)
        walking.walks.stop()
        seen = list(walking.visited)
        walking.start("later", 1)
        for _ in range(5):
            await asyncio.sleep(0)
        assert (walking.visited, walking.done) == (seen, [])

    run(check)


def test_what_escapes_a_visit_is_told_and_ends_that_walk_alone() -> None:
    async def check(walking: Walking) -> None:
        def breaks(group: int) -> None:
            if group == GROUPS_PER_TURN:
                raise ArithmeticError("planted")

        walking.start("breaks", 3 * GROUPS_PER_TURN, breaks)
        walking.start("goes on", 3 * GROUPS_PER_TURN)
        await walking.turns()
        assert walking.done == ["goes on"]
        assert [str(fault) for fault in walking.faults] == ["planted"]

    run(check)


class Told:
    """A replica that keeps what it is told."""

    def __init__(self) -> None:
        self.group = self
        self.engine = self
        self.can_propose = True
        self.heard: list[Event] = []

    def step(self, event: Event) -> None:
        self.heard.append(event)


PEER, OTHER = NodeId(2), NodeId(3)


@pytest.mark.parametrize("count", [GROUPS_PER_TURN, 3 * GROUPS_PER_TURN + 1])
def test_every_group_hears_of_a_peer_in_order(count: int) -> None:
    """That it came, went and came back; what nobody had heard of when it was over is left out."""

    async def check(walking: Walking) -> None:
        groups = [Told() for _ in range(count)]
        news = PeerNews(walking.walks, lambda: cast("Any", groups))
        news.up(PEER)
        news.up(OTHER)
        news.down(PEER)
        news.up(PEER)
        news.room(PEER)
        assert (news.is_up(PEER), news.peers_up) == (True, [PEER, OTHER])
        async with asyncio.timeout(30):
            while not all(PeerRoom(PEER) in group.heard for group in groups):
                await asyncio.sleep(0)
        of_peer = [PeerUp(PEER), PeerDown(PEER), PeerUp(PEER), PeerRoom(PEER)]
        for group in groups:
            assert [each for each in group.heard if each != PeerUp(OTHER)] == of_peer
            assert PeerUp(OTHER) in group.heard

    run(check)


def test_a_peer_that_comes_and_goes_has_a_bounded_number_of_news_waiting() -> None:
    """While a walk tells the first; and the last that every group hears is how it is."""

    async def check(walking: Walking) -> None:
        groups = [Told() for _ in range(2 * GROUPS_PER_TURN)]
        news = PeerNews(walking.walks, lambda: cast("Any", groups))
        for _ in range(50):
            news.up(PEER)
            news.room(PEER)
            news.down(PEER)
        assert len(news._waiting) <= WAITING_PER_PEER_MAX
        for _ in range(TURNS_MAX):
            await asyncio.sleep(0)
        for group in groups:
            assert group.heard[-1] == PeerDown(PEER)
            assert len(group.heard) <= 1 + WAITING_PER_PEER_MAX
        assert not news.is_up(PEER)

    run(check)
