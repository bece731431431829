"""Whoever waited for the same thing goes on in portions, a bounded number in each turn of the loop,
in the order in which they came."""

from __future__ import annotations

import asyncio

from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import LogIndex
from svc_cluster.replica.waking import AT_ONCE, Waking
from tests.unit.replica.test_group import NOTHING, Rig

READERS = 5 * AT_ONCE


async def turns_of(woken: list[int], count: int) -> list[int]:
    """How many are woken in each of the next turns, until `count` are."""
    found = []
    seen = 0
    while seen < count:
        found.append(len(woken) - seen)
        seen = len(woken)
        await asyncio.sleep(0)
    return found


def test_so_many_are_woken_in_a_turn_and_in_their_order() -> None:
    """The first portion at once; who comes while others wait stands behind them."""

    async def check() -> None:
        woken: list[int] = []
        waking: Waking[int] = Waking(asyncio.get_running_loop(), at_once=3)
        for number in range(7):
            waking.wake(woken.append, number)
        assert (woken, len(waking)) == ([0, 1, 2], 4)
        await asyncio.sleep(0)
        assert woken == [0, 1, 2, 3, 4, 5]
        for number in range(7, 10):
            waking.wake(woken.append, number)
        assert (woken, len(waking)) == ([0, 1, 2, 3, 4, 5], 4)
        assert await turns_of(woken, 10) == [6, 3, 1]
        assert woken == list(range(10))
        await asyncio.sleep(0)
        waking.wake(woken.append, 10)
        assert woken == list(range(11)), "a turn later there is room again"

    asyncio.run(check())


def test_reads_that_wait_for_one_entry_go_on_in_portions() -> None:
    """However many waited: all of them go on, none is refused."""

    async def check() -> None:
        rig = await Rig().serving()
        woken: list[ServiceError | None] = []
        at = LogIndex(rig.group.applied_index + 1)
        for _ in range(READERS):
            rig.group.linearize(woken.append, at_least=at)
        await rig.settle()
        assert woken == [], "the entry is not there yet"
        assert rig.group.propose(NOTHING, 1e9, lambda outcomes, error: None) == at
        portions = []
        while len(woken) < READERS:
            before = len(woken)
            await asyncio.sleep(0)
            rig.disk.run()
            portions.append(len(woken) - before)
        assert max(portions) == AT_ONCE
        assert woken == [None] * READERS

    asyncio.run(check())


def test_who_stands_in_the_line_when_the_state_is_given_up_is_refused() -> None:
    """The first portion has gone on; the group fails before the others: none of them is told that
    it may read, and each is answered once."""

    async def check() -> None:
        rig = await Rig().serving()
        woken: list[ServiceError | None] = []
        at = LogIndex(rig.group.applied_index + 1)
        for _ in range(READERS):
            rig.group.linearize(woken.append, at_least=at)
        await rig.settle()
        rig.group.propose(NOTHING, 1e9, lambda outcomes, error: None)
        while not woken:
            await asyncio.sleep(0)
            rig.disk.run()
        assert woken == [None] * AT_ONCE
        rig.group.fail(RuntimeError("planted"))
        while len(woken) < READERS:
            await asyncio.sleep(0)
        assert woken[:AT_ONCE] == [None] * AT_ONCE
        assert all(isinstance(told, ServiceError) for told in woken[AT_ONCE:])
        assert not any(told.may_have_taken_effect for told in woken[AT_ONCE:] if told)
        for _ in range(READERS):
            await asyncio.sleep(0)
        assert len(woken) == READERS

    asyncio.run(check())
