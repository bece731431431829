"""Reads the log after a restart: every frame in order, up to the torn tail of the last sync.

Torn or corrupt? Each frame carries `durable_before`, the place up to which the log was known to be
synced when it was written. A bad frame at `b` is **corruption** when any later whole frame has
`durable_before > b`; it is then stepped over, and the groups that it may have hurt are damaged.
Otherwise it is the **torn tail** of a crash: the log ends at `b`, whatever follows, because the
frames of one unsynced window reach the disk in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

from svc_cluster.base.ids import GroupId
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.storage.disk import Disk
from svc_cluster.storage.wal import frame as fr
from svc_cluster.storage.wal.frame import FrameCoder, Position
from svc_cluster.storage.wal.ledger import Ledger
from svc_cluster.storage.wal.reader import SegmentReader, lives_in
from svc_cluster.storage.wal.replay import Replay
from svc_cluster.storage.wal.segment import (
    ACTIVE,
    DATA_START,
    Segment,
    SegmentHeader,
    read_slots,
    segment_number,
)
from svc_cluster.storage.wal.settings import WalSettings
from svc_cluster.storage.wal.supply import sync_segments

_ZEROS = bytes(1024 * 1024)


@dataclass(slots=True)
class Recovered:
    """What a restart found. `active` ends with the segment in which the log goes on at `offset`;
    `later` are segments that were made ready behind it."""

    logs: dict[GroupId, RecoveredLog]
    ledger: Ledger
    active: list[Segment]
    offset: int
    prev_crc: int
    later: list[Segment]
    free: list[Segment]
    next_number: int


def recover(disk: Disk, node_tag: int, settings: WalSettings) -> Recovered:
    """Raises WalFormatError for a log of another node or of a newer format."""
    coder = FrameCoder(node_tag)
    found, next_number = _find_segments(disk, node_tag, coder)
    sync_segments(disk, node_tag, found)
    active = sorted((s for s, _ in found if s.header.state == ACTIVE), key=lambda s: s.seq)
    free = [s for s, _ in found if s.header.state != ACTIVE]
    walk = _Walk(coder, active, settings)
    walk.run()
    logs, ledger = walk.replay.finish()
    if active:
        _wipe(disk, walk, active[walk.last])
    return Recovered(
        logs,
        ledger,
        active[: walk.last + 1],
        walk.offset,
        walk.prev_crc or 0,
        active[walk.last + 1 :],
        free,
        next_number,
    )


def _find_segments(
    disk: Disk, node_tag: int, coder: FrameCoder
) -> tuple[list[tuple[Segment, SegmentHeader | None]], int]:
    found: list[tuple[Segment, SegmentHeader | None]] = []
    next_number = 1
    for name in disk.list_names():
        number = segment_number(name)
        if number is None:
            continue
        next_number = max(next_number, number + 1)
        file = disk.open(name)
        slots = read_slots(file, node_tag)
        headers = [slot for slot in slots if slot is not None]
        if headers:
            header = max(headers, key=lambda h: h.generation)
            found.append((Segment(file, header, file.size()), slots[0]))
            continue
        life = lives_in(coder, file.pread(file.size(), 0))
        if life is None:
            file.close()
            disk.unlink(name)  # a crash came before its first header: it never held a frame
        else:
            header = SegmentHeader(ACTIVE, life[1], life[0])
            found.append((Segment(file, header, file.size()), None))
    return found, next_number


class _Walk:
    """The way through the segments."""

    def __init__(self, coder: FrameCoder, active: list[Segment], settings: WalSettings) -> None:
        self._coder = coder
        self._active = active
        self._accept_old = settings.unsafe_accept_old_generation_frames
        self._testimony: Position | None = None
        self.replay = Replay()
        self.last = 0
        """Which of `active` the log ends in."""
        self.offset = DATA_START
        self.prev_crc: int | None = None
        """Checksum of the frame before, None where it is unknown."""

    def run(self) -> None:
        for slot, segment in enumerate(self._active):
            before = self._active[slot - 1].seq if slot else segment.seq - 1
            if segment.seq != before + 1:
                # A whole segment is gone. The one before it was full, so this one was in use,
                # or nothing tells us that the missing one ever was.
                reader = self.reader(segment)
                if reader.next_from(DATA_START) is None:
                    return
                self.replay.hole((before + 1, 0))
                self.prev_crc = None
            self.last = slot
            if not self._read_segment(self.reader(segment), slot):
                return

    def reader(self, segment: Segment) -> SegmentReader:
        return SegmentReader(self._coder, segment, accept_old=self._accept_old)

    def _read_segment(self, reader: SegmentReader, slot: int) -> bool:
        """False when the log ends in this segment."""
        self.offset = DATA_START
        while True:
            frame = reader.at(self.offset)
            chained = frame is not None and (
                self.prev_crc is None or frame.prev_crc == self.prev_crc or self._accept_old
            )
            place = (reader.seq, self.offset)
            if frame is not None and chained and frame.payload_ok:
                self.prev_crc = frame.crc
                if frame.body.kind == fr.END:
                    if slot + 1 < len(self._active):
                        return True
                    self.offset = len(reader.data)
                    return False
                self.replay.apply(frame, place)
                self.offset = frame.end
            elif not self._is_corrupt(reader, slot, place):
                return False
            elif frame is None:
                self.replay.hole(place)
                self.prev_crc = None
                behind = reader.next_from(self.offset)
                if behind is None:
                    return True
                self.offset = behind
            elif not chained:
                self.replay.hole(place)
                self.prev_crc = None
            else:
                self.replay.damage(frame)
                self.prev_crc = frame.crc
                self.offset = frame.end

    def _is_corrupt(self, reader: SegmentReader, slot: int, place: Position) -> bool:
        """Whether a bad frame at `place` was once known to be synced."""
        if self._testimony is None:
            best = reader.testimony(place[1])
            for segment in self._active[slot + 1 :]:
                best = max(best, self.reader(segment).testimony(DATA_START))
            self._testimony = best
        return self._testimony > place


def _wipe(disk: Disk, walk: _Walk, segment: Segment) -> None:
    """Remove the torn window behind the end of the log, or its frames could be taken for frames
    of the windows that will be written over it. A crash in here leaves a torn tail again."""
    reader = walk.reader(segment)
    if reader.next_from(walk.offset) is None:
        return
    zeros = [
        (segment.file, offset, _ZEROS[: segment.size - offset])
        for offset in range(walk.offset, segment.size, len(_ZEROS))
    ]
    disk.write_sync(zeros)
