"""The threads that wait for the disk: few, in order, behind a queue that has an end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from svc_cluster.storage.read_pool import ReadPool, ReadPoolSettings
from svc_cluster.storage.state_store import StoreBusyError


class Gate:
    """A disk that answers when it is told to."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.open = threading.Event()
        self.names: list[str] = []

    def job(self, name: str) -> Callable[[], str]:
        def read() -> str:
            self.names.append(name)
            self.begun.release()
            assert self.open.wait(20)
            return name

        return read


def with_pool(main: Callable[[ReadPool, Gate], Awaitable[None]]) -> None:
    async def run() -> None:
        pool = ReadPool(asyncio.get_running_loop(), ReadPoolSettings(threads=1, waiting_max=2))
        gate = Gate()
        try:
            await main(pool, gate)
        finally:
            gate.open.set()
            pool.close()

    asyncio.run(run())


def test_reads_are_made_in_order_and_one_too_many_is_refused() -> None:
    """One at the disk, two waiting: the next is refused at once and counted; behind them there is
    room again. Each wait is told."""

    async def main(pool: ReadPool, gate: Gate) -> None:
        waits: list[float] = []
        pool.on_wait = waits.append
        first = pool.submit(gate.job("a"))
        assert gate.begun.acquire(timeout=20)
        others = [pool.submit(gate.job(name)) for name in "bc"]
        assert pool.waiting == 2
        with pytest.raises(StoreBusyError):
            _ = pool.submit(gate.job("d"))
        assert pool.refused == 1
        gate.open.set()
        assert await asyncio.gather(first, *others) == ["a", "b", "c"]
        assert gate.names == ["a", "b", "c"]
        assert await pool.submit(gate.job("e")) == "e"
        assert pool.waiting == 0
        assert len(waits) == 4
        assert min(waits) >= 0

    with_pool(main)


def test_a_read_that_nobody_waits_for_gives_its_place_back() -> None:
    """Cancelled before its turn it is never made, and another takes its place at once; cancelled
    while the disk works it is forgotten."""

    async def main(pool: ReadPool, gate: Gate) -> None:
        first = pool.submit(gate.job("a"))
        assert gate.begun.acquire(timeout=20)
        left, stays = pool.submit(gate.job("left")), pool.submit(gate.job("stays"))
        left.cancel()
        first.cancel()
        await asyncio.sleep(0)
        assert pool.waiting == 1
        new = pool.submit(gate.job("new"))
        gate.open.set()
        assert [*await asyncio.gather(stays, new)] == ["stays", "new"]
        assert gate.names == ["a", "stays", "new"]

    with_pool(main)


def test_the_end_cancels_what_waits() -> None:
    """And waits for what the disk has begun."""

    async def main(pool: ReadPool, gate: Gate) -> None:
        first = pool.submit(gate.job("a"))
        assert gate.begun.acquire(timeout=20)
        waiting = pool.submit(gate.job("b"))
        gate.open.set()
        pool.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await first == "a"
        assert gate.names == ["a"]

    async def run() -> None:
        pool = ReadPool(asyncio.get_running_loop(), ReadPoolSettings(threads=1))
        await main(pool, Gate())

    asyncio.run(run())
