"""The pipeline turns operations into frames and frames into sync batches. One submission is in
flight at a time, the next batch fills meanwhile. No timers and no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from svc_cluster.base.ids import GroupId
from svc_cluster.storage.disk import Disk
from svc_cluster.storage.payload.payload_files import PayloadFiles
from svc_cluster.storage.payload.payload_frame import PLACE_BYTES, encode_place
from svc_cluster.storage.wal import wal_frame as fr
from svc_cluster.storage.wal.ledger import Ledger
from svc_cluster.storage.wal.reach import ReachFile
from svc_cluster.storage.wal.recent_batches import RecentBatches
from svc_cluster.storage.wal.segment import DATA_START, Segment
from svc_cluster.storage.wal.supply import SegmentSupply, Writes
from svc_cluster.storage.wal.wal_frame import (
    HEADER_BYTES,
    BatchHeader,
    FrameBody,
    FrameCoder,
    Position,
    encode_batch_header,
    frame_bytes,
)
from svc_cluster.storage.wal.wal_settings import WalSettings

_JOINED_BYTES_MAX: Final = 4096
"""Payloads up to this are copied together; larger ones go to the disk as they are."""
_RIDING_BYTES_MAX: Final = 64 * 1024
"""Operations that may wait for another one's sync are not let pile up beyond this."""

Done = Callable[[], None]


class _SyncBatch:
    """What one sync will make durable."""

    __slots__ = (
        "begun",
        "dones",
        "end",
        "filled",
        "forced",
        "groups",
        "payloads",
        "start",
        "total_bytes",
        "writes",
    )

    def __init__(self, start: Position) -> None:
        self.start = self.end = start
        self.begun = False
        self.forced = False
        self.total_bytes = 0
        self.payloads: Writes = []
        """To payload files, ahead of the frames that tell where they stand."""
        self.writes: Writes = []
        self.filled: list[int] = []
        """Payload files to which nothing more is written behind this."""
        self.dones: list[Done] = []
        self.groups: dict[int, int] = {}
        """The last `group_seq` of each group with a frame in here."""


