"""How much of the answers to one caller may be in memory at a time.

Reads ask for megabytes each, and a caller may have any number of them open. Each takes room before
it looks at the store and gives it back when its answer has left; one for which there is none waits
its turn, group by group, so that the readers of one basin do not stand before those of another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from svc_cluster.base.errors import HotServerError, UnavailableError
from svc_cluster.base.ids import GroupId

ROOM_BYTES_MAX: Final = 16 * 1024 * 1024
"""The room for answers in one conversation that are being made, or were made and have not left."""

WAITING_MAX: Final = 4096
"""Requests of one caller that wait for room; more are refused."""


class AnswerRoom:
    """This is the room of one conversation. What is too large for the room has it for itself."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        caller_bytes: Callable[[], int] = lambda: ROOM_BYTES_MAX,
    ) -> None:
        """`caller_bytes`: what each conversation of the caller may have at the moment."""
        self._loop = loop
        self._caller_bytes = caller_bytes
        self._taken = 0
        self._waiting: dict[GroupId, deque[tuple[int, asyncio.Future[None]]]] = {}
        self._waiting_count = 0
        self._closed = False

    @property
    def taken_bytes(self) -> int:
        return self._taken

    def put(self, byte_count: int) -> None:
        """An answer was made: it is there, whether there is room or not."""
        self._taken += byte_count

    def give_back(self, byte_count: int) -> None:
        self._taken -= byte_count
        self._let_in()

    async def take(self, group_id: GroupId, byte_count: int) -> None:
        """Wait for room. Raises HotServerError when too many wait already, UnavailableError when
        the caller is gone."""
        if self._closed:
            raise UnavailableError("the caller is gone")
        if not self._waiting and self._fits(byte_count):
            self._taken += byte_count
            return
        if self._waiting_count >= WAITING_MAX:
            raise HotServerError("too many reads are waiting to be answered")
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.setdefault(group_id, deque()).append((byte_count, turn))
        self._waiting_count += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give_back(byte_count)
            else:
                self._leave(group_id, (byte_count, turn))
            raise

    def close(self) -> None:
        """The caller is gone: nobody waits any more."""
        self._closed = True
        waiting, self._waiting = self._waiting, {}
        self._waiting_count = 0
        for line in waiting.values():
            for _, turn in line:
                if not turn.done():
                    turn.set_exception(UnavailableError("the caller is gone"))

    def _leave(self, group_id: GroupId, place: tuple[int, asyncio.Future[None]]) -> None:
        """Who waits no more counts no more, and stands before nobody."""
        line = self._waiting.get(group_id)
        if line is None or place not in line:
            return
        line.remove(place)
        self._waiting_count -= 1
        if not line:
            del self._waiting[group_id]
        self._let_in()

    def _fits(self, byte_count: int) -> bool:
        room = min(ROOM_BYTES_MAX, self._caller_bytes())
        return not self._taken or self._taken + byte_count <= room

    def _let_in(self) -> None:
        """Let in whoever is next, as many as there is room for."""
        while self._waiting:
            group_id = next(iter(self._waiting))
            line = self._waiting[group_id]
            byte_count, turn = line[0]
            if not turn.done() and not self._fits(byte_count):
                return
            line.popleft()
            self._waiting_count -= 1
            # one of each group in turn
            del self._waiting[group_id]
            if line:
                self._waiting[group_id] = line
            if not turn.done():
                self._taken += byte_count
                turn.set_result(None)


class RoomReservation:
    """The room of one request; given back at the end of the block."""

    def __init__(self, room: AnswerRoom, group_id: GroupId, byte_count: int) -> None:
        self._room = room
        self._byte_count = byte_count
        self._group_id = group_id
        self._held = 0

    async def take(self) -> None:
        """Does what `AnswerRoom.take` does. Not to be called while it is held."""
        assert not self._held, "the place is held"
        await self._room.take(self._group_id, self._byte_count)
        self._held = self._byte_count

    def give_back(self) -> None:
        held, self._held = self._held, 0
        if held:
            self._room.give_back(held)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None
    ) -> None:
        self.give_back()
