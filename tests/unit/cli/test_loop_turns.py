"""Turns of the event loop: their length by the wall, in processor time, and what they did."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from svc_cluster.base.metrics import Metrics
from svc_cluster.cli.processes.loop_turns import (
    CALM_AFTER_SECONDS,
    CALM_SECONDS,
    LOOK_SECONDS,
    TURN_SECONDS_MAX,
    LoopTurns,
)

LONG = 8 * TURN_SECONDS_MAX


def burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(100))


def observed(metrics: Metrics, name: str, at_most: float) -> tuple[int, int]:
    """Observations in all, and how many of them were longer than a bucket's bound."""
    value = metrics.registry.get_sample_value
    total = value(f"{name}_count") or 0.0
    below = value(f"{name}_bucket", {"le": f"{at_most!r}"})
    assert below is not None, "no such bucket"
    return int(total), int(total - below)


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    LINES.clear()
    caplog.handler.addFilter(_note)


LINES: list[dict[str, Any]] = []


def _note(record: Any) -> bool:
    if record.getMessage() == "loop_turn_long":
        LINES.append(record.fields)
    return True


def watched(kept: Callable[[], None], *, until: Callable[[Metrics], bool]) -> tuple[Metrics, Any]:
    """Keeps the loop once with `kept`, and looks until its effect shows."""
    metrics = Metrics()

    async def body() -> None:
        async with asyncio.timeout(20):
            loop = asyncio.get_running_loop()
            watching = loop.create_task(LoopTurns(metrics).run())
            while observed(metrics, "svc_event_loop_lag_seconds", 0.064)[0] < 3:
                await asyncio.sleep(0.001)
            loop.call_soon(kept)
            while not until(metrics):
                await asyncio.sleep(0.001)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    asyncio.run(body())
    return metrics, list(LINES)


def long_turn(metrics: Metrics) -> bool:
    return observed(metrics, "svc_event_loop_turn_processor_seconds", 0.064)[1] > 0


def long_wait(metrics: Metrics) -> bool:
    return observed(metrics, "svc_event_loop_lag_seconds", 0.064)[1] > 0


def test_a_turn_that_uses_the_processor_is_told_with_what_it_did() -> None:
    """It is in the histogram, and one line names the function, its length and the count."""
    metrics, lines = watched(lambda: burn(LONG), until=long_turn)
    assert long_wait(metrics), "whoever waited saw it too"
    assert len(lines) == 1
    assert 0.9 * LONG * 1000 - 10 <= lines[0]["processor_ms"] <= 3 * LONG * 1000
    assert lines[0]["count"] == 1
    assert any(call.startswith("burn ") for call in lines[0]["doing"]), lines


def test_a_turn_that_waits_is_late_and_uses_nothing() -> None:
    """A loop that is kept by a sleep, or by a busy machine, is no turn that is too long."""
    metrics, lines = watched(lambda: time.sleep(LONG), until=long_wait)
    assert not long_turn(metrics)
    assert lines == []


def test_collections_are_counted_apart_and_only_on_the_loops_thread() -> None:
    """Each collection on the loop's thread is one observation; another thread's is none."""
    name = "svc_event_loop_collector_pause_seconds"
    gc.collect()

    def collect() -> None:
        elsewhere = threading.Thread(target=gc.collect)
        elsewhere.start()
        elsewhere.join()
        gc.collect()

    gc.disable()
    try:
        metrics, _ = watched(collect, until=lambda metrics: observed(metrics, name, 0.064)[0] > 0)
    finally:
        gc.enable()
    assert observed(metrics, name, 0.064)[0] == 1
    assert all("LoopTurns" not in repr(callback) for callback in gc.callbacks), "it has let go"


