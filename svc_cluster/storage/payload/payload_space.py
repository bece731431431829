"""What of a payload file is needed, and which files are worth holes. It decides and does nothing.

Only whole blocks can be given back: a stretch that is needed keeps the blocks that it touches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from svc_cluster.storage.holes import Stretch
from svc_cluster.storage.payload.budget import Budget
from svc_cluster.storage.payload.payload_frame import (
    BLOCK_BYTES,
    FRAME_HEADER_BYTES,
    PayloadPlace,
)
from svc_cluster.storage.payload.pointer import decode_pointer
from svc_cluster.storage.state_store import StoreReader

RANGE_ROWS: Final = 8
"""A range of keys that is begun costs about as much as so many rows of one."""


class FileSpace(NamedTuple):
    """What one file takes of the disk, and what of that is needed."""

    number: int
    held_bytes: int
    live_bytes: int

    @property
    def dead_bytes(self) -> int:
        return max(0, self.held_bytes - self.live_bytes)


class FileWalk:
    """The way through the rows that may point into one file, which gets nothing more.

    What a row pointed to when the walk came by, and what the log needed when it began, is live. So
    nothing that is needed is missed: what is applied during the walk was in the log at its
    beginning.
    """

    def __init__(
        self,
        number: int,
        ranges: Iterable[tuple[bytes, bytes]],
        in_log: Iterable[PayloadPlace],
    ) -> None:
        """`ranges`: half-open ranges of keys; `in_log`: entries that a restart would read."""
        self.number = number
        self._ranges = list(ranges)
        self._in_log = [
            (one.offset - FRAME_HEADER_BYTES, one.offset + one.length)
            for one in in_log
            if one.number == number
        ]
        self._in_rows: list[tuple[int, int]] = []

    @property
    def is_done(self) -> bool:
        return not self._ranges

    def step(self, rows: StoreReader, budget: Budget) -> None:
        """Look at rows until the budget is spent, at one of a range at least."""
        while self._ranges and not budget.is_spent():
            start, end = self._ranges[-1]
            budget.take(RANGE_ROWS)
            for key, row in rows.scan(start, end):
                budget.take(1, len(row))
                pointer = decode_pointer(key, row)
                if pointer is not None and pointer.place.number == self.number:
                    place = pointer.place
                    self._in_rows.append((place.offset, place.offset + place.length))
                if budget.is_spent():
                    self._ranges[-1] = key + b"\0", end
                    break
            else:
                self._ranges.pop()

    def live(self) -> list[tuple[int, int]]:
        """The stretches that are needed, from where to where, in whole blocks and in order."""
        return blocks_of([*self._in_rows, *self._in_log])

    @property
    def live_bytes(self) -> int:
        """Bytes of these and of the file's own beginning."""
        return BLOCK_BYTES + _length(self.live())

    @property
    def log_bytes(self) -> int:
        """Bytes that the log alone needs."""
        return _length(self.live()) - _length(blocks_of(self._in_rows))


def blocks_of(pieces: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The blocks that these pieces, each from where to where, touch, as stretches in order."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(pieces):
        first = begin // BLOCK_BYTES * BLOCK_BYTES
        last = -(-end // BLOCK_BYTES) * BLOCK_BYTES
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found


def holes_beside(live: Sequence[tuple[int, int]], size: int) -> list[Stretch]:
    """What lies between and behind the stretches, in a file of this size with a block ahead."""
    holes: list[Stretch] = []
    at = BLOCK_BYTES
    for begin, end in [*live, (size, size)]:
        if begin > at:
            holes.append((at, begin - at))
        at = max(at, end)
    return holes


def allowed_dead_bytes(live_bytes: int, share_max: float, beside: int) -> int:
    """How much may be held that nothing needs, where so much is needed."""
    return int(share_max * live_bytes) + beside


def worth_holes(files: Sequence[FileSpace], allowed: int, files_max: int) -> list[int]:
    """The files that get holes so that no more than `allowed` is held in vain. Those with most of
    that come first, and there are at most `files_max`."""
    dead = sum(file.dead_bytes for file in files)
    chosen: list[int] = []
    for file in sorted(files, key=lambda one: (-one.dead_bytes, one.number)):
        if dead <= allowed or len(chosen) == files_max or file.dead_bytes < BLOCK_BYTES:
            break
        chosen.append(file.number)
        dead -= file.dead_bytes
    return chosen


def spaces(held: Mapping[int, int], live: Mapping[int, int]) -> list[FileSpace]:
    """Each file that is held; one of which nothing is known counts as needed whole."""
    return [FileSpace(number, size, live.get(number, size)) for number, size in held.items()]


def _length(stretches: Iterable[tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in stretches)
