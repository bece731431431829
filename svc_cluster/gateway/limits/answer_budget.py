"""How many answers of reads may be made at a time, and how much of them may wait for clients.

A read brings a megabyte and its answer is larger still; a client may ask for a thousand at once and
take its time to read. Each read takes a place before it asks for records; made answers are counted
until they have left, for each connection and for all together. So are other answers of some size,
such as lists, which are refused where there is no room for them. Reads that wait stand in a line of
their connection, and connections take turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import deque
from collections.abc import Hashable
from typing import Final, Self

from svc_cluster.base.errors import HotServerError
from svc_cluster.http.message import Response

IN_WORK_MAX: Final = 32
"""Reads that may ask for records and encode them at a time: about 3 MiB each at most."""

UNSENT_BYTES_OF_ONE_MAX: Final = 8 * 1024 * 1024
"""Answers that one connection may leave unread before its next read begins."""

UNSENT_BYTES_MAX: Final = 80 * 1024 * 1024
"""The same of all connections together, unless it is chosen otherwise."""

WORK_BYTES: Final = 2 * 1024 * 1024
"""What a read at work is expected to hold, until its answer is made."""

COUNTED_BYTES_MIN: Final = 4 * 1024
"""An answer of another kind than a read's is counted from this size on."""

WAITING_MAX: Final = 4096
"""Reads that may wait for a place; more are refused."""

WAIT_SECONDS_MAX: Final = 30.0
"""So long a read waits for its place; a client that leaves its answers unread as long is ended."""


class AnswerBudget:
    """This is the room of one process. Everything here happens on its event loop."""

    def __init__(self, bytes_max: int = UNSENT_BYTES_MAX) -> None:
        """`bytes_max`: answers, unsent and being made, beyond which no read begins."""
        self.bytes_max = bytes_max
        self.refused = 0
        """Reads that found no place."""

        self.loop: asyncio.AbstractEventLoop | None = None
        """On which everything here happens, from the first read on."""

        self._in_work = 0
        self._unsent = 0
        self._unsent_of: dict[Hashable, int] = {}
        self._lines: dict[Hashable, deque[asyncio.Future[None]]] = {}
        self._waiting = 0

    @property
    def in_work(self) -> int:
        return self._in_work

    @property
    def held_bytes(self) -> int:
        """With what reads at work are expected to hold."""
        return self._unsent + self._in_work * WORK_BYTES

    @property
    def waiting(self) -> int:
        return self._waiting

    async def enter(self, connection: Hashable) -> AnswerReservation:
        """Wait for a place. Raises HotServerError when too many wait already, or it takes more than
        WAIT_SECONDS_MAX; nothing was read then."""
        self.loop = asyncio.get_running_loop()
        if connection in self._lines or not self._has_room(connection):
            await self._wait(connection)
        else:
            self._in_work += 1
        return AnswerReservation(self, connection)

    async def _wait(self, connection: Hashable) -> None:
        if self._waiting >= WAITING_MAX:
            self.refused += 1
            raise HotServerError("too many reads are waiting to be answered")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(connection, deque()).append(turn)
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await turn
        except TimeoutError:
            self._left(connection, turn)
            self.refused += 1
            raise HotServerError("the answers before this one are not read") from None
        except asyncio.CancelledError:
            self._left(connection, turn)
            raise

    def _left(self, connection: Hashable, turn: asyncio.Future[None]) -> None:
        """Note that whoever waited does not any more; a place that was given meanwhile is given
        on."""
        if turn.done() and not turn.cancelled():
            self.leave(connection, in_work=True, unsent=0)
            return
        line = self._lines.get(connection)
        if line is not None and turn in line:
            line.remove(turn)
            self._waiting -= 1
            if not line:
                del self._lines[connection]

    def count(self, answer: Response, connection: Hashable, *, is_refused: bool) -> None:
        """Give an answer a place that took none before, if it is of some size. Where there is no
        room it gets one all the same, unless it `is_refused` then: that raises HotServerError."""
        body = answer.body
        size = len(body) if isinstance(body, bytes) else 0
        if answer.place is not None or size < COUNTED_BYTES_MIN:
            return
        self.loop = asyncio.get_running_loop()
        unsent = self._unsent_of.get(connection, 0)
        has_room = self.held_bytes + size <= self.bytes_max and unsent < UNSENT_BYTES_OF_ONE_MAX
        if is_refused and not has_room:
            self.refused += 1
            raise HotServerError("the answers before this one are not read")
        place = AnswerReservation(self, connection, in_work=False)
        place.made(size)
        answer.place = place

    @property
    def _is_full(self) -> bool:
        return self._in_work >= IN_WORK_MAX or self.held_bytes >= self.bytes_max

    def _has_room(self, connection: Hashable) -> bool:
        unsent = self._unsent_of.get(connection, 0)
        return not self._is_full and unsent < UNSENT_BYTES_OF_ONE_MAX

    def _let_in(self) -> None:
        """Give free places to those who wait, a connection after the other."""
        for connection in list(self._lines):
            if self._is_full:
                return
            if not self._has_room(connection):
                continue
            line = self._lines.pop(connection)
            turn = line.popleft()
            self._waiting -= 1
            if line:
                self._lines[connection] = line  # at the end: the others come first
            if not turn.done():
                self._in_work += 1
                turn.set_result(None)

    def made(self, connection: Hashable, size: int, *, in_work: bool) -> None:
        """A read leaves an answer of `size` bytes, and the place that it worked at, if any."""
        self._in_work -= in_work
        self._unsent += size
        self._unsent_of[connection] = self._unsent_of.get(connection, 0) + size
        self._let_in()

    def leave(self, connection: Hashable, *, in_work: bool, unsent: int) -> None:
        self._in_work -= in_work
        self._unsent -= unsent
        left = self._unsent_of.get(connection, 0) - unsent
        if left > 0:
            self._unsent_of[connection] = left
        else:
            self._unsent_of.pop(connection, None)
        self._let_in()


