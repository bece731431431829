"""What very many groups have to carry out at one moment is spread over turns of the event loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.base.log_ops import CreateReplica, RecoveredLog
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.group import Tick
from svc_cluster.raft.raft_settings import RaftSettings
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.group_turns import COMMANDS_PER_TURN, VISIT_COMMANDS, GroupTurns
from svc_cluster.replica.group_walks import GROUPS_PER_TURN
from svc_cluster.storage.wal.wal_settings import WalSettings
from svc_cluster.storage.wal.writer import Wal
from tests.at_once import encode_entry
from tests.memory_store import MemoryStore
from tests.unit.replica.leading import FAR
from tests.unit.replica.test_group import NoPeers
from tests.unit.storage.fakes import FakeDisk

VISITS = COMMANDS_PER_TURN // VISIT_COMMANDS
"""Visits of a turn in which nothing else is spent."""

GROUPS = 5 * VISITS + 3
ME = NodeId(1)

Check = Callable[["Line"], Coroutine[Any, Any, None]]


class Line:
    """A line on a loop of its own, and what was visited in each turn of the loop."""

    def __init__(self) -> None:
        self.faults: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.faults.append(context))
        self.turns = GroupTurns(loop)
        self.visited: list[int] = []

    def soon(self, number: int, commands: int = 0) -> None:
        def visit() -> None:
            assert self.turns.left > 0, "who is visited can do something"
            self.visited.append(number)
            self.turns.spend(commands)

        self.turns.soon(visit)

    async def rounds(self) -> list[list[int]]:
        found = []
        while len(self.turns):
            seen = len(self.visited)
            await asyncio.sleep(0)
            if self.visited[seen:]:
                found.append(self.visited[seen:])
        return found


def run(check: Check) -> None:
    async def main() -> None:
        await check(Line())

    asyncio.run(main())


def test_no_turn_has_more_visits_than_its_bound() -> None:
    """However many wait: each has one visit, in order."""

    async def check(line: Line) -> None:
        for number in range(GROUPS):
            line.soon(number)
        rounds = await line.rounds()
        assert [len(each) for each in rounds] == [VISITS] * 5 + [3]
        assert line.visited == list(range(GROUPS))

    run(check)


def test_few_visits_wait_for_no_second_turn() -> None:
    """A group that has the node to itself is visited in the next turn, as if there were no line."""

    async def check(line: Line) -> None:
        for number in range(VISITS):
            line.soon(number)
        await asyncio.sleep(0)
        assert (line.visited, len(line.turns)) == (list(range(VISITS)), 0)

    run(check)


def test_commands_of_all_groups_have_one_bound() -> None:
    """Who works out as much as a turn has is the last one of it, and the next goes on behind."""

    async def check(line: Line) -> None:
        line.soon(1, commands=COMMANDS_PER_TURN // 2)
        line.soon(2, commands=COMMANDS_PER_TURN)
        line.soon(3, commands=10 * COMMANDS_PER_TURN)
        line.soon(4)
        assert await line.rounds() == [[1, 2], [3], [4]]

    run(check)


def test_who_asks_in_a_turn_does_not_go_before_the_others() -> None:
    """Nor again in the same turn: what others wait for from the loop comes between."""

    async def check(line: Line) -> None:
        def again() -> None:
            line.visited.append(0)
            line.soon(9)

        line.turns.soon(again)
        line.soon(1)
        line.soon(2)
        assert await line.rounds() == [[0, 1, 2], [9]]

    run(check)


def test_a_visit_that_fails_harms_no_other() -> None:
    """The loop is told of it, and the line goes on."""

    async def check(line: Line) -> None:
        def breaks() -> None:
            raise ZeroDivisionError

        line.turns.soon(breaks)
        line.soon(1)
        assert await line.rounds() == [[1]]
        assert [type(each["exception"]) for each in line.faults] == [ZeroDivisionError]

    run(check)


@given(st.lists(st.integers(0, 3 * COMMANDS_PER_TURN), max_size=100))
def test_every_visit_comes_in_order_whatever_each_costs(costs: list[int]) -> None:
    """And no turn goes on behind the visit that used it up."""

    async def check(line: Line) -> None:
        for number, commands in enumerate(costs):
            line.soon(number, commands)
        rounds = await line.rounds()
        assert line.visited == list(range(len(costs)))
        for each in rounds:
            before_last = sum(costs[number] + VISIT_COMMANDS for number in each[:-1])
            assert before_last < COMMANDS_PER_TURN
        assert line.faults == []

    run(check)


class ManyGroups:
    """Replicas of so many groups of one, over one log, on a disk in the test's hands."""

    def __init__(self, count: int) -> None:
        loop = asyncio.get_running_loop()
        self.disk = FakeDisk()
        self.faults: list[BaseException] = []
        wal = Wal.open(self.disk, 1, WalSettings(segment_bytes=1 << 22))
        self.services = GroupServices(
            node_id=ME,
            loop=loop,
            clock=SystemClock(),
            wal=wal,
            store=MemoryStore(loop, random.Random(1)),
            peers=NoPeers(),
            log=get_logger("test"),
        )
        self.basins = [self._open(GroupId(number)) for number in range(1, count + 1)]
        self._now = 10.0

    def _open(self, group_id: GroupId) -> BasinReplica:
        generation = Generation(group_id)
        self.services.wal.append(group_id, [CreateReplica(generation)], None)

        def engine(applied_index: LogIndex) -> EngineGroup:
            return EngineGroup(
                group_id=group_id,
                node_id=ME,
                members=[ME],
                recovered=RecoveredLog(group_id, generation),
                applied_index=applied_index,
                rng=random.Random(group_id),
                settings=RaftSettings(),
            )

        return BasinReplica(
            make_engine=engine,
            generation=generation,
            services=self.services,
            record=lambda: None,
            on_sealed=lambda record: None,
            on_snapshot_wanted=lambda peer: None,
            on_fault=self.faults.append,
        )

    async def lead(self) -> None:
        while not all(basin.group.is_serving for basin in self.basins):
            self._now += 0.3
            for basin in self.basins:
                basin.group.step(Tick(self._now))
            await self.quiet()

    async def quiet(self) -> None:
        """Nothing waits for the loop or for the disk."""
        idle = 0
        while idle < 3:
            await asyncio.sleep(0)
            idle = 0 if len(self.services.turns) or self.disk.queue else idle + 1
            self.disk.run()

    def committed(self) -> list[int]:
        return [basin.group.engine.commit_index for basin in self.basins]

    def applied(self) -> list[int]:
        return [basin.group.applied_index for basin in self.basins]


