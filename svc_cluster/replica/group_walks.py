"""What is done to all groups of a node is done to some of them in each turn of the event loop.

A tick, the news that a peer is up, a look at what has become old: each goes over every group, and
a node may have a thousand. All that is under way goes on side by side: none waits for another.
Ticks have a part of each turn to themselves: groups whose ticks are late take time for silence, and
elect without need.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, Generic, TypeVar

from svc_cluster.base.guarded import guarded

GROUPS_PER_TURN: Final = 32
"""Visits of groups in one turn of the event loop, by all walks of a node together. The dearest
usual visit is a tick of a leader, which takes some 0.05 ms."""

TICK_SHARE: Final = 0.5
"""The part of each turn, above 0 and below 1, that nothing else takes while a tick is under way: a
tick has at most 1 / TICK_SHARE times the turns that it has alone."""

Visited = TypeVar("Visited")


@dataclass(slots=True, eq=False)
class _Walk(Generic[Visited]):
    """One walk that is under way; what is before `place` was visited."""

    groups: Sequence[Visited]
    visit: Callable[[Visited], None]
    done: Callable[[], None]
    place: int = 0


class GroupWalks:
    """The walks of one node. A caller has one walk of a kind under way at a time, so that there are
    as many as there are kinds."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_fatal: Callable[[BaseException], None]
    ) -> None:
        """`on_fatal` is told what escapes a visit in a later turn than that of `start`."""
        self._loop = loop
        self._next_turn = guarded(self._turn, on_fatal)
        self._ticks: deque[_Walk[Any]] = deque()
        """Ticks under way, the one whose turn it is first."""
        self._others: deque[_Walk[Any]] = deque()
        """All other walks under way, in the same order."""
        self._left = 0
        """Visits that are left of what those have that are being visited."""
        self._is_walking = False
        """A turn goes on, or is asked of the loop."""
        self._stopped = False

    def start(
        self,
        groups: Sequence[Visited],
        visit: Callable[[Visited], None],
        done: Callable[[], None] = lambda: None,
        *,
        is_tick: bool = False,
    ) -> None:
        """Visit each of the groups once, in order, and call `done` behind the last one. It begins
        at once where no walk is under way and they are no more than a turn takes. `is_tick`: the
        walk has a part of each turn that other walks cannot take."""
        if self._stopped:
            return
        (self._ticks if is_tick else self._others).append(_Walk(groups, visit, done))
        if self._is_walking:
            return
        self._is_walking = True
        if len(groups) <= GROUPS_PER_TURN:
            self._turn()
        else:
            self._loop.call_soon(self._next_turn)

    def spend(self, visits: int) -> None:
        """The visit under way is as dear as so many more. They are taken from its own kind."""
        self._left -= visits

    def stop(self) -> None:
        """Visit nobody any more, and call no `done`."""
        self._stopped = True
        self._ticks.clear()
        self._others.clear()

    def _turn(self) -> None:
        kept = ceil(GROUPS_PER_TURN * TICK_SHARE) if self._ticks else 0
        try:
            left = GROUPS_PER_TURN - kept + self._visit(self._ticks, kept)
            if self._others:
                left = self._visit(self._others, max(1, left))
            self._visit(self._ticks, left)
        finally:
            self._is_walking = bool(self._ticks or self._others)
            if self._is_walking:
                self._loop.call_soon(self._next_turn)

    def _visit(self, walks: deque[_Walk[Any]], visits: int) -> int:
        """So many visits of these walks; returns how many of them are left."""
        self._left = visits
        while walks and self._left > 0:
            self._step(walks)
        return max(0, self._left)

    def _step(self, walks: deque[_Walk[Any]]) -> None:
        """The next visit of one walk; the others of its kind have theirs before it has another."""
        walk = walks.popleft()
        if walk.place < len(walk.groups):
            self._left -= 1
            walk.place += 1
            walk.visit(walk.groups[walk.place - 1])
        if self._stopped:
            return
        if walk.place < len(walk.groups):
            walks.append(walk)
        else:
            walk.done()
