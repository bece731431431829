"""Segments before and after their use: made, recycled, marked free. Always one ahead of need.

A header change reaches the disk one copy after the other, each riding on a sync of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from svc_cluster.storage.disk import Disk, DiskFile
from svc_cluster.storage.wal.reach import ReachFile
from svc_cluster.storage.wal.segment import (
    ACTIVE,
    FREE,
    SLOT_BYTES,
    Segment,
    SegmentHeader,
    encode_header,
    segment_name,
)
from svc_cluster.storage.wal.wal_settings import WalSettings

_NEEDED_AT_START: Final = 2
"""Free segments that a log which begins may take at once."""

Writes = list[tuple[DiskFile, int, bytes]]
Control = Callable[[Writes, Callable[[], None]], None]
"""Make writes durable, then call back."""


class SegmentSupply:
    """Owns every segment file that holds no needed frame."""

    def __init__(self, disk: Disk, node_tag: int, settings: WalSettings, next_number: int) -> None:
        self._disk = disk
        self._node_tag = node_tag
        self._settings = settings
        self._next_number = next_number
        self._free: list[Segment] = []
        self._unused = 0
        """The fewest free segments there were since the last `shrink`: nobody needed those."""
        self._prepared: Segment | None = None
        self._preparing = False
        self._stopped = False
        self._next_seq = 1
        self._control: Control | None = None
        self._reach: ReachFile | None = None
        self._on_ready: Callable[[], None] = lambda: None

    def start(self, control: Control, reach: ReachFile, on_ready: Callable[[], None]) -> None:
        """From now on changes ride on the log's syncs; `on_ready` follows each new segment."""
        self._control, self._reach, self._on_ready = control, reach, on_ready

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopped = True

    @property
    def is_busy(self) -> bool:
        """A segment is on its way."""
        return self._preparing

    @property
    def free_bytes(self) -> int:
        """Bytes of the files that hold nothing."""
        prepared = 0 if self._prepared is None else self._prepared.size
        return prepared + sum(segment.size for segment in self._free)

    def segments(self) -> list[Segment]:
        return self._free + ([] if self._prepared is None else [self._prepared])

    def take(self, *, last: bool) -> Segment | None:
        """The next segment of the log, ready for frames; None while there is none.

        The last one that there is room for is given only to those who ask for the `last`: it is
        what lets the WAL free others when the disk is full.
        """
        size = self._settings.segment_bytes
        if not last and not self._free and self._disk.free_bytes() < size:
            return None
        segment, self._prepared = self._prepared, None
        self.prepare(must=segment is None)
        return segment

    def prepare(self, *, must: bool = False) -> None:
        """Begin to make the next segment ready. Unless it `must`, the WAL does not grow into the
        reserve; even then it does not start a file that the disk has no room for."""
        if self._prepared is not None or self._preparing or self._stopped:
            return
        if self._free:
            self._preparing = True
            self._activate(self._free.pop(0))
            self._unused = min(self._unused, len(self._free))
            return
        size = self._settings.segment_bytes
        if self._disk.free_bytes() - size < (0 if must else self._settings.reserve_bytes):
            return
        self._preparing = True
        self._disk.submit_create(self._new_name(), size, self._created)

    def put_back(self, segment: Segment, done: Callable[[], None]) -> None:
        """Mark a segment free, durably, then keep it for another life."""

        def marked() -> None:
            self._free.append(segment)
            done()

        self._change(segment, _free_life(segment), marked)

    def shrink(self) -> None:
        """Remove the free segments that were not needed since the last call, but for those that
        are always kept. What a removed file held is long in no log: a crash leaves it or not."""
        surplus = min(self._unused, len(self._free) - self._settings.free_segments_max)
        if not self._stopped:
            for _ in range(surplus):
                segment = self._free.pop()
                segment.file.close()
                self._disk.submit_unlink(segment.file.name)
        self._unused = len(self._free)

    def take_now(self, following: Segment | None) -> Segment:
        """For start-up, blocking: the log's next segment, out of `following` if that is given."""
        if following is None and self._free:
            following = self._free.pop(0)
        if following is None:
            size = self._settings.segment_bytes
            file = self._disk.create(self._new_name(), size)
            following = Segment(file, SegmentHeader(FREE, 0, 0), size)
        self._change_now(following, self._next_life(following))
        return following

    def prepare_now(self, following: Segment | None) -> None:
        self._prepared = self.take_now(following)

    def put_back_now(self, segment: Segment) -> None:
        """For start-up, blocking. What is not kept is marked free and then removed behind the
        start's back: a stop that comes before leaves it for the next start, which meets it in
        here again."""
        if segment.header.state != FREE:
            self._change_now(segment, _free_life(segment))
        if segment.size != self._settings.segment_bytes or (
            len(self._free) >= self._settings.free_segments_max + _NEEDED_AT_START
        ):
            segment.file.close()
            if self._disk.free_bytes() < self._settings.segment_bytes:
                self._disk.unlink(segment.file.name)  # its room may be needed by this very start
            else:
                self._disk.submit_unlink(segment.file.name)
        else:
            self._free.append(segment)

    def continue_behind(self, segment_seq: int) -> None:
        self._next_seq = segment_seq + 1

    @property
    def newest_seq(self) -> int:
        """The newest segment that was made ready, 0 before the first."""
        return self._next_seq - 1

    def accept_length_now(self, segment: Segment) -> None:
        """Write down how long the file is. Blocking, for start-up: for a header of the format that
        does not say it, and for a file that was cut, once what that hurt is noted in the log."""
        self._change_now(segment, segment.header._replace(length=segment.size))

    def _new_name(self) -> str:
        self._next_number += 1
        return segment_name(self._next_number - 1)

    def _next_life(self, segment: Segment) -> SegmentHeader:
        self._next_seq += 1
        return SegmentHeader(ACTIVE, segment.generation + 1, self._next_seq - 1, segment.size)

    def _created(self, file: DiskFile) -> None:
        if self._stopped:
            file.close()
            return
        self._activate(Segment(file, SegmentHeader(FREE, 0, 0), file.size()))

    def _activate(self, segment: Segment) -> None:
        def ready() -> None:
            self._preparing = False
            self._prepared = segment
            self._on_ready()

        header, reach = self._next_life(segment), self._reach
        assert reach is not None, "the log runs"
        self._change(segment, header, lambda: reach.raise_newest(header.segment_seq, ready))

    def _change(self, segment: Segment, header: SegmentHeader, done: Callable[[], None]) -> None:
        control = self._control
        assert control is not None, "the log runs"
        data = encode_header(header, self._node_tag)

        def second() -> None:
            control([(segment.file, SLOT_BYTES, data)], finished)

        def finished() -> None:
            segment.header = header
            done()

        control([(segment.file, 0, data)], second)

    def _change_now(self, segment: Segment, header: SegmentHeader) -> None:
        data = encode_header(header, self._node_tag)
        self._disk.write_sync([(segment.file, 0, data)])
        self._disk.write_sync([(segment.file, SLOT_BYTES, data)])
        segment.header = header


def _free_life(segment: Segment) -> SegmentHeader:
    return SegmentHeader(FREE, segment.generation + 1, 0, segment.size)


def sync_segments(
    disk: Disk,
    node_tag: int,
    found: Sequence[tuple[Segment, SegmentHeader | None]],
) -> None:
    """Make durable what was read of segments at start-up, and both header copies equal.

    `found` pairs each segment with what stood in its first header copy. A process that died
    between a write and its sync leaves bytes that can be read and are not on the disk; writing
    the lesser header copy again syncs the whole file.
    """
    writes: Writes = [
        (
            segment.file,
            SLOT_BYTES if first == segment.header else 0,
            encode_header(segment.header, node_tag),
        )
        for segment, first in found
    ]
    if writes:
        disk.write_sync(writes)
