"""Frees the oldest segments, one at a time, in four durable steps.

1. Every replica whose newest state, or whose oldest kept entries, stand in the segment gets a
   STATE frame at the end of the log; that frame moves its log base above the segment's entries.
2. When those frames, and everything framed before them, are synced, `wal-reach` says that the log
   begins behind the segment.
3. When that is synced, the segment is marked free.
4. When that mark is synced, the next oldest may follow. So a crash never leaves an older segment
   behind a newer freed one.
"""

from __future__ import annotations

from collections.abc import Callable

from svc_cluster.base.ids import GroupId
from svc_cluster.storage.wal import wal_frame as fr
from svc_cluster.storage.wal.ledger import Ledger
from svc_cluster.storage.wal.pipeline import Pipeline
from svc_cluster.storage.wal.reach import ReachFile
from svc_cluster.storage.wal.segment import Segment
from svc_cluster.storage.wal.supply import SegmentSupply
from svc_cluster.storage.wal.wal_frame import FrameBody


class Purge:
    """Shares `active` with the pipeline and takes from its front."""

    def __init__(
        self,
        pipeline: Pipeline,
        supply: SegmentSupply,
        ledger: Ledger,
        reach: ReachFile,
        active: list[Segment],
        on_space: Callable[[], None] | None,
    ) -> None:
        self._pipeline = pipeline
        self._supply = supply
        self._ledger = ledger
        self._reach = reach
        self._active = active
        self._on_space = on_space
        self._freeing = False

    def release(self) -> None:
        """Start to free segments; goes on until one is needed, or is the one being written."""
        if self._freeing or len(self._active) < 2 or self.pinned_by():
            return
        self._freeing = True
        oldest = self._active[0]
        frames = [
            FrameBody(fr.STATE, group, oldest.seq) for group in self._ledger.to_carry(oldest.seq)
        ]
        self._pipeline.put_ahead(frames, lambda: self._mark_free(oldest))

    def pinned_by(self) -> list[GroupId]:
        """The groups that the oldest segment waits for. Nothing while there is only one."""
        return self._ledger.pinned_by(self._active[0].seq) if len(self._active) > 1 else []

    def _mark_free(self, oldest: Segment) -> None:
        seq = oldest.seq
        assert oldest is self._active[0], "segments go strictly oldest first"
        assert not self._ledger.to_carry(seq), "what a segment held stands in a newer one"
        del self._active[0]

        def freed() -> None:
            self._freeing = False
            self._ledger.forget(seq)
            if self._on_space is not None:
                self._on_space()
            self._supply.prepare()
            self._pipeline.resume()
            self.release()

        self._reach.raise_first(seq + 1, lambda: self._supply.put_back(oldest, freed))
