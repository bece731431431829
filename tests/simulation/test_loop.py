"""The simulated loop: virtual, ordered, closed to the real world, and the same each time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from tests.simulation.loop import (
    START_S,
    BudgetError,
    DeadlockError,
    ForbiddenError,
    SimLoop,
    SimulationError,
    run,
)

ROOT = Path(__file__).resolve().parents[2]


def test_an_hour_passes_at_once() -> None:
    """Sleeping takes virtual time only."""

    async def main(loop: SimLoop) -> float:
        await asyncio.sleep(3_600)
        return loop.time()

    assert run(main) == START_S + 3_600


def test_the_shortest_pause_takes_time() -> None:
    """Whoever sleeps for what is left of a deadline gets there, however little that is."""

    async def main(loop: SimLoop) -> int:
        deadline, turns = loop.time() + 1, 0
        while (left := deadline - loop.time()) > 0:
            await asyncio.sleep(left / 2)
            turns += 1
        return turns

    assert run(main) < 100


def test_timers_of_one_instant_run_in_order() -> None:
    """Equal times are first in, first out, unlike in a bare heap."""

    async def main(loop: SimLoop) -> list[int]:
        seen: list[int] = []
        for number in range(100):
            loop.call_at(loop.time() + 1, seen.append, number)
        await asyncio.sleep(2)
        return seen

    assert run(main) == list(range(100))


def test_a_cancelled_timer_does_not_run() -> None:
    """Also when it is cancelled at the very instant at which it is due."""

    async def main(loop: SimLoop) -> list[str]:
        seen: list[str] = []
        timers: list[asyncio.TimerHandle] = []
        loop.call_later(1, lambda: timers[0].cancel())
        timers.append(loop.call_later(1, seen.append, "cancelled"))
        for _ in range(10_000):
            loop.call_later(5, seen.append, "cancelled").cancel()
        await asyncio.sleep(2)
        return seen

    assert run(main) == []


def test_waiting_for_nothing_is_a_deadlock() -> None:
    """No timer and nothing runnable is reported, not waited for."""

    async def main(loop: SimLoop) -> None:
        await loop.create_future()

    with pytest.raises(DeadlockError, match="1 tasks wait"):
        run(main)


def test_spinning_uses_up_the_budget() -> None:
    """A program that never ends is ended."""

    async def main(_loop: SimLoop) -> None:
        while True:
            await asyncio.sleep(1)

    with pytest.raises(BudgetError):
        run(main, events_max=10_000)


def test_memory_is_a_budget() -> None:
    """A run that holds ever more ends itself, and says who waits, before the system ends it."""

    async def main(loop: SimLoop) -> None:
        held = []
        while True:
            held.append(bytes(1024))
            await asyncio.sleep(1)

    with pytest.raises(BudgetError, match="too much memory"):
        run(main, events_max=10_000_000, memory_bytes_max=32 * 1024 * 1024)


def test_a_run_is_gone_once_the_next_one_begins() -> None:
    """A worker of the suite plays hundreds of them: kept, they were 21 GB."""
    left: list[weakref.ref[SimLoop]] = []

    def play() -> None:
        async def main(loop: SimLoop) -> None:
            assert [ref for ref in left if ref() is not None] == []
            left.append(weakref.ref(loop))
            loop.call_later(60.0, main, loop)

        run(main)

    for _ in range(3):
        play()
    assert len(left) == 3


def test_the_end_of_a_tests_time_ends_the_run() -> None:
    """What pytest raises in a callback is no failure of that: the run would go on without it, with
    nobody to end it any more."""

    async def main(loop: SimLoop) -> None:
        loop.call_later(5.0, pytest.fail, "the time is over")
        while True:
            await asyncio.sleep(1)

    with pytest.raises(pytest.fail.Exception, match="the time is over"):
        run(main, events_max=100_000)


def test_threads_and_sockets_do_not_exist() -> None:
    """What reaches for the real world is told so."""

    async def main(loop: SimLoop) -> None:
        with pytest.raises(ForbiddenError):
            await asyncio.to_thread(print)
        with pytest.raises(ForbiddenError):
            await asyncio.open_connection("localhost", 1)
        with pytest.raises(ForbiddenError):
            loop.add_reader(0, print)

    run(main)


def test_a_thread_cannot_call_in() -> None:
    """A hidden thread shows itself when it reports back."""
    raised: list[BaseException] = []

    async def main(loop: SimLoop) -> None:
        def call_in() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except ForbiddenError as error:
                raised.append(error)

        thread = threading.Thread(target=call_in)
        thread.start()
        thread.join()

    run(main)
    assert raised


def test_a_forgotten_failure_fails_the_run() -> None:
    """Exceptions in callbacks do not get lost."""

    async def main(loop: SimLoop) -> None:
        loop.call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(SimulationError, match="ZeroDivisionError"):
        run(main)


def test_a_killed_process_runs_nothing_more() -> None:
    """Not its tasks, not its timers, not its `finally` blocks; another one goes on."""

    async def main(loop: SimLoop) -> list[str]:
        seen: list[str] = []

        async def life(name: str) -> None:
            try:
                while True:
                    await asyncio.sleep(1)
                    loop.call_later(0.5, seen.append, name)
            finally:
                seen.append(f"{name} finally")

        dead, live = loop.incarnation("a"), loop.incarnation("b")
        _ = dead.spawn(life("dead"), "dead")
        task = live.spawn(life("live"), "live")
        await asyncio.sleep(2.2)
        dead.kill()
        await asyncio.sleep(2)
        task.cancel()
        await asyncio.sleep(0.1)
        return list(seen)

    assert run(main) == ["dead", "live", "live", "live", "live finally"]


def test_sets_of_tasks_are_iterated_in_the_same_order() -> None:
    """Tasks and futures hash by number: addresses do not decide who is cancelled first."""

    async def main(_loop: SimLoop) -> list[str]:
        seen: list[str] = []

        async def wait(number: int) -> None:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                seen.append(str(number))
                raise

        async def group_that_fails() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(50):
                    group.create_task(wait(number))
                await asyncio.sleep(1)
                raise ValueError

        with pytest.raises(ExceptionGroup):
            await group_that_fails()
        return seen

    first, second = run(main), run(main)
    assert first == second and len(first) == 50


_PROGRAM = """
import asyncio, random, sys
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.loop import run
from tests.simulation.network import ADVERSARIAL, SimNetwork
from tests.simulation.trace import Trace

