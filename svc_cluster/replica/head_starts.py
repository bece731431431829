"""The preferred leader of a new group does not wait for a time-out.

The other replicas may not exist yet, so it asks more than once. A node may have a thousand new
groups at a time, and to ask is dear: some of them ask at each look, in turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from svc_cluster.base.guarded import guarded
from svc_cluster.replica.group_replica import AnyGroup

LOOK_SECONDS: Final = 0.06
"""From one look to the next, while there are new groups without a leader."""

ASKED_PER_LOOK: Final = 32
"""Groups that ask at one look: all of few, so that their other replicas, which wait for a time-out,
come too late. Of very many each has its turn, and none has used up its tries before the others, of
whose replicas some are opened seconds later, have had any."""

TRIES: Final = 6
"""How often a group asks; then it waits for a time-out as the other replicas do."""


Stand = Callable[[], bool]
"""Stands for election in one group, unless that has a leader or has stopped. Returns whether it
did: otherwise it is not called again."""


def standing(group: AnyGroup) -> Stand:
    """What a group does for its head start."""

    def stand() -> bool:
        if group.stopped or group.engine.leader is not None:
            return False
        group.campaign()
        return True

    return stand


class HeadStarts:
    """New groups of one node that this node is to lead."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_fatal: Callable[[BaseException], None]
    ) -> None:
        self._loop = loop
        self._next_look = guarded(self._look, on_fatal)
        self._waiting: deque[tuple[Stand, int]] = deque()
        """With the number of tries that each has left; who waits longest is first. It is as long as
        the node has groups."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many groups may ask again."""
        return len(self._waiting)

    def give(self, stand: Stand) -> None:
        """A new group asks at once, and some times more while nobody leads it."""
        self._try(stand, TRIES)
        self._schedule()

    def stop(self) -> None:
        """Nobody asks any more."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _try(self, stand: Stand, tries: int) -> bool:
        stood = stand()
        if stood and tries > 1:
            self._waiting.append((stand, tries - 1))
        return stood

    def _schedule(self) -> None:
        if self._waiting and self._timer is None:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._next_look)

    def _look(self) -> None:
        self._timer = None
        left = ASKED_PER_LOOK
        for _ in range(len(self._waiting)):
            if left == 0:
                break
            left -= self._try(*self._waiting.popleft())
        self._schedule()
