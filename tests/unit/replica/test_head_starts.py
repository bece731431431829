"""The preferred leaders of new groups ask before the others, however many new groups there are."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from svc_cluster.replica import head_starts
from svc_cluster.replica.head_starts import ASKED_PER_LOOK, TRIES, HeadStarts

MANY = 1000


class New:
    """New groups, by number; `led` have a leader."""

    def __init__(self) -> None:
        self.faults: list[BaseException] = []
        self.starts = HeadStarts(asyncio.get_running_loop(), self.faults.append)
        self.stood: list[int] = []
        self.asked: Counter[int] = Counter()
        self.led: set[int] = set()

    def give(self, number: int) -> None:
        def stand() -> bool:
            self.asked[number] += 1
            if number in self.led:
                return False
            self.stood.append(number)
            return True

        self.starts.give(stand)

    async def look(self) -> list[int]:
        """Who stands at the next look."""
        before, timer = len(self.stood), self.starts._timer
        while self.starts._timer is timer and timer is not None:
            await asyncio.sleep(0)
        return self.stood[before:]


def run(monkeypatch: pytest.MonkeyPatch, body: Callable[[New], Coroutine[Any, Any, None]]) -> None:
    monkeypatch.setattr(head_starts, "LOOK_SECONDS", 0.001)

    async def main() -> None:
        new = New()
        await body(new)
        assert new.faults == []

    asyncio.run(main())


def test_few_new_groups_stand_at_every_look_until_they_are_led(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At once, and so many times in all; one that is led is not asked again."""

    async def body(new: New) -> None:
        for number in range(3):
            new.give(number)
        assert new.stood == [0, 1, 2]
        assert await new.look() == [0, 1, 2]
        new.led.add(1)
        for _ in range(2, TRIES):
            assert await new.look() == [0, 2]
        assert (len(new.starts), new.starts._timer) == (0, None)
        assert new.asked == {0: TRIES, 1: 3, 2: TRIES}

    run(monkeypatch, body)


def test_of_very_many_some_stand_at_a_look_and_all_have_their_tries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In turn: none has used up its tries before every other one has had as many, but one. So the
    last are still asked when the other replicas of the first are there."""

    async def body(new: New) -> None:
        for number in range(MANY):
            new.give(number)
        looks, counts = 0, [1] * MANY
        while len(new.starts):
            assert len(await new.look()) <= ASKED_PER_LOOK
            counts = [new.asked[number] for number in range(MANY)]
            assert max(counts) - min(counts) <= 1
            looks += 1
        assert counts == [TRIES] * MANY
        assert looks >= (TRIES - 1) * MANY // ASKED_PER_LOOK

    run(monkeypatch, body)


def test_those_that_are_led_take_nobodys_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look goes past them to those that wait for theirs."""

    async def body(new: New) -> None:
        for number in range(MANY):
            new.give(number)
        new.led.update(range(MANY - 5))
        assert await new.look() == list(range(MANY - 5, MANY))
        assert len(new.starts) == 5

    run(monkeypatch, body)


def test_nobody_stands_once_it_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a look left."""

    async def body(new: New) -> None:
        new.give(1)
        new.starts.stop()
        assert (len(new.starts), new.starts._timer) == (0, None)
        assert new.stood == [1]

    run(monkeypatch, body)
