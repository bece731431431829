"""The latest sync batches, which each batch header covers: from where on, and the groups in them.

A header is made for every sync, so what it says is kept up to date by what a batch brings and what
one that leaves takes along, instead of being put together from all of them each time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from svc_cluster.storage.wal.wal_frame import Position

COVERED_BYTES: Final = 16 * 1024
COVERED_BATCHES: Final = range(2, 65)
"""A header covers the latest batches: at least the window's bytes, this few and this many."""


class RecentBatches:
    """What a batch header says of the batches ahead of its own."""

    def __init__(self) -> None:
        self._batches: deque[tuple[int, Position, int, Mapping[int, int]]] = deque()
        """By number, with where each begins, its bytes, and its groups."""
        self._bytes = 0
        self._number = 0
        self._named_by: dict[int, int] = {}
        """For each group the number of the last batch with a frame of it."""
        self.groups: dict[int, int] = {}
        """The last `group_seq` of each group with a frame in any of them."""

    @property
    def start(self) -> Position | None:
        """Where the first of them begins; None while there is none."""
        return self._batches[0][1] if self._batches else None

    def add(self, start: Position, total_bytes: int, groups: Mapping[int, int]) -> None:
        """Cover one more, which must not change any more; the oldest leave."""
        self._number += 1
        self._batches.append((self._number, start, total_bytes, groups))
        self._bytes += total_bytes
        self.groups.update(groups)
        self._named_by.update(dict.fromkeys(groups, self._number))
        while len(self._batches) > COVERED_BATCHES.start:
            behind_first = self._bytes - self._batches[0][2]
            if behind_first < COVERED_BYTES and len(self._batches) < COVERED_BATCHES.stop:
                break
            self._leave()

    def _leave(self) -> None:
        number, _, size, groups = self._batches.popleft()
        self._bytes -= size
        for group in groups:
            # a group may have been destroyed and made again: only numbers of batches tell
            if self._named_by[group] == number:
                del self._named_by[group], self.groups[group]
