"""One budget for the bytes of all request bodies that are held at one time.

Bytes are counted as they come, as sent or decompressed; an announced length takes no room. A body
is read on in **turns**: while there is room for what the turns under way may bring. Those without
one wait, the oldest first; when none has come in time the youngest make room for the others, by
being refused (502 `hot_server`, without effect). Slow bodies have a part of it all, and the last
part is for small ones that come at once. Slow bodies that hold more than their part, as they may
have taken it before they were slow, make room for whatever is not.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from dataclasses import dataclass
from enum import Enum
from typing import Final

from prometheus_client import Gauge

from svc_cluster.base.errors import HotServerError

BODY_BYTES_IN_FLIGHT_MAX: Final = 128 * 1024 * 1024
WAIT_SECONDS_MAX: Final = 5.0
"""For room, of one body, all its waiting together."""
SLOW_SHARE: Final = 4
"""Slow bodies together hold one part in so many; and one is kept for small ones."""
ARRIVED_SHARE: Final = 8
"""Bodies that are there as a whole may go beyond the bound by one part in so many."""
SMALL_BYTES: Final = 64 * 1024

SLOW_SECONDS: Final = 0.5
SLOW_BYTES_PER_SECOND: Final = 128 * 1024
"""A body that takes longer than the one and comes slower than the other is a slow one."""

_MAKE_ROOM_SECONDS: Final = 1.0
"""For those that were refused to go."""
_TURN_BYTES_MAX: Final = 16 * 1024
_TURNS_MIN: Final = 4096
"""In a budget too small for that many, less is expected of each."""
_NO_ROOM: Final = "too many request bodies at once"


@dataclass(frozen=True, slots=True)
class BodyPatience:
    """How long bodies are borne with. The fields are in seconds and positive."""

    wait_seconds: float = WAIT_SECONDS_MAX
    """For room, of one body, all its waiting together."""
    slow_seconds: float = SLOW_SECONDS
    """A body is called slow at this age at the earliest."""


class BodyPace(Enum):
    """How a body comes, and so how much of the room is for it."""

    SMALL = 0
    """It is announced as small, or there as a whole."""
    LARGE = 1
    SLOW = 2


@dataclass(slots=True, eq=False)
class _Waiter:
    """A body that waits for its turn."""

    number: int
    held: int
    pace: BodyPace
    future: asyncio.Future[None]

    async def turn(self, seconds: float) -> bool:
        """Whether it came in time. Raises HotServerError when it has to make room."""
        done, _ = await asyncio.wait([self.future], timeout=seconds)
        if done:
            self.future.result()
        return bool(done)


class BodyBudget:
    """Bytes of request bodies held at one time, by everyone together."""

    __slots__ = (
        "_held",
        "_max",
        "_slow",
        "_turn_bytes",
        "_turns",
        "_waiting",
        "patience",
        "refused",
    )

    def __init__(self, bytes_max: int, gauge: Gauge, waiting: Gauge | None = None) -> None:
        """`gauge` shows the bytes, `waiting` the bodies that wait for room."""
        self.patience = BodyPatience()
        self._max = bytes_max
        self._turn_bytes = min(_TURN_BYTES_MAX, bytes_max // _TURNS_MIN)
        """What a turn is expected to bring, until it has brought something."""
        self._held = 0
        self.refused = 0
        """Bodies, and parts of sessions, for which there was no room."""
        self._slow = 0
        """What slow bodies hold of `_held`."""
        self._turns = dict.fromkeys(BodyPace, 0)
        """Under way."""
        self._waiting: dict[BodyPace, list[_Waiter]] = {pace: [] for pace in BodyPace}
        """By age: the oldest goes on first, the youngest makes room."""
        gauge.set_function(lambda: self._held)
        if waiting is not None:
            waiting.set_function(lambda: sum(map(len, self._waiting.values())))

    @property
    def held(self) -> int:
        return self._held

    @property
    def room(self) -> int:
        return self._max - self._held

    def has_plenty_for(self, size: int) -> bool:
        """Whether a quarter is left behind it: what could wait should leave that to others."""
        return self.room - size >= self._max // 4

    def take(self, size: int) -> None:
        """Raises HotServerError when there is no room; nothing is taken then."""
        if size > self.room:
            raise self._refusal()
        self.hold(size)

    def hold(self, size: int, *, slow: bool = False) -> None:
        """Count what is there already, be it more than there is room for."""
        self._held += size
        if slow:
            self._slow += size

    def hold_arrived(self, size: int) -> None:
        """Count a whole body that is there before anybody has asked for room. It is held until its
        turn comes, so that there are a few more than there is room for, and no more than that:
        raises HotServerError then, and nothing is counted."""
        if self._held + size > self._max + self._max // ARRIVED_SHARE:
            raise self._refusal()
        self.hold(size)

    def becomes_slow(self, size: int) -> None:
        """Count so much of what is held as held by a slow body."""
        self._slow += size

    def give_back(self, size: int, *, slow: bool = False) -> None:
        if not size:
            return
        self._held -= size
        if slow:
            self._slow -= size
        assert self._held >= self._slow >= 0, "more was given back than taken"
        self._wake()

    # -- turns

    def begin_turn(self, pace: BodyPace) -> bool:
        """Whether a body may be read on at once; `end_turn` then follows."""
        if not self.has_room(pace):
            return False
        self._turns[pace] += 1
        return True

    def end_turn(self, pace: BodyPace) -> None:
        """What it brought is held; or it brings nothing any more."""
        self._turns[pace] -= 1
        assert self._turns[pace] >= 0, "a turn ends once"
        self._wake()

    async def wait_turn(self, number: int, held: int, seconds: float, pace: BodyPace) -> None:
        """Does what `begin_turn` does, when there is room for a body that holds so much. Smaller
        numbers, older bodies, go first. Raises HotServerError for one that has to make room, and
        after `seconds` and a moment."""
        waiter = _Waiter(number, held, pace, asyncio.get_running_loop().create_future())
        insort(self._waiting[pace], waiter, key=_age)
        has_gone_on = False
        try:
            if pace is not BodyPace.SLOW:
                self._refuse_slow(self._slow - self._max // SLOW_SHARE)
            if not await waiter.turn(seconds):
                self._make_room(waiter)
                if not await waiter.turn(_MAKE_ROOM_SECONDS):
                    raise self._refusal()
            has_gone_on = True
        finally:
            if waiter.future.cancel():
                self._waiting[pace].remove(waiter)
            elif waiter.future.exception() is None and not has_gone_on:
                self.end_turn(pace)

    def has_room(self, pace: BodyPace) -> bool:
        """Whether a turn of this pace may begin."""
        share = self._max // SLOW_SHARE
        limit = self._max if pace is BodyPace.SMALL else self._max - share
        if self._held + sum(self._turns.values()) * self._turn_bytes >= limit:
            return False
        slow = self._slow + self._turns[BodyPace.SLOW] * self._turn_bytes
        return pace is not BodyPace.SLOW or slow < share

    def _wake(self) -> None:
        for pace, waiting in self._waiting.items():
            while waiting and self.has_room(pace):
                self._turns[pace] += 1
                waiting.pop(0).future.set_result(None)

    def _make_room(self, waiter: _Waiter) -> None:
        """Refuse as many as it takes of those that are younger, or slow where this one is not."""
        share = self._max // SLOW_SHARE
        if waiter.pace is BodyPace.SLOW:
            lacking = max(self._slow - share, self._held - self._max + share)
            self._refuse((BodyPace.SLOW,), lacking + self._turn_bytes, waiter.number)
            return
        limit = self._max if waiter.pace is BodyPace.SMALL else self._max - share
        lacking = self._held - limit + self._turn_bytes
        lacking -= self._refuse_slow(lacking)
        self._refuse((BodyPace.SMALL, BodyPace.LARGE), lacking, waiter.number)

    def _refuse_slow(self, lacking: int) -> int:
        return self._refuse((BodyPace.SLOW,), lacking, -1)

    def _refuse(self, paces: tuple[BodyPace, ...], lacking: int, younger_than: int) -> int:
        """Refuse the youngest that wait until so many bytes are given back. Returns how many."""
        found = 0
        while found < lacking:
            lines = [self._waiting[pace] for pace in paces if self._waiting[pace]]
            youngest = max(lines, key=lambda line: line[-1].number, default=None)
            if youngest is None or youngest[-1].number <= younger_than:
                break
            victim = youngest.pop()
            victim.future.set_exception(self._refusal())
            found += victim.held
        return found

    def _refusal(self) -> HotServerError:
        self.refused += 1
        return HotServerError(_NO_ROOM)


def _age(waiter: _Waiter) -> int:
    return waiter.number
