"""Reads the log after a restart: every frame in order, up to the torn tail of the last sync.

Torn or corrupt? Each frame carries `durable_before`, the place up to which the log was known to be
synced when it was written. A bad frame at `b` is **corruption** when any later whole frame has
`durable_before > b`; it is then stepped over, and the groups that it may have hurt are damaged.
Otherwise it is the **torn tail** of a crash: the log ends at `b`, whatever follows, because the
frames of one unsynced window reach the disk in any order. The payload of an ENTRY_AT frame is part
of its window: the log also ends at such a frame, behind everything known to be synced, if the
payload did not reach the disk. Of older ones only the entries that are left in the end are read.

`wal-reach` testifies too, and to what no frame can testify to: which segments must be there. One
that is gone, cut or there twice is damage.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from svc_cluster.base.ids import GroupId
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.storage.disk import Disk
from svc_cluster.storage.payload.payload_files import PayloadFiles
from svc_cluster.storage.payload.payload_frame import decode_place
from svc_cluster.storage.wal import wal_frame as fr
from svc_cluster.storage.wal.ledger import Ledger
from svc_cluster.storage.wal.reach import Reach, StoredReach, read_reach
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
from svc_cluster.storage.wal.supply import sync_segments
from svc_cluster.storage.wal.wal_frame import FrameBody, FrameCoder, Position

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
    cut: list[Segment]
    """Those of the log that are not as long as they were."""
    reach: Reach
    """What the log must hold from now on, but for what the start itself adds."""
    serial: int
    """The serial of the newest slot of `wal-reach`."""
    is_marked: bool
    """There was a `wal-reach` that could be read: a directory that ever held a log has one."""


def recover(disk: Disk, node_tag: int, payloads: PayloadFiles) -> Recovered:
    """Raises WalFormatError for a log of another node or of a newer format."""
    coder = FrameCoder(node_tag)
    known = read_reach(disk, node_tag)
    found, next_number = _find_segments(disk, node_tag, coder)
    sync_segments(disk, node_tag, found)
    segments = [segment for segment, _ in found]
    free = [segment for segment in segments if segment.header.state != ACTIVE]
    active, twice = _in_order(segments)
    walk = _SegmentWalk(coder, active, payloads)
    walk.must = _required(known, segments, twice)
    walk.run()
    walk.check_rest()
    logs, ledger = walk.replay.finish(payloads)
    payloads.sync(ledger.placed_numbers())
    if active:
        _wipe(disk, walk, active[walk.last])
    return Recovered(
        logs,
        ledger,
        active[: walk.last + 1],
        walk.offset,
        walk.last_crc,
        active[walk.last + 1 :],
        free + twice,
        next_number,
        [segment for segment in active[: walk.last + 1] if segment.is_cut],
        _next_reach(known.reach, active[: walk.last + 1], harmed=walk.replay.has_holes),
        known.serial,
        known.reach is not None,
    )


@dataclass(slots=True)
class _Required:
    """What a start expects of the log. Without a `reach`, as before there was one, frames alone
    say what is missing."""

    reach: Reach | None
    doubts: list[Position] = field(default_factory=list)
    """Places at which something is known to be wrong, whatever the frames say."""


def _required(known: StoredReach, segments: list[Segment], twice: list[Segment]) -> _Required:
    required = _Required(known.reach, [(segment.seq, 0) for segment in twice])
    if known.reach is None:
        if any(segment.header.length for segment in segments):
            # headers of this format are written only where a `wal-reach` stands
            required.doubts.append((max(segment.seq for segment in segments), 0))
    elif known.reach.unsettled:
        required.doubts.append(known.reach.end)
    return required


def _in_order(segments: list[Segment]) -> tuple[list[Segment], list[Segment]]:
    """The log's segments, and those that claim the place of another one and are older."""
    active = sorted(
        (segment for segment in segments if segment.header.state == ACTIVE),
        key=lambda segment: (segment.seq, -segment.generation),
    )
    kept: list[Segment] = []
    twice: list[Segment] = []
    for segment in active:
        known = bool(kept) and kept[-1].seq == segment.seq
        (twice if known else kept).append(segment)
    return kept, twice