def test_turns_that_follow_each_other_are_told_one_by_one() -> None:
    """Each is as long as it may be: none is told as longer because the next one is ready."""
    step, told = TURN_SECONDS_MAX, list[float]()

    async def body() -> None:
        turns = LoopTurns(Metrics(), look_seconds=0.001, tell=lambda turn, _: told.append(turn))
        watching = asyncio.create_task(turns.run())
        while not told:
            await asyncio.sleep(0.001)
        for _ in range(20):
            burn(step)
            await asyncio.sleep(0)
        count = len(told)
        while len(told) < count + 2:
            await asyncio.sleep(0.001)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(body())
    assert 0.8 * step < max(told) < 1.5 * step


def test_an_idle_loop_is_looked_at_seldom() -> None:
    """Behind a moment without work, looks come less often, and a long turn out of the calm is
    told all the same."""
    metrics = Metrics()

    def looks() -> int:
        return observed(metrics, "svc_event_loop_lag_seconds", 0.064)[0]

    async def body() -> None:
        watching = asyncio.create_task(LoopTurns(metrics).run())
        async with asyncio.timeout(30):
            before = -1000
            while looks() - before > 0.5 / CALM_SECONDS + 1:
                before = looks()
                await asyncio.sleep(0.5)
            burn(LONG + CALM_SECONDS)
            while not (long_turn(metrics) and LINES):
                await asyncio.sleep(0.01)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    asyncio.run(body())
    assert long_turn(metrics)
    assert len(LINES) == 1


@pytest.mark.parametrize(
    ("used", "looks", "pause"),
    [
        (0.0001, 11, CALM_SECONDS),  # 0.4 % of a core, for longer than CALM_AFTER_SECONDS
        (0.0001, 9, LOOK_SECONDS),  # not for as long yet
        (0.002, 11, LOOK_SECONDS),  # short turns, 8 % of a core
        (0.011, 1, LOOK_SECONDS),  # one turn that is not short
    ],
)
@pytest.mark.parametrize("was_calm", [False, True])
def test_a_loop_that_is_used_is_looked_at_closely(
    used: float, looks: int, pause: float, was_calm: bool
) -> None:
    """By what it used in the moment before, and at once behind a turn that is not short."""

    async def body() -> None:
        now = [100.0]
        turns = LoopTurns(Metrics())
        turns._judged_at = now[0]
        turns._pause_seconds = before = CALM_SECONDS if was_calm else LOOK_SECONDS
        for _ in range(looks):
            now[0] += CALM_AFTER_SECONDS / 10
            turns._choose_pause(now[0], used)
        is_judged = looks > 9 or used > 0.01
        assert turns._pause_seconds == (pause if is_judged else before)

    asyncio.run(body())


def test_a_collection_within_a_look_is_no_part_of_a_turn() -> None:
    """As one between two looks is none."""

    class Circle:
        def __init__(self) -> None:
            self.itself = self

    async def body() -> list[float]:
        told: list[float] = []
        enough = asyncio.Event()

        def tell(turn: float, _: list[str]) -> None:
            told.append(turn)
            if len(told) == 3:
                gc.collect()
            elif len(told) == 10:
                enough.set()

        turns = LoopTurns(Metrics(), look_seconds=0.001, tell=tell)
        watching = asyncio.create_task(turns.run())
        async with asyncio.timeout(30):
            await enough.wait()
        collected = turns._collected_used
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert collected > 0.02, "it took a while"
        return [turn for turn in told[3:] if turn > collected / 2]

    gc.disable()
    try:
        for _ in range(400_000):
            Circle()
        assert asyncio.run(body()) == []
    finally:
        gc.enable()


def test_many_long_turns_are_one_line() -> None:
    """Five of them in less than a minute are told once: at the first."""
    turns = 0

    def again() -> None:
        nonlocal turns
        turns += 1
        burn(TURN_SECONDS_MAX * 2)
        if turns < 5:
            asyncio.get_running_loop().call_later(0.03, again)

    _, lines = watched(again, until=lambda _: turns == 5)
    assert len(lines) == 1
