"""A part of memory: within its share, in the order of asking, and nothing lost by who gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.base import memory
from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.memory import MemoryPart


def in_loop(body: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await body()

    asyncio.run(bounded())


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_does_not_fit_is_refused_without_effect() -> None:
    """The refusal is a definite one and counted; what is larger than the share has it alone."""
    part = MemoryPart(100)
    part.take(60)
    with pytest.raises(UnavailableError) as refused:
        part.take(41)
    assert not refused.value.may_have_taken_effect
    assert (part.held, part.refused) == (60, 1)
    part.take(40)
    assert part.held == 100
    part.give_back(100)
    part.take(500)
    assert not part.try_take(1)
    assert (part.held, part.refused) == (500, 1)


def test_those_who_wait_are_let_in_as_they_came() -> None:
    """Also a large one before small ones, and nobody comes past those who wait."""

    async def body() -> None:
        part = MemoryPart(100)
        part.take(90)
        order: list[int] = []

        async def enter(size: int) -> None:
            await part.wait(size)
            order.append(size)

        entering = [asyncio.ensure_future(enter(size)) for size in (80, 5, 6)]
        await settle()
        assert part.waiting == 3 and order == []
        assert not part.try_take(1), "though it would fit"
        part.give_back(90)
        await settle()
        assert order == [80, 5, 6] and part.held == 91 and part.waiting == 0
        await asyncio.gather(*entering)

    in_loop(body)


def test_who_gives_up_leaves_nothing_behind() -> None:
    """One whose time is over, one that is cancelled while it waits, and one that is cancelled in
    the moment at which it was let in; those behind them go on."""

    async def body() -> None:
        part = MemoryPart(100)
        part.take(100)
        with pytest.raises(UnavailableError):
            await part.wait(50, 0.01)
        assert part.refused == 1 and part.waiting == 0
        large = asyncio.ensure_future(part.wait(100))
        late = asyncio.ensure_future(part.wait(30))
        last = asyncio.ensure_future(part.wait(70))
        await settle()
        part.give_back(70)
        large.cancel()
        await settle()
        assert late.done() and part.held == 60 and part.waiting == 1
        part.give_back(30)
        assert part.held == 100 and not last.done(), "let in, and has not run yet"
        last.cancel()
        await settle()
        assert part.held == 30 and part.waiting == 0
        part.give_back(30)

    in_loop(body)


def test_no_more_wait_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "WAITING_MAX", 2)

    async def body() -> None:
        part = MemoryPart(1)
        part.take(1)
        waiting = [asyncio.ensure_future(part.wait(1)) for _ in range(2)]
        await settle()
        with pytest.raises(UnavailableError):
            await part.wait(1)
        assert (part.waiting, part.refused) == (2, 1)
        for each in waiting:
            each.cancel()
        await settle()
        assert part.waiting == 0

    in_loop(body)


@given(st.lists(st.tuples(st.integers(0, 150), st.booleans()), max_size=40))
def test_no_order_of_events_exceeds_the_share_or_leaves_who_fits_waiting(
    steps: list[tuple[int, bool]],
) -> None:
    """Rooms are taken and given back in any order: held is the sum of what was let in, beyond the
    share only where one has it alone, and the first who waits is one for whom there is no room."""

    async def body() -> None:
        part = MemoryPart(100)
        held: list[int] = []

        async def enter(size: int) -> None:
            await part.wait(size)
            held.append(size)

        entering: list[asyncio.Future[None]] = []
        for size, gives in steps:
            if gives and held:
                part.give_back(held.pop(0))
            else:
                entering.append(asyncio.ensure_future(enter(size)))
            await settle()
            assert part.held == sum(held)
            assert part.held <= 100 or sum(map(bool, held)) == 1
            if part.waiting:
                assert not part.fits(part._waiting[0][0])
        for each in entering:
            each.cancel()
        await settle()
        assert part.waiting == 0

    in_loop(body)
