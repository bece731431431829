"""Which key ranges were deleted and still hold disk space, and which of them to compact when.

A range delete is only a mark until a compaction has met both it and what it covers. Compacting
rewrites what lives on in the same files, so it is done when the dead bytes are a notable share,
and first where they are densest. Pure: no store, no clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

RANGES_MAX: Final = 8192
"""Ranges kept apart; beyond that neighbours are taken together with what lives between them."""

DEAD_BYTES_MIN: Final = 4 * 1024 * 1024
"""Less than this is not worth a compaction."""

DEAD_SHARE_BEGIN: Final = 0.12
DEAD_SHARE_END: Final = 0.04
"""The shares of the live bytes: from which share of dead ones on ranges are compacted, and down to
which."""


class DeadRange(NamedTuple):
    """Keys of `[start, end)` are deleted. `size`: about how many bytes; None: not known."""

    start: bytes
    end: bytes
    size: int | None


class TableFile(NamedTuple):
    """A file of the store: its level, first and last key, bytes. Those of one level but level 0
    do not overlap."""

    level: int
    first: bytes
    last: bytes
    size: int


class DeadRanges:
    """The ranges, none of which overlaps or touches another."""

    def __init__(self) -> None:
        self._starts: list[bytes] = []
        self._ranges: list[DeadRange] = []

    def __len__(self) -> int:
        return len(self._ranges)

    def ranges(self) -> list[DeadRange]:
        """In key order."""
        return list(self._ranges)

    def is_worth_a_look(self) -> bool:
        """Cheap: it is False when there is surely nothing to do."""
        total = 0
        for one in self._ranges:
            if one.size is None:
                return True
            total += one.size
        return total >= DEAD_BYTES_MIN

    def add(self, new: DeadRange) -> None:
        """Note a range; one that it touches or overlaps becomes one with it."""
        if new.start >= new.end:
            return
        low = bisect_left(self._starts, new.start)
        if low and self._ranges[low - 1].end >= new.start:
            low -= 1
        high = bisect_right(self._starts, new.end)
        for one in self._ranges[low:high]:
            new = _joined(one, new)
        self._put(low, high, new)
        if len(self._ranges) > RANGES_MAX:
            self._halve()

    def merge(self, other: DeadRanges) -> None:
        """Take over the ranges of another."""
        for one in other.ranges():
            self.add(one)

    def take(self, start: bytes, end: bytes) -> None:
        """Forget the ranges within `[start, end)`: what they held is gone."""
        low = bisect_left(self._starts, start)
        high = bisect_left(self._starts, end)
        while high > low and self._ranges[high - 1].end > end:
            high -= 1
        del self._starts[low:high]
        del self._ranges[low:high]

    def _put(self, low: int, high: int, new: DeadRange) -> None:
        self._starts[low:high] = [new.start]
        self._ranges[low:high] = [new]

    def _halve(self) -> None:
        pairs = [self._ranges[at : at + 2] for at in range(0, len(self._ranges), 2)]
        self._ranges = [pair[0] if len(pair) == 1 else _joined(*pair) for pair in pairs]
        self._starts = [one.start for one in self._ranges]


class _Cluster(NamedTuple):
    """Dead ranges that share files, so that one compaction serves them all."""

    start: bytes
    end: bytes
    dead: int
    files_bytes: int
    last_region: int


def plan_compactions(
    ranges: Sequence[DeadRange], files: Sequence[TableFile]
) -> list[tuple[bytes, bytes]]:
    """The key ranges to compact now, in key order; empty while that is not worth its work.

    `ranges` are of a DeadRanges, and were flushed: what they cover is in `files` or gone.
    """
    regions = _Regions(files)
    clusters: list[_Cluster] = []
    for one in ranges:
        first, last, files_bytes = regions.of(one)
        dead = _bytes_inside(one, files) if one.size is None else one.size
        if clusters and first <= clusters[-1].last_region:
            before = clusters.pop()
            files_bytes += before.files_bytes - regions.size(first)
            dead += before.dead
            clusters.append(_Cluster(before.start, one.end, dead, files_bytes, last))
        else:
            clusters.append(_Cluster(one.start, one.end, dead, files_bytes, last))
    # what compactions of the store's own have dropped is counted once more: never below nothing
    dead = min(sum(cluster.dead for cluster in clusters), regions.total_bytes)
    live = regions.total_bytes - dead
    if dead < max(DEAD_BYTES_MIN, DEAD_SHARE_BEGIN * live):
        return []
    chosen = []
    for cluster in sorted(clusters, key=_density, reverse=True):
        if dead <= DEAD_SHARE_END * live:
            break
        dead -= cluster.dead
        chosen.append((cluster.start, cluster.end))
    return sorted(chosen)


class _Regions:
    """The key space cut where the files of the deepest level begin; region 0 is ahead of them.

    What the levels above hold is small beside it and is added in proportion.
    """

    def __init__(self, files: Sequence[TableFile]) -> None:
        deepest = max((file.level for file in files), default=0)
        bottom = sorted(file for file in files if file.level == deepest > 0)
        self.total_bytes = sum(file.size for file in files)
        scale = self.total_bytes / max(sum(file.size for file in bottom), 1) if bottom else 1.0
        self._cuts = [file.first for file in bottom]
        self._sizes = [0 if bottom else self.total_bytes]
        self._sizes += [round(file.size * scale) for file in bottom]

    def size(self, region: int) -> int:
        return self._sizes[region]

    def of(self, one: DeadRange) -> tuple[int, int, int]:
        """The first and the last region that a range reaches into, and the bytes of them all."""
        first = bisect_right(self._cuts, one.start)
        last = max(bisect_left(self._cuts, one.end), first)
        return first, last, sum(self._sizes[first : last + 1])


def _bytes_inside(one: DeadRange, files: Sequence[TableFile]) -> int:
    """About how much of the files a range covers: those wholly inside, and half of the others."""
    total = 0
    for file in files:
        if file.last >= one.start and file.first < one.end:
            whole = one.start <= file.first and file.last < one.end
            total += file.size if whole else file.size // 2
    return total


def _density(cluster: _Cluster) -> float:
    return cluster.dead / max(cluster.files_bytes, 1)


def _joined(one: DeadRange, other: DeadRange) -> DeadRange:
    known = one.size is not None and other.size is not None
    size = one.size + other.size if known else None  # type: ignore[operator]
    return DeadRange(min(one.start, other.start), max(one.end, other.end), size)
