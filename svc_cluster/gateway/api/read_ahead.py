"""The next portion of a streaming read that is behind, asked for while the one before it is encoded
and sent.

There is one portion at most, and it is held as what waits to be sent is, where there is room beside
that; a client that does not take what it is sent within a moment has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Final

from svc_cluster.base.errors import ServiceError
from svc_cluster.base.memory import Holder, MemoryPart
from svc_cluster.base.tasks import start_task
from svc_cluster.gateway.api.pace import PORTION_BYTES_MAX
from svc_cluster.gateway.cluster.backend import ReadResult

AHEAD_SECONDS: Final = 0.1
"""For so long a portion is held ahead of a client: one that takes longer gains nothing by it."""
AHEAD_BYTES_MIN: Final = PORTION_BYTES_MAX // 2
"""Behind a smaller portion nothing is asked for ahead: the tail is near, or the client is slow."""


_Found = ReadResult | None


class ReadAhead:
    """What one streaming read has asked for ahead."""

    def __init__(self, memory: MemoryPart) -> None:
        self._held = Holder(memory)
        self._start: int | None = None
        self._task: asyncio.Task[_Found] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, start: int, read: Callable[[], Coroutine[None, None, _Found]]) -> None:
        """Ask for what comes at `start` by `read`, unless that is under way, or there is no room
        for it."""
        if self._start == start:
            return
        self.drop()
        if not self._held.try_take(PORTION_BYTES_MAX):
            return
        self._start = start
        self._task = start_task(read(), "read ahead")
        self._task.add_done_callback(_look_at)
        self._timer = asyncio.get_running_loop().call_later(AHEAD_SECONDS, self.drop)

    async def taken(self, start: int) -> _Found:
        """What was asked for at `start`, once; None: nothing was, or it came to nothing."""
        task = self._task
        if task is None or self._start != start:
            return None
        try:
            return await asyncio.shield(task)
        except ServiceError:
            return None  # whoever reads there is told by a read of its own
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task.cancelled() and current is not None and not current.cancelling():
                return None
            raise
        finally:
            self.drop()

    def drop(self) -> None:
        """Hold nothing any more."""
        self._start = None
        task, self._task = self._task, None
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        if task is not None:
            task.cancel()
        self._held.becomes(0)


def _look_at(task: asyncio.Task[_Found]) -> None:
    """A failure that nobody waits for any more is nobody's concern."""
    if not task.cancelled():
        task.exception()