class Pipeline:
    """The one writer of frames. `active` is the log's segments, oldest first; it appends to it."""

    def __init__(
        self,
        disk: Disk,
        coder: FrameCoder,
        settings: WalSettings,
        supply: SegmentSupply,
        ledger: Ledger,
        active: list[Segment],
        offset: int,
        prev_crc: int,
        reach: ReachFile,
        payloads: PayloadFiles,
    ) -> None:
        self._disk = disk
        self._payloads = payloads
        self._reach = reach
        self._coder = coder
        self._settings = settings
        self._supply = supply
        self._ledger = ledger
        self._active = active
        self._offset = offset
        self._prev_crc = prev_crc
        self._run: list[bytes] = []
        self._run_start = offset
        self._sealed = self.position
        self._batch = _SyncBatch(self._sealed)
        self._recent = RecentBatches()
        self._controls: list[tuple[Writes, Done]] = []
        self._waiting: deque[tuple[list[FrameBody], Done | None, bool]] = deque()
        self._waiting_bytes = 0
        self._in_flight = False
        self._in_flight_bytes = 0
        self._draining = False
        self._marked = False
        self._on_idle: list[Done] = []

    @property
    def position(self) -> Position:
        """Where the next frame will stand."""
        return (self._active[-1].seq, self._offset)

    @property
    def is_idle(self) -> bool:
        """Nothing is in flight and nothing waits; operations that ride may be left."""
        return not (self._in_flight or self._waiting or self._batch.forced or self._controls)

    @property
    def unsynced_bytes(self) -> int:
        """Return the bytes of frames that no sync covers yet. They are what waits for room, the
        batch that fills and the one that is being written."""
        return self._waiting_bytes + self._batch.total_bytes + self._in_flight_bytes

    def put_ahead(self, bodies: Iterable[FrameBody], done: Done) -> None:
        """Does what `put` does, ahead of what waits for room and with the last segment there is. It
        is for frames that make room, and depend on nothing that waits."""
        items = list(bodies)
        if self._frame_all(items, last=True):
            self._finish_put(done, force=True)
        else:
            self._waiting.appendleft((items, done, True))
            self._waiting_bytes += _size(items)
            self._push_on()

    def put(self, bodies: Iterable[FrameBody], done: Done | None, *, force: bool) -> None:
        """Frame the bodies behind all before them; `done` after a sync covers them."""
        items = list(bodies)
        if self._waiting or not self._frame_all(items):
            self._waiting.append((items, done, False))
            self._waiting_bytes += _size(items)
            self._push_on()
            return
        self._finish_put(done, force=force)

    def control(self, writes: Writes, done: Done) -> None:
        """Make bytes outside of the log durable along with the next sync."""
        self._controls.append((writes, done))
        if not self._draining:
            self._pump()

    def mark(self) -> None:
        """Called while the WAL is quiet: sync what rides, then once testify to the last sync."""
        if self._waiting:
            self.resume()  # the disk may have room again without a segment having been freed
        if self._in_flight or self._waiting or (self._marked and not self._batch.begun):
            return
        self._begin_batch(last=False)
        self._batch.forced = self._batch.begun
        self._pump()

    def when_idle(self, done: Done) -> None:
        if self.is_idle:
            done()
        else:
            self._on_idle.append(done)

    def flush_now(
        self, bodies: Iterable[FrameBody] = (), then: Callable[[], None] = lambda: None
    ) -> None:
        """Write `bodies`, what rides, and a testimony, blocking, for start-up and shutdown. Then do
        what is to be done before anything else is submitted."""
        assert not self._in_flight, "only while idle"
        assert not self._waiting, "only while idle"
        self._draining = True  # nothing is submitted on the side
        for body in bodies:
            self._frame(body, last=True)
        self._begin_batch(last=True)
        batch = self._seal()
        self._disk.write_sync(batch.writes)
        self._payloads.settled(batch.filled)
        for done in batch.dones:
            done()
        then()
        self._draining = False
        self._pump()

    def drop_waiting(self) -> None:
        """Give up, before the end, on operations for which the disk has no room. They were never
        reported durable."""
        if not (self._in_flight or self._supply.is_busy):
            self._waiting.clear()
            self._waiting_bytes = 0

    def resume(self) -> None:
        """A segment has become ready."""
        self._drain_waiting()
        self._pump()

    # Framing

    def _finish_put(self, done: Done | None, *, force: bool) -> None:
        batch = self._batch
        if done is not None:
            batch.dones.append(done)
        if force or batch.total_bytes > _RIDING_BYTES_MAX:
            batch.forced = True
        if not self._draining:
            self._pump()

    def _frame_all(self, items: list[FrameBody], *, last: bool = False) -> bool:
        """Frame the items; what does not fit stays in the list."""
        for place, body in enumerate(items):
            if not self._frame(body, last=last):
                del items[:place]
                return False
        return True

    def _frame(self, body: FrameBody, *, last: bool) -> bool:
        if self._batch.total_bytes >= self._settings.batch_bytes_max and not last:
            return False
        if body.kind == fr.STATE and body.group not in self._ledger.groups:
            return True  # destroyed while this waited
        return self._begin_batch(last=last) and self._put_frame(body, last=last)

    def _begin_batch(self, *, last: bool) -> bool:
        if self._batch.begun:
            return True
        covers_from = self._recent.start or self._sealed
        batch_header = encode_batch_header(BatchHeader(covers_from, self._recent.groups))
        first = FrameBody(fr.BATCH, GroupId(0), payload=batch_header)
        self._batch.begun = self._put_frame(first, last=last)
        return self._batch.begun

    def _put_frame(self, body: FrameBody, *, last: bool) -> bool:
        payload_bytes = len(body.payload)
        if body.kind == fr.STATE:
            payload_bytes = fr.state_bytes(self._ledger.groups[body.group].configuration)
        apart = body.kind == fr.ENTRY and self._payloads.takes(payload_bytes)
        if apart:
            payload_bytes = PLACE_BYTES
        room = frame_bytes(payload_bytes) + HEADER_BYTES
        if self._offset + room > self._active[-1].size:
            assert room <= self._settings.segment_bytes - DATA_START, "an entry fits a segment"
            segment = self._supply.take(last=last)
            if segment is None:
                return False
            if self._offset + HEADER_BYTES <= self._active[-1].size:
                self._write_frame(FrameBody(fr.END, GroupId(0)))
            self._cut_run()
            self._active.append(segment)
            self._offset = self._run_start = DATA_START
        self._write_frame(self._put_apart(body) if apart else body)
        return True

    def _put_apart(self, body: FrameBody) -> FrameBody:
        """The frame that tells where the payload stands, which is written in the same batch."""
        batch = self._batch
        place, writes = self._payloads.put(fr.entry_name(body), body.payload)
        batch.payloads += writes
        batch.total_bytes += sum(len(data) for _, _, data in writes)
        return body._replace(kind=fr.ENTRY_AT, payload=encode_place(place))

    def _write_frame(self, body: FrameBody) -> None:
        segment = self._active[-1]
        group_seq = 0
        if body.kind == fr.STATE:
            ledger = self._ledger.groups[body.group]
            ledger.damaged = ledger.damaged or bool(body.flags & fr.FLAG_DAMAGED)
            state = ledger.leave(body.log_index)
            body = body._replace(payload=fr.encode_state(state))
        if body.group:
            group_seq = self._ledger.note(body, segment.seq)
            self._batch.groups[body.group] = group_seq
        header, self._prev_crc = self._coder.header(
            body,
            place=(segment.seq, self._offset),
            generation=segment.generation,
            group_seq=group_seq,
            durable_before=self._sealed,
            prev_crc=self._prev_crc,
        )
        payload = body.payload
        self._run.append(header)
        if len(payload) > _JOINED_BYTES_MAX:
            self._cut_run()
            self._batch.writes.append((segment.file, self._run_start, payload))
            self._run_start += len(payload)
        elif payload:
            self._run.append(payload)
        size = frame_bytes(len(payload))
        padding = size - HEADER_BYTES - len(payload)
        if padding:
            self._run.append(bytes(padding))
        self._offset += size
        self._batch.total_bytes += size

    def _cut_run(self) -> None:
        """Close the stretch of joined pieces at the current segment."""
        if self._run:
            data = b"".join(self._run)
            self._batch.writes.append((self._active[-1].file, self._run_start, data))
            self._run_start += len(data)
            self._run.clear()

    def _push_on(self) -> None:
        """Operations wait: see to it that the batch in their way goes, and a segment comes."""
        self._batch.forced = self._batch.forced or self._batch.begun
        self._supply.prepare(must=True)
        if not self._draining:
            self._pump()

    # Syncing

    def _seal(self) -> _SyncBatch:
        self._cut_run()
        batch = self._batch
        batch.writes = batch.payloads + batch.writes
        batch.filled = self._payloads.take_filled()
        self._sealed = batch.end = self.position
        self._batch = _SyncBatch(self._sealed)
        if batch.begun:
            self._marked = not batch.groups
            self._recent.add(batch.start, batch.total_bytes, batch.groups)
        return batch

    def _pump(self) -> None:
        if self._in_flight or not (self._batch.forced or self._controls):
            return
        batch = self._seal()
        controls, self._controls = self._controls, []
        writes = batch.writes
        for extra, _ in controls:
            writes = writes + extra
        batch.writes = batch.payloads = []
        self._in_flight = True
        self._in_flight_bytes = batch.total_bytes
        self._disk.submit(writes, lambda: self._synced(batch, controls))

    def _synced(self, batch: _SyncBatch, controls: list[tuple[Writes, Done]]) -> None:
        self._in_flight = False
        self._in_flight_bytes = 0
        self._payloads.settled(batch.filled)
        self._draining = True
        for _, control_done in controls:
            control_done()
        self._draining = False
        if batch.begun:
            self._reach.synced(batch.end, quiet=not batch.groups)
        self._drain_waiting()
        self._pump()
        dones, batch.dones = batch.dones, []
        for done in dones:
            done()
        if self._on_idle and self.is_idle:
            listeners, self._on_idle = self._on_idle, []
            for listener in listeners:
                listener()

    def _drain_waiting(self) -> None:
        self._draining = True
        while self._waiting:
            items, done, last = self._waiting[0]
            before = _size(items)
            is_framed = self._frame_all(items, last=last)
            self._waiting_bytes -= before if is_framed else before - _size(items)
            if not is_framed:
                self._push_on()
                break
            self._waiting.popleft()
            self._finish_put(done, force=True)
        self._draining = False


def _size(items: list[FrameBody]) -> int:
    """About how much these take as frames."""
    return sum(frame_bytes(len(body.payload)) for body in items)
