"""Rounds over those who wait at a tail: how many in a turn, and what one that fails does."""

from __future__ import annotations

import asyncio

from svc_cluster.base.errors import StreamNotFoundError
from svc_cluster.gateway.cluster.backend import ReadResult
from svc_cluster.gateway.records.tail_pushes import PUSHED_AT_ONCE, TailPushes
from tests.unit.gateway.scripted import records
from tests.unit.gateway.test_pushes import simulate


class Kept:
    """A tail that has everything up to `end_seq_num`."""

    def __init__(self) -> None:
        self.end_seq_num = 1

    def kept(self, at: int) -> ReadResult | None:
        return records(at, self.end_seq_num - at, tail=self.end_seq_num)


class Waiter:
    """Implements `Pushed`. Takes what it is given, or raises `failure`."""

    quiet_until = 0.0

    def __init__(self, turns: list[int], failure: Exception | None = None) -> None:
        self.at = 0
        self._turns = turns
        self._failure = failure

    def push(self, result: ReadResult) -> bool:
        if self._failure is not None:
            raise self._failure
        self.at = result.batches[-1].placement.end_seq_num
        self._turns[-1] += 1
        return True


def test_a_turn_of_the_loop_serves_so_many_and_no_more() -> None:
    """What comes while a round is under way is part of it, for each behind what he had; the order
    is everybody's own."""

    async def main() -> tuple[list[int], list[Waiter]]:
        loop, tail, turns = asyncio.get_running_loop(), Kept(), [0]
        pushes = TailPushes(tail)
        waiters = [Waiter(turns) for _ in range(5 * PUSHED_AT_ONCE)]
        for one in waiters:
            pushes.add(loop.create_future(), one)
        pushes.came()
        for number in range(20):
            await asyncio.sleep(0)
            if number == 2:
                tail.end_seq_num = 2
                pushes.came()
            turns.append(0)
        return turns, waiters

    turns, waiters = simulate(main())
    assert max(turns) == PUSHED_AT_ONCE
    assert all(one.at == 2 for one in waiters)


def test_what_a_push_raises_ends_one_wait_alone() -> None:
    """The others are served; who was cancelled is sent nothing any more."""

    async def main() -> tuple[BaseException | None, list[int]]:
        loop, turns = asyncio.get_running_loop(), [0]
        pushes = TailPushes(Kept())
        waiters = [Waiter(turns), Waiter(turns, StreamNotFoundError("gone")), Waiter(turns)]
        waiters.append(Waiter(turns))
        futures = [loop.create_future() for _ in waiters]
        for future, one in zip(futures, waiters, strict=True):
            pushes.add(future, one)
        futures[3].cancel()
        pushes.came()
        await asyncio.sleep(1)
        assert not futures[0].done() and not futures[2].done()
        return futures[1].exception(), [one.at for one in waiters]

    failure, places = simulate(main())
    assert isinstance(failure, StreamNotFoundError)
    assert places == [1, 0, 1, 0]
