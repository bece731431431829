"""Requests that a node works on: how many there may be, of all callers and of each of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Final

from svc_cluster.base.tasks import Tasks

WORKING_MAX: Final = 49_152
"""Requests of all callers together that are worked on; one more is refused. Each costs some 2 KiB
beside what it reads, so that they take 96 MiB at most."""

WORKING_SHARE: Final = 2
"""A caller may have so many times as many of them as nobody has. One that is alone may have two
thirds, which is as many as one conversation asks; the more have their share, the smaller the shares
become, and who has none yet finds room."""


class Working:
    """The tasks of one node that make answers, by caller."""

    def __init__(self) -> None:
        self._tasks = Tasks()
        self._by_caller: Counter[str] = Counter()
        """How many each caller has; none has 0."""

    def __len__(self) -> int:
        return len(self._tasks)

    def callers(self) -> list[str]:
        """Return those that have any."""
        return list(self._by_caller)

    def has_room(self, caller: str) -> bool:
        """Whether one more request of this caller is worked on."""
        free = WORKING_MAX - len(self._tasks)
        return free > 0 and self._by_caller[caller] < WORKING_SHARE * free

    def begin(self, caller: str, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Work on a request; it counts as its caller's until that ends, however it does."""
        self._by_caller[caller] += 1

        def ended(_: object) -> None:
            self._by_caller[caller] -= 1
            if not self._by_caller[caller]:
                del self._by_caller[caller]

        task = self._tasks.spawn_one(work, "request")
        task.add_done_callback(ended)
        return task

    async def cancel_all(self) -> None:
        await self._tasks.cancel_all()
