"""Answers of reads are made a few at a time, and clients leave only so much of them unread."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections.abc import Hashable

import pytest

from svc_cluster.base.errors import HotServerError
from svc_cluster.gateway.limits import answer_budget
from svc_cluster.gateway.limits.answer_budget import (
    IN_WORK_MAX,
    UNSENT_BYTES_MAX,
    UNSENT_BYTES_OF_ONE_MAX,
    WAITING_MAX,
    AnswerBudget,
    AnswerReservation,
)
from svc_cluster.http.message import Response
from svc_cluster.model.stream_config import BasinConfig, NewStream
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.scripted import BASIN, body_of, get, make_app

MIB = 1024 * 1024


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_so_many_reads_work_at_a_time_and_connections_take_turns() -> None:
    """A hundred reads of one connection do not stand before the first one of another."""

    async def body() -> None:
        room = AnswerBudget()
        order: list[str] = []
        places: list[AnswerReservation] = []

        async def read(connection: str) -> None:
            places.append(await room.enter(connection))
            order.append(connection)

        busy = [asyncio.ensure_future(read("busy")) for _ in range(IN_WORK_MAX + 100)]
        await settle()
        quiet = asyncio.ensure_future(read("quiet"))
        await settle()
        assert room.in_work == IN_WORK_MAX and room.waiting == 101
        assert order == ["busy"] * IN_WORK_MAX
        for _ in range(2):
            places.pop(0).gone()
        await settle()
        assert order[IN_WORK_MAX:] == ["busy", "quiet"]
        assert room.in_work == IN_WORK_MAX and room.waiting == 99
        for task in (*busy, quiet):
            task.cancel()
        await settle()
        assert room.waiting == 0
        while places:
            places.pop().gone()
        assert room.in_work == 0 and room._unsent == 0 and not room._lines

    asyncio.run(body())


def test_a_client_that_does_not_read_waits_for_itself_and_for_nobody_else() -> None:
    """Beyond UNSENT_BYTES_OF_ONE_MAX its next read does not begin; another connection's does."""

    async def body() -> None:
        room = AnswerBudget()
        held = []
        for _ in range(UNSENT_BYTES_OF_ONE_MAX // MIB):
            place = await room.enter("slow")
            place.made(MIB)
            held.append(place)
        assert room._unsent == UNSENT_BYTES_OF_ONE_MAX and room.in_work == 0
        later = asyncio.ensure_future(room.enter("slow"))
        await settle()
        assert not later.done() and room.waiting == 1
        other = await room.enter("other")
        other.gone()
        held.pop().gone()
        await settle()
        assert later.done() and room.in_work == 1
        later.result().gone()

    asyncio.run(body())


def test_all_together_leave_only_so_much_unread() -> None:
    async def body() -> None:
        room = AnswerBudget()
        held = []
        for number in range(UNSENT_BYTES_MAX // MIB):
            place = await room.enter(number)
            place.made(MIB)
            held.append(place)
        one = asyncio.ensure_future(room.enter("one more"))
        await settle()
        assert not one.done()
        held.pop().gone()
        await settle()
        assert one.done()
        one.result().gone()
        for place in held:
            place.gone()
        assert room._unsent == 0 and not room._unsent_of

    asyncio.run(body())


def test_whatever_becomes_of_an_answer_its_room_comes_back() -> None:
    """Letting go of the answer is enough; telling so twice changes nothing."""

    async def body() -> None:
        room = AnswerBudget()
        place = await room.enter("a")
        place.made(5)
        assert (room.in_work, room._unsent) == (0, 5)
        place.gone()
        place.gone()
        assert (room.in_work, room._unsent) == (0, 0)
        dropped = await room.enter("a")
        dropped.made(7)
        del dropped, place
        gc.collect()
        assert (room.in_work, room._unsent) == (0, 0)

    asyncio.run(body())


def test_an_answer_that_another_thread_lets_go_of_is_given_back_on_the_loop() -> None:
    """The collector runs in any thread: who waits is let in by the loop all the same, and nothing
    of the loop's is touched from outside it."""

    async def body() -> None:
        room = AnswerBudget()
        held = [await room.enter("a") for _ in range(IN_WORK_MAX)]
        later = asyncio.ensure_future(room.enter("b"))
        await settle()
        on_threads: list[int] = []
        leave = room.leave

        def watched(connection: Hashable, *, in_work: bool, unsent: int) -> None:
            on_threads.append(threading.get_ident())
            leave(connection, in_work=in_work, unsent=unsent)

        room.leave = watched  # type: ignore[method-assign]
        circle: list[object] = [held.pop()]
        circle.append(circle)
        del circle
        await asyncio.to_thread(gc.collect)
        place = await later
        assert on_threads == [threading.get_ident()]
        assert room.in_work == IN_WORK_MAX
        place.gone()
        while held:
            held.pop().gone()
        assert room.in_work == 0

    asyncio.run(body())


def test_a_read_that_waits_for_records_takes_nobodys_place() -> None:
    """A long poll steps aside; what comes of it in the end is counted all the same."""

    async def body() -> None:
        room = AnswerBudget()
        place = await room.enter("poll")
        place.step_aside()
        place.step_aside()
        assert room.in_work == 0
        place.made(9)
        assert (room.in_work, room._unsent) == (0, 9)
        place.gone()
        assert (room.in_work, room._unsent) == (0, 0)

    asyncio.run(body())


def test_too_many_and_too_long_are_definite_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is bounded in number and in time, and who is refused leaves no trace in it."""

    async def body() -> None:
        room = AnswerBudget()
        held = [await room.enter("a") for _ in range(IN_WORK_MAX)]
        waiting = [asyncio.ensure_future(room.enter(number % 7)) for number in range(WAITING_MAX)]
        await settle()
        assert room.waiting == WAITING_MAX
        with pytest.raises(HotServerError, match="too many reads") as refusal:
            await room.enter("late")
        assert not refusal.value.may_have_taken_effect
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert room.waiting == 0 and not room._lines and room.in_work == IN_WORK_MAX
        monkeypatch.setattr(answer_budget, "WAIT_SECONDS_MAX", 0.01)
        with pytest.raises(HotServerError, match="are not read") as refusal:
            await room.enter("b")
        assert not refusal.value.may_have_taken_effect
        assert room.waiting == 0 and not room._lines and room.in_work == IN_WORK_MAX
        for place in held:
            place.gone()
        assert room.in_work == 0

    asyncio.run(body())


def test_a_place_that_is_given_to_somebody_who_has_left_is_given_on() -> None:
    """Cancelled in the very turn in which its place was given: the next one gets it."""

    async def body() -> None:
        room = AnswerBudget()
        held = [await room.enter("a") for _ in range(IN_WORK_MAX)]
        first = asyncio.ensure_future(room.enter("b"))
        second = asyncio.ensure_future(room.enter("c"))
        await settle()
        held.pop().gone()
        first.cancel()
        await settle()
        assert second.done() and room.in_work == IN_WORK_MAX
        second.result().gone()
        while held:
            held.pop().gone()
        assert room.in_work == 0

    asyncio.run(body())


def test_an_error_gives_its_place_back_while_its_traces_are_kept() -> None:
    """What is raised may live on in a circle of frames until the collector comes by."""

    async def body() -> None:
        room = AnswerBudget()
        kept: list[tuple[AnswerReservation, BaseException]] = []
        for _ in range(2 * IN_WORK_MAX):
            place = await room.enter("one")
            try:
                with place:
                    raise KeyError("nothing there")
            except KeyError as error:
                kept.append((place, error))
        assert room.in_work == 0 and room.held_bytes == 0
        with await room.enter("one") as place:
            assert room.in_work == 1
        assert room.in_work == 1, "an answer that is made keeps its place until it has left"
        place.gone()

    asyncio.run(body())


def test_an_answer_that_took_no_place_is_counted_too() -> None:
    """Lists and others of some size, until they have left; what has effects is counted beyond the
    bound, all else is a definite refusal there. What is small, or has a place, is left alone."""

    async def body() -> None:
        room = AnswerBudget(100_000)
        large, small = Response(200, [], bytes(60_000)), Response(200, [], bytes(4_000))
        room.count(large, "a", is_refused=True)
        room.count(large, "a", is_refused=True)
        room.count(small, "a", is_refused=True)
        assert room.held_bytes == 60_000 and small.place is None
        other, written = Response(200, [], bytes(60_000)), Response(201, [], bytes(60_000))
        with pytest.raises(HotServerError):
            room.count(other, "b", is_refused=True)
        assert (room.refused, other.place) == (1, None)
        room.count(written, "b", is_refused=False)
        assert room.held_bytes == 120_000
        large.place = written.place = None
        assert room.held_bytes == 0

    asyncio.run(body())


def test_lists_wait_for_clients_in_the_share_of_answers() -> None:
    """A gateway whose clients read no lists refuses further ones, and gives them again once those
    have gone."""

    async def body() -> None:
        backend = MemoryBackend(SimClock(asyncio.get_running_loop()))
        app, _ = make_app(backend)
        await backend.create_basin(BASIN[1], BasinConfig())
        for number in range(200):
            await backend.create_stream(BASIN[1], f"{number:03}" + "s" * 60, NewStream())
        answers = app.memory.answers
        first = await app.handle(get("/v1/streams"))
        assert first.status == 200 and answers.held_bytes == len(body_of(first)) > 8_000
        answers.bytes_max = 2 * answers.held_bytes
        second = await app.handle(get("/v1/streams"))
        third = await app.handle(get("/v1/streams"))
        assert (second.status, third.status) == (200, 502)
        assert json.loads(body_of(third))["code"] == "hot_server"
        assert app.memory.held()["answers"] == 2 * len(body_of(first))
        first.place = None
        assert (await app.handle(get("/v1/streams"))).status == 200

    run(lambda loop: body())
