"""Dear work stands in one line, and one step of it is done in each turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from svc_cluster.gateway.api.turns import DEAR_BYTES, Turns
from tests.simulation.loop import run

STEPS = 5


class Watched:
    """Counts what is done in each turn of the loop."""

    def __init__(self) -> None:
        self.turns: list[list[str]] = [[]]
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._next)
        self.is_over = False

    def _next(self) -> None:
        if not self.is_over:
            self.turns.append([])
            self._loop.call_soon(self._next)

    def steps(self, name: str) -> Generator[None, None, str]:
        for _ in range(STEPS):
            self.turns[-1].append(name)
            yield
        return name


def test_one_step_is_done_in_a_turn_and_all_come_to_theirs() -> None:
    """A hundred at once: never two steps in one turn, the oldest first, and none is forgotten."""

    async def main() -> None:
        turns, watched = Turns(), Watched()
        names = [f"{n:03}" for n in range(100)]
        tasks = [
            asyncio.ensure_future(turns.run(watched.steps(name), DEAR_BYTES + 1)) for name in names
        ]
        await asyncio.sleep(0)
        assert turns.waiting == 100
        assert await asyncio.gather(*tasks) == names
        watched.is_over = True
        assert max(map(len, watched.turns)) == 1
        done = [name for turn in watched.turns for name in turn]
        assert done == names * STEPS
        assert turns.waiting == 0

    run(lambda loop: main())


def test_what_is_small_waits_for_nobody() -> None:
    """One step that is made of little is done at once, whoever stands in line."""

    async def main() -> None:
        turns, watched = Turns(), Watched()
        long = asyncio.ensure_future(turns.run(watched.steps("long"), DEAR_BYTES + 1))
        await asyncio.sleep(0)

        def small() -> Generator[None, None, int]:
            yield from ()
            return 7

        assert await turns.run(small(), DEAR_BYTES) == 7
        assert not long.done()
        assert watched.turns[-1] == []
        await long
        watched.is_over = True

    run(lambda loop: main())


def test_whoever_leaves_the_line_holds_up_nobody() -> None:
    """The turn of one that was cancelled is the next one's; an error is its own."""

    async def main() -> None:
        turns, watched = Turns(), Watched()

        def failing() -> Generator[None, None, None]:
            yield
            raise KeyError

        gone = [asyncio.ensure_future(turns.turn()) for _ in range(3)]
        broken = asyncio.ensure_future(turns.run(failing(), DEAR_BYTES + 1))
        last = asyncio.ensure_future(turns.run(watched.steps("last"), DEAR_BYTES + 1))
        await asyncio.sleep(0)
        for task in gone:
            task.cancel()
        with pytest.raises(KeyError):
            await broken
        assert await last == "last"
        watched.is_over = True
        assert turns.waiting == 0

    run(lambda loop: main())
