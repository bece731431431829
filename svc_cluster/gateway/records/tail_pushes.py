"""Followers that wait at the tail of one stream, and are given what comes without being woken.

To wake a follower, and to let it find out again that nothing has changed but the records, costs
several times what it costs to send them. So one task goes round all of them, some in each turn of
the loop, and each sends at once what somebody has encoded already. One that cannot, for whatever
reason, is woken and does it as it would have without this: nothing is decided here.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from svc_cluster.base.tasks import start_task
from svc_cluster.gateway.cluster.backend import ReadResult

PUSHED_AT_ONCE: Final = 32
"""So many followers are served in one turn of the loop."""


class Pushed(Protocol):
    """One follower."""

    @property
    def at(self) -> int:
        """The sequence number that it is owed next."""
        ...

    @property
    def quiet_until(self) -> float:
        """Until when, by the monotonic clock, its client need not hear anything."""
        ...

    def push(self, result: ReadResult) -> bool:
        """Send all of `result`, which begins at `at`. False: nothing was done, and it has to look
        itself. What is raised ends its wait."""
        ...


class Kept(Protocol):
    """What is there of the stream."""

    @property
    def end_seq_num(self) -> int:
        """Behind the last record."""
        ...

    def kept(self, at: int) -> ReadResult | None:
        """What there is from `at` on; None: nothing, or not all of it."""
        ...


class TailPushes:
    """All followers of one stream that wait to be pushed to, each with what ends its wait."""

    def __init__(self, tail: Kept) -> None:
        self._tail = tail
        self._waiting: dict[asyncio.Future[bool], Pushed] = {}
        self._round: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, future: asyncio.Future[bool], one: Pushed) -> None:
        self._waiting[future] = one

    def remove(self, future: asyncio.Future[bool]) -> None:
        self._waiting.pop(future, None)

    def came(self) -> None:
        """There are new records. Where a round is under way it goes on with them."""
        if self._waiting and (self._round is None or self._round.done()):
            self._round = start_task(self._go_round(), "pushes")

    def wake(self) -> None:
        """Let each of them look itself."""
        for future in self._waiting:
            _end_wait(future)

    async def _go_round(self) -> None:
        end: int | None = None
        while end != self._tail.end_seq_num:
            end = self._tail.end_seq_num
            for number, (future, one) in enumerate(list(self._waiting.items()), 1):
                # one that has gone meanwhile, be it cancelled, is sent nothing any more
                if not future.done() and not self._serve(future, one):
                    await asyncio.sleep(0)  # what it encodes now may be what the next ones need
                elif number % PUSHED_AT_ONCE == 0:
                    await asyncio.sleep(0)

    def _serve(self, future: asyncio.Future[bool], one: Pushed) -> bool:
        """Whether it has got what there is, or is told why not."""
        try:
            if one.at >= self._tail.end_seq_num:
                return True
            result = self._tail.kept(one.at)
            if result is not None and one.push(result):
                return True
        except Exception as failure:
            future.set_exception(failure)
            return True
        _end_wait(future)
        return False


def _end_wait(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(True)
