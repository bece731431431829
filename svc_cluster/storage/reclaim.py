"""Gives the disk back what range deletes hold, in a thread of its own.

A range is looked at only once a flush has covered its delete: until then part of what it covers
may still be on its way to a file. Compactions go on beside reads and writes; between two rounds of
them lies a rest, so that they take a bounded share of the disk from those who append.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from svc_cluster.storage.dead_ranges import DeadRange, DeadRanges, TableFile, plan_compactions
from svc_cluster.storage.worker import Worker

REST_SHARE: Final = 2.0
"""A round of compactions is followed by a rest of this many times its length."""


class Compactor(Protocol):
    """What the store does for it. The first two block, and may be called in any thread."""

    def table_files(self) -> list[TableFile]: ...

    def compact(self, start: bytes, end: bytes) -> None: ...

    def reclaimed(self, start: bytes, end: bytes) -> None:
        """What was deleted in `[start, end)` holds no space any more. On the event loop."""
        ...


class Reclaimer:
    """Everything but the compactions runs on the event loop. `on_loop` runs a callable there."""

    def __init__(
        self,
        compactor: Compactor,
        on_loop: Callable[[Callable[[], None]], None],
        monotonic: Callable[[], float],
        known: Sequence[DeadRange] = (),
    ) -> None:
        """`known`: what an earlier process has deleted, flushed and not compacted."""
        self._compactor = compactor
        self._on_loop = on_loop
        self._monotonic = monotonic
        self._unflushed = DeadRanges()
        self._flushed = DeadRanges()
        self._in_work = DeadRanges()
        """The ranges of the round under way: what is deleted meanwhile must not become one with
        these."""
        for one in known:
            self._flushed.add(one)
        self._worker = Worker("store-reclaim")
        self._busy = False
        self._stopping = False
        self._rest_until = float("-inf")

    @property
    def is_busy(self) -> bool:
        """A round is under way."""
        return self._busy

    def note(self, freed: Sequence[tuple[bytes, bytes, int | None]]) -> None:
        """These ranges, with about as many bytes in them, were deleted."""
        for start, end, size in freed:
            self._unflushed.add(DeadRange(start, end, size))

    def flush_begins(self) -> Callable[[], None]:
        """Everything noted so far is part of a flush. The result is to be called behind its end."""
        covered, self._unflushed = self._unflushed, DeadRanges()
        return lambda: self._flushed.merge(covered)

    def run(self) -> None:
        """Begin a round, if there is something to do and none under way."""
        if self._busy or self._stopping or self._monotonic() < self._rest_until:
            return
        if not self._flushed.is_worth_a_look():
            return
        self._busy = True
        begun = self._monotonic()
        self._in_work, self._flushed = self._flushed, DeadRanges()
        ranges = self._in_work.ranges()

        def finished() -> None:
            self._busy = False
            self._flushed.merge(self._in_work)
            self._in_work = DeadRanges()
            now = self._monotonic()
            self._rest_until = now + REST_SHARE * (now - begun)

        def job() -> None:
            for start, end in plan_compactions(ranges, self._compactor.table_files()):
                if self._stopping:
                    return
                self._compactor.compact(start, end)
                self._on_loop(lambda start=start, end=end: self._settle(start, end))  # type: ignore[misc]
            self._on_loop(finished)

        self._worker.put(job)

    def stop(self, cut_short: Callable[[], None]) -> None:
        """End, `cut_short` making an end of the compaction under way, if there is one. Blocking.
        What was not compacted is noted for the next start."""
        self._stopping = True
        if self._busy:
            cut_short()
        self._worker.stop()

    def _settle(self, start: bytes, end: bytes) -> None:
        if not self._stopping:
            self._in_work.take(start, end)
            self._compactor.reclaimed(start, end)
