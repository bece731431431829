"""Finds the frames in one segment's bytes, also behind damage. Decides nothing."""

from __future__ import annotations

from svc_cluster.storage.wal.segment import DATA_START, Segment
from svc_cluster.storage.wal.wal_frame import ALIGNMENT, MAGIC, FrameCoder, Position, WalFrame


class SegmentReader:
    """The frames of one life of a segment."""

    def __init__(self, coder: FrameCoder, segment: Segment) -> None:
        self._coder = coder
        self.seq = segment.seq
        self._generation = segment.generation
        self.data = segment.file.pread(segment.size, 0)

    def at(self, offset: int) -> WalFrame | None:
        """The frame at `offset`, or None when its header cannot be believed."""
        parsed = self._coder.parse(self.data, offset, self.seq, self._generation)
        return None if parsed is None else parsed[0]

    def next_from(self, offset: int) -> int | None:
        """Where the first believable header at or behind `offset` stands."""
        place = self.data.find(MAGIC, offset)
        while place >= 0:
            if place % ALIGNMENT == 0 and self.at(place) is not None:
                return place
            place = self.data.find(MAGIC, place + 1)
        return None

    def testimony(self, offset: int) -> Position:
        """The furthest `durable_before` in any whole frame at or behind `offset`."""
        best = (0, 0)
        place = self.next_from(offset)
        while place is not None:
            frame = self.at(place)
            assert frame is not None, "next_from returns places of frames"
            if frame.payload_ok:
                best = max(best, frame.durable_before)
                place = self.next_from(frame.end)
            else:
                place = self.next_from(place + ALIGNMENT)
        return best


def lives_in(coder: FrameCoder, data: bytes) -> tuple[int, int] | None:
    """The latest (segment_seq, generation) that any whole frame in a file testifies to.

    For a file whose two header copies are both unreadable. None when it holds no frame at all.
    """
    best: tuple[int, int] | None = None
    place = data.find(MAGIC, DATA_START)
    while place >= 0:
        parsed = coder.parse(data, place, None, None) if place % ALIGNMENT == 0 else None
        if parsed is not None and parsed[0].payload_ok:
            best = max(best or (0, 0), (parsed[1], parsed[2]))
        place = data.find(MAGIC, place + 1)
    return best