async def main(loop):
    rng = random.Random(int(sys.argv[1]))
    trace = Trace(loop.time, keep=True)
    network = SimNetwork(loop, random.Random(rng.random()), ADVERSARIAL)
    names = {f"n{i}" for i in range(5)}
    for name in sorted(names):
        disk = SimDisk(loop, random.Random(rng.random()))
        file = disk.create("log", 65536)
        clock = SimClock(loop, drift=rng.uniform(-1e-4, 1e-4))
        def heard(sender, data, name=name, disk=disk, file=file, clock=clock):
            trace.fact("heard", name, sender, data.decode(), clock.wall_ms())
            disk.submit([(file, rng.randrange(60000), data)],
                        lambda: trace.fact("durable", name, data.decode()))
        network.register(name, heard)
    async def chat(name):
        pending = set()
        for number in range(40):
            await asyncio.sleep(rng.random())
            to = rng.choice(sorted(names))
            network.send(name, to, f"{name}{number}".encode(), datagram=True)
            pending.add(asyncio.ensure_future(asyncio.sleep(rng.random(), number)))
            done, pending = await asyncio.wait(pending, timeout=0.3)
            for task in done:
                trace.fact("done", name, task.result())
    async with asyncio.TaskGroup() as group:
        for name in sorted(names):
            group.create_task(chat(name))
        network.cut("n0", "n1")
    sys.stdout.buffer.write(trace.data())

run(main)
"""


def _trace(seed: int, hash_seed: str) -> bytes:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_a_seed_gives_the_same_trace_in_every_process() -> None:
    """Byte-equal under different hash seeds, and another seed differs."""
    first, again, other = _trace(7, "0"), _trace(7, "4242"), _trace(8, "0")
    assert first == again
    assert len(first.splitlines()) > 300
    assert first != other
