"""Room for the answers to one caller: who waits, who is let in, and what those leave who go."""

from __future__ import annotations

import asyncio
import random

import pytest

from svc_cluster.base.errors import HotServerError, UnavailableError
from svc_cluster.base.ids import GroupId
from svc_cluster.replica import answer_room
from svc_cluster.replica.answer_room import ROOM_BYTES_MAX, AnswerRoom, RoomReservation

ONE, OTHER = GroupId(1), GroupId(2)


async def settle() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


def test_who_waits_no_more_takes_no_place_in_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that come and go while others' answers fill the room keep nobody out: not by their
    number, and not by what the first of them would have needed."""
    monkeypatch.setattr(answer_room, "WAITING_MAX", 3)

    async def body() -> None:
        room = AnswerRoom(asyncio.get_running_loop())
        await room.take(ONE, ROOM_BYTES_MAX // 2)
        for _ in range(10):
            gone = asyncio.ensure_future(room.take(ONE, ROOM_BYTES_MAX))
            await settle()
            gone.cancel()
            await settle()
        assert room._waiting_count == 0
        await asyncio.wait_for(room.take(OTHER, ROOM_BYTES_MAX // 2), 1)
        assert room.taken_bytes == ROOM_BYTES_MAX

    asyncio.run(body())


def test_whoever_is_behind_one_that_goes_moves_up() -> None:
    """The first in line did not fit; without it the next one does."""

    async def body() -> None:
        room = AnswerRoom(asyncio.get_running_loop())
        await room.take(ONE, ROOM_BYTES_MAX // 2)
        first = asyncio.ensure_future(room.take(ONE, ROOM_BYTES_MAX))
        await settle()
        second = asyncio.ensure_future(room.take(OTHER, ROOM_BYTES_MAX // 2))
        await settle()
        assert not second.done() and room._waiting_count == 2
        first.cancel()
        await settle()
        assert second.done() and room._waiting_count == 0
        assert room.taken_bytes == ROOM_BYTES_MAX

    asyncio.run(body())


@pytest.mark.parametrize("seed", range(30))
def test_all_room_comes_back_whatever_happens(seed: int) -> None:
    """Reads are let in, answer, are cancelled in the line or behind it, in the moment in which they
    are let in too; in some histories the caller goes meanwhile."""

    async def body() -> None:
        rng = random.Random(seed)
        room = AnswerRoom(asyncio.get_running_loop())
        unsent: list[int] = []
        gates: list[asyncio.Event] = []

        async def read(size: int, gate: asyncio.Event) -> None:
            with RoomReservation(room, GroupId(rng.randrange(4)), size) as place:
                await place.take()
                await gate.wait()
                room.put(size // 2)
                unsent.append(size // 2)

        tasks: list[asyncio.Task[None]] = []
        for _ in range(300):
            what = rng.random()
            if what < 0.5:
                gates.append(asyncio.Event())
                size = rng.choice((1, 4096, ROOM_BYTES_MAX // 5, 2 * ROOM_BYTES_MAX))
                tasks.append(asyncio.ensure_future(read(size, gates[-1])))
            elif what < 0.65:
                rng.choice(gates).set() if gates else None
            elif what < 0.8 and tasks:
                rng.choice(tasks).cancel()
            elif unsent:
                room.give_back(unsent.pop(rng.randrange(len(unsent))))
            if rng.random() < 0.5:
                await asyncio.sleep(0)
            assert room._waiting_count <= sum(not task.done() for task in tasks)
        if seed % 3 == 0:
            room.close()
        for gate in gates:
            gate.set()
        while not all(task.done() for task in tasks):
            await settle()
            while unsent:
                room.give_back(unsent.pop())
        await settle()
        while unsent:
            room.give_back(unsent.pop())
        for task in tasks:
            fault = None if task.cancelled() else task.exception()
            assert fault is None or isinstance(fault, UnavailableError | HotServerError)
            assert fault is None or seed % 3 == 0
        assert room.taken_bytes == 0 and room._waiting_count == 0

    asyncio.run(asyncio.wait_for(body(), 20))