class AnswerReservation:
    """This is the place of one read, from `AnswerBudget.enter` (of another answer, from `count`)
    until its answer has left. Whoever holds the answer holds this, and letting go of both gives the
    room back, whatever became of the client."""

    __slots__ = ("_connection", "_in_work", "_room", "_unsent")

    def __init__(self, room: AnswerBudget, connection: Hashable, *, in_work: bool = True) -> None:
        self._room = room
        self._connection = connection
        self._in_work = in_work
        self._unsent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """An error gives the place back at once. What it leaves behind is a circle of frames,
        which holds this until the collector comes by."""
        if kind is not None:
            self.gone()

    def step_aside(self) -> None:
        """The read waits for records that are not there yet: others may work meanwhile."""
        if self._in_work:
            self._in_work = False
            self._room.leave(self._connection, in_work=True, unsent=0)

    def holds(self, size: int) -> None:
        """What the answer is to be made of takes `size` bytes by now, more than before. Raises
        HotServerError where it is more than expected, and there is no room for the rest."""
        more = size - WORK_BYTES - self._unsent
        if more <= 0:
            return
        if self._room.held_bytes + more > self._room.bytes_max:
            self._room.refused += 1
            raise HotServerError("the answers before this one are not read")
        self._unsent += more
        self._room.made(self._connection, more, in_work=False)

    def made(self, size: int) -> None:
        """The answer is encoded, and `size` bytes wait for the client from now on, with what the
        rest of it is made of."""
        in_work, self._in_work = self._in_work, False
        more, self._unsent = size - self._unsent, size
        self._room.made(self._connection, more, in_work=in_work)

    def gone(self) -> None:
        """The answer has left, or nobody wants it."""
        in_work, self._in_work = self._in_work, False
        unsent, self._unsent = self._unsent, 0
        if in_work or unsent:
            self._room.leave(self._connection, in_work=in_work, unsent=unsent)

    def __del__(self) -> None:
        """Part of a circle, this may be collected by whichever thread the collector runs in."""
        loop = self._room.loop
        if not (self._in_work or self._unsent) or loop is None or loop.is_closed():
            return
        if asyncio._get_running_loop() is loop:
            self.gone()
            return
        with contextlib.suppress(RuntimeError):  # the loop ends at this very moment
            loop.call_soon_threadsafe(
                functools.partial(
                    self._room.leave,
                    self._connection,
                    in_work=self._in_work,
                    unsent=self._unsent,
                )
            )