def _next_reach(before: Reach | None, log: list[Segment], *, harmed: bool) -> Reach:
    """Segments behind the end of the log are needed no more, and are about to be used again."""
    first, newest = (log[0].seq, log[-1].seq) if log else (1, 0)
    end = (0, 0) if before is None else before.end
    return Reach(
        first,
        newest,
        end,
        lost=harmed or (before is not None and before.lost),
        unsettled=harmed,
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
        if file.size() < DATA_START:
            file.close()
            disk.unlink(name)  # no frame is in it; whether one was, wal-reach knows
            continue
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


class _SegmentWalk:
    """The way through the segments."""

    def __init__(self, coder: FrameCoder, active: list[Segment], payloads: PayloadFiles) -> None:
        self._coder = coder
        self._payloads = payloads
        self._active = active
        self._testimony: Position | None = None
        self.must = _Required(None)
        self.replay = Replay()
        self.last = 0
        """Which of `active` the log ends in."""
        self.offset = DATA_START
        self.prev_crc: int | None = None
        """Checksum of the frame before, None where it is unknown."""
        self.last_crc = 0
        """Checksum of the last frame that was found: what is written next continues it."""

    def run(self) -> None:
        reach = self.must.reach
        for slot, segment in enumerate(self._active):
            before = self._active[slot - 1].seq if slot else segment.seq - 1
            if reach is not None and not slot:
                before = min(before, reach.first_seq - 1)
            if segment.seq != before + 1:
                # A whole segment is gone. The one before it was full, so this one was in use,
                # or nothing but wal-reach tells us that the missing one ever was.
                is_empty = self.reader(segment).next_from(DATA_START) is None
                if not is_empty or (reach is not None and before < reach.newest_seq):
                    self.replay.hole((before + 1, 0))
                    self.prev_crc = None
                if is_empty and slot:
                    return
            self.last = slot
            goes_on = self._read_segment(self.reader(segment), slot)
            if segment.is_cut:
                self.replay.hole((segment.seq, segment.size))
                self.prev_crc = None
            if not goes_on:
                return

    def check_rest(self) -> None:
        """Note as holes what must be there behind the end of the log and is not."""
        for doubt in self.must.doubts:
            self.replay.hole(doubt)
        reach = self.must.reach
        if reach is None:
            return
        end = self._active[self.last].seq if self._active else reach.first_seq - 1
        later = {segment.seq for segment in self._active[self.last + 1 :]}
        cut = any(segment.is_cut for segment in self._active[self.last + 1 :])
        missing = [seq for seq in range(end + 1, reach.newest_seq + 1) if seq not in later]
        if missing or cut:
            self.replay.hole((missing[0] if missing else end + 1, 0))

    def reader(self, segment: Segment) -> SegmentReader:
        return SegmentReader(self._coder, segment)

    def _read_segment(self, reader: SegmentReader, slot: int) -> bool:
        """False when the log ends in this segment."""
        self.offset = DATA_START
        while True:
            frame = reader.at(self.offset)
            chained = frame is not None and (
                self.prev_crc is None or frame.prev_crc == self.prev_crc
            )
            place = (reader.seq, self.offset)
            if frame is not None and chained and frame.payload_ok:
                if self._lacks_payload(reader, slot, place, frame.body):
                    return False
                self.prev_crc = self.last_crc = frame.crc
                if frame.body.kind == fr.END and fr.is_well_formed(frame.body):
                    self.offset = len(reader.data)  # nothing may be written over this frame
                    return slot + 1 < len(self._active)
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
                self.prev_crc = self.last_crc = frame.crc
                self.offset = frame.end

    def _lacks_payload(
        self, reader: SegmentReader, slot: int, place: Position, body: FrameBody
    ) -> bool:
        """Whether the entry's payload is not where the frame tells, and nothing says that the two
        were ever synced. Of what was synced, the payload may be gone for a good reason: the log
        begins behind it by now."""
        if body.kind != fr.ENTRY_AT or not fr.is_well_formed(body):
            return False
        if self._is_corrupt(reader, slot, place):
            return False
        return self._payloads.read_entry(decode_place(body.payload), fr.entry_name(body)) is None

    def _is_corrupt(self, reader: SegmentReader, slot: int, place: Position) -> bool:
        """Whether a bad frame at `place` was once known to be synced."""
        if self._testimony is None:
            best = reader.testimony(place[1])
            for segment in self._active[slot + 1 :]:
                best = max(best, self.reader(segment).testimony(DATA_START))
            reach = self.must.reach
            self._testimony = best if reach is None else max(best, reach.end)
        return self._testimony > place


def _wipe(disk: Disk, walk: _SegmentWalk, segment: Segment) -> None:
    """Remove the torn window behind the end of the log. Its frames could otherwise be taken for
    frames of the windows that will be written over it. A crash in here leaves a torn tail again."""
    reader = walk.reader(segment)
    if reader.next_from(walk.offset) is None:
        return
    zeros = [
        (segment.file, offset, _ZEROS[: segment.size - offset])
        for offset in range(walk.offset, segment.size, len(_ZEROS))
    ]
    disk.write_sync(zeros)
