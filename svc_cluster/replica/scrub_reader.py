"""Reads what replicas of this node hold for the scrub: a little in each turn, at a bounded rate.

The rate is the node's, whoever asked: what its own groups and the leaders on other nodes want to
know waits in one queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from svc_cluster.base.log import Logger
from svc_cluster.catalog.catalog_content import CatalogContent
from svc_cluster.model.content import Chunk, ChunkBuilder, Content, Visit
from svc_cluster.storage.state_store import StoreSnapshot
from svc_cluster.stream.basin_content import BasinContent

JOBS_MAX: Final = 8
"""Chunks that wait or are read at one time; each holds a view of the store."""

SLICE_BYTES: Final = 128 * 1024
SLICE_SECONDS: Final = 0.004
"""What is read in one turn of the event loop ends with the row that reaches either bound."""

ROW_BYTES_MIN: Final = 1024
"""A row counts for at least this much of the rate: small ones take processor time."""

Done = Callable[[Chunk | None], None]
"""None: it could not be read."""


@dataclass(frozen=True, slots=True)
class _Job:
    view: StoreSnapshot
    visits: Iterator[Visit]
    builder: ChunkBuilder
    done: Done


def content_of(group_id: GroupId) -> Content:
    """How what a group holds is looked at."""
    return CatalogContent() if group_id == CATALOG_GROUP else BasinContent()


class ScrubReader:
    """One for each node."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        log: Logger,
        guarded: Callable[[Callable[[], object]], Callable[[], None]],
        bytes_per_second: float,
    ) -> None:
        """`guarded` is for what a timer of the whole node runs."""
        assert bytes_per_second > 0, "who does not read has no reader"
        self._loop = loop
        self._clock = clock
        self._log = log
        self._run = guarded(self._turn)
        self._bytes_per_second = bytes_per_second
        self._jobs: deque[_Job] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._free_at = float("-inf")
        self._is_stopped = False
        self.read_bytes = 0
        """The bytes of rows as they are stored, those that are no content among them."""

    @property
    def is_full(self) -> bool:
        """Nothing more is taken now."""
        return self._is_stopped or len(self._jobs) >= JOBS_MAX

    def read(self, view: StoreSnapshot, visits: Iterator[Visit], cost_max: int, done: Done) -> None:
        """Make a chunk of `visits`, which read from `view`; that is closed before `done`."""
        assert not self.is_full, "the caller has looked"
        self._jobs.append(_Job(view, visits, ChunkBuilder(cost_max), done))
        self._schedule()

    def stop(self) -> None:
        """Nobody is told anything more, and nothing more is taken: the store may be closed."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._jobs:
            self._jobs.popleft().view.close()

    def _schedule(self) -> None:
        if self._timer is None and self._jobs:
            wait = max(self._free_at - self._clock.monotonic(), 0.0)
            self._timer = self._loop.call_later(wait, self._run)

    def _turn(self) -> None:
        self._timer = None
        job = self._jobs[0]
        begun = self._clock.monotonic()
        size = 0
        chunk: Chunk | None = None
        try:
            for visit in job.visits:
                self.read_bytes += visit.read_bytes
                size += max(visit.read_bytes, ROW_BYTES_MIN)
                if job.builder.add(visit):
                    chunk = job.builder.full()
                    break
                if size >= SLICE_BYTES or self._clock.monotonic() - begun >= SLICE_SECONDS:
                    break
            else:
                chunk = job.builder.last()
        except Exception as fault:
            # whatever it is: what is served does not depend on it
            self._log.error("scrub_failed", exc_info=fault)
            self._end(job, None)
        else:
            if chunk is not None:
                self._end(job, chunk)
        self._free_at = max(self._free_at, begun) + size / self._bytes_per_second
        self._schedule()

    def _end(self, job: _Job, chunk: Chunk | None) -> None:
        self._jobs.popleft()
        job.view.close()
        job.done(chunk)
