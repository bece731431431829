"""Requests that a node works on: how many there may be, of all callers and of each of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Final

from svc_cluster.base.memory import MIB
from svc_cluster.base.tasks import Tasks

WORKING_MAX: Final = 49_152
"""Requests of all callers together that are worked on; one more is refused. Each costs some 2 KiB
beside what it reads, so that they take 96 MiB at most."""

WORKING_BYTES_MAX: Final = 64 * MIB
"""Bytes of the requests of all callers together that are worked on; shared as their number is."""

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
        self._bytes_by_caller: Counter[str] = Counter()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._tasks)

    def callers(self) -> list[str]:
        """Return those that have any."""
        return list(self._by_caller)

    def has_room(self, caller: str, byte_count: int) -> bool:
        """Whether one more request of this caller is worked on."""
        free = WORKING_MAX - len(self._tasks)
        if free <= 0 or self._by_caller[caller] >= WORKING_SHARE * free:
            return False
        free_bytes = WORKING_BYTES_MAX - self._bytes - byte_count
        return self._bytes_by_caller[caller] < WORKING_SHARE * free_bytes

    def begin(
        self, caller: str, work: Coroutine[None, None, None], byte_count: int
    ) -> asyncio.Task[None]:
        """Work on a request; it counts as its caller's until that ends, however it does."""
        self._by_caller[caller] += 1
        self._bytes_by_caller[caller] += byte_count
        self._bytes += byte_count

        def ended(_: object) -> None:
            self._by_caller[caller] -= 1
            self._bytes_by_caller[caller] -= byte_count
            self._bytes -= byte_count
            if not self._by_caller[caller]:
                del self._by_caller[caller], self._bytes_by_caller[caller]

        task = self._tasks.spawn_one(work, "request")
        task.add_done_callback(ended)
        return task

    async def cancel_all(self) -> None:
        await self._tasks.cancel_all()