def _moved(before: list[int], now: list[int]) -> list[int]:
    return [place for place, (a, b) in enumerate(zip(before, now, strict=True)) if a != b]


@pytest.mark.parametrize("in_each", [1, 4])
def test_one_sync_of_very_many_groups_is_dealt_with_in_turns(in_each: int) -> None:
    """Each group hears of it, commits and applies in its own turn, in the order in which they
    wrote; no turn has more of them than its bound. Those behind are as they were until then."""

    async def main() -> None:
        many = ManyGroups(GROUPS)
        await many.lead()
        acknowledged: list[int] = []
        entry = encode_entry([])
        before = many.applied()
        for number, basin in enumerate(many.basins):
            for _ in range(in_each):
                basin.group.propose(entry, FAR, lambda *_, n=number: acknowledged.append(n))
        while len(many.services.turns):
            await asyncio.sleep(0)  # they are written, and nothing is on the disk
        assert many.committed() == before
        # the first group's write went ahead; all others share the sync behind it
        many.disk.run()
        assert many.committed() == before, "the sync's own turn tells nobody"
        turns: list[list[int]] = []
        seen = before
        while len(many.services.turns):
            await asyncio.sleep(0)
            assert many.committed() == many.applied()
            turns.append(_moved(seen, many.applied()))
            seen = many.applied()
        assert seen == [index + in_each for index in before]
        assert [place for turn in turns for place in turn] == list(range(GROUPS))
        assert max(map(len, turns)) <= VISITS
        assert len(turns) >= GROUPS // VISITS
        assert sorted(acknowledged) == sorted(list(range(GROUPS)) * in_each)
        assert many.faults == []

    asyncio.run(main())


def test_a_replica_that_is_to_be_replaced_carries_out_what_the_disk_has() -> None:
    """Before it is frozen, without a turn of its own: what a sync covers was told to it."""

    async def main() -> None:
        many = ManyGroups(1)
        await many.lead()
        group = many.basins[0].group
        (before,) = many.applied()
        group.propose(encode_entry([]), FAR, lambda *_: None)
        group.drain_now()
        many.disk.run()
        assert many.committed() == [before]
        group.drain_now()
        assert many.committed() == [before + 1]
        await many.quiet()

    asyncio.run(main())


def test_a_group_that_is_stopped_hears_of_no_sync() -> None:
    """Also where it stood in the line already."""

    async def main() -> None:
        many = ManyGroups(2)
        await many.lead()
        before = many.applied()
        for basin in many.basins:
            basin.group.propose(encode_entry([]), FAR, lambda *_: None)
        while len(many.services.turns):
            await asyncio.sleep(0)
        many.disk.run()
        many.basins[0].stop()
        await many.quiet()
        assert many.committed() == [before[0], before[1] + 1]
        assert many.faults == []

    asyncio.run(main())


def test_what_queues_makes_entries_within_the_same_bound() -> None:
    """Changes of very many basins that arrive in one turn of the loop become entries in several."""

    async def main() -> None:
        many = ManyGroups(GROUPS)
        await many.lead()
        for basin in many.basins:
            basin.appender.change(lambda _: None, FAR, lambda *_: None)
        assert [basin.group.pending_proposals for basin in many.basins] == [0] * GROUPS
        rounds = 0
        while len(many.services.turns):
            rounds += 1
            await asyncio.sleep(0)
        assert rounds > GROUPS // VISITS
        await many.quiet()

    asyncio.run(main())


def test_ticks_of_idle_groups_keep_nobody_waiting() -> None:
    """A thousand idle groups tick, as many in a turn as a walk visits, and twenty propose in the
    middle of that: all of those are written within the turns that twenty visits take. A tick that
    leaves nothing to do stands in no line."""
    active, half = 20, 500

    async def main() -> None:
        many = ManyGroups(2 * half + active)
        await many.lead()
        busy, idle = many.basins[:active], many.basins[active:]
        now = FAR - 1  # the groups' own time: nothing is over by then

        async def turn(place: int) -> None:
            for basin in idle[place : place + GROUPS_PER_TURN]:
                basin.group.step(Tick(now))
            await asyncio.sleep(0)

        for place in range(0, half, GROUPS_PER_TURN):
            await turn(place)
        assert len(many.services.turns) == 0
        before = many.committed()
        for basin in busy:
            basin.group.propose(encode_entry([]), FAR, lambda *_: None)
        turns = 0
        for place in range(half, 2 * half, GROUPS_PER_TURN):
            await turn(place)
            turns += 1
            if len(many.services.turns) == 0:
                break
        assert turns <= -(-active // VISITS), "whoever has something to do waits for others' ticks"
        await many.quiet()
        assert _moved(before, many.committed()) == list(range(active))
        assert many.faults == []

    asyncio.run(main())
