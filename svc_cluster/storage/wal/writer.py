"""The write-ahead log of a node, shared by all of its groups: one sync serves every append that
waits. It decides nothing about Raft; it must not reorder, drop or acknowledge early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from svc_cluster.base.ids import GroupId, LogIndex
from svc_cluster.base.log_ops import LogEntry, LogOp, RecoveredLog, SetCommit, TrimPrefix
from svc_cluster.base.write_set import Origin
from svc_cluster.storage.disk import Disk
from svc_cluster.storage.payload.payload_files import PayloadFiles
from svc_cluster.storage.payload.payload_frame import PayloadPlace
from svc_cluster.storage.wal import wal_frame as fr
from svc_cluster.storage.wal.ledger import Applied
from svc_cluster.storage.wal.pipeline import Pipeline
from svc_cluster.storage.wal.purge import Purge
from svc_cluster.storage.wal.reach import ReachFile
from svc_cluster.storage.wal.recovery import Recovered, recover
from svc_cluster.storage.wal.supply import SegmentSupply
from svc_cluster.storage.wal.wal_frame import FrameBody, FrameCoder
from svc_cluster.storage.wal.wal_settings import WalSettings


class Wal:
    """Opened with `Wal.open`. Not thread-safe: all calls and callbacks are on the event loop."""

    def __init__(
        self,
        disk: Disk,
        node_tag: int,
        settings: WalSettings,
        found: Recovered,
        payloads: PayloadFiles,
        on_space: Callable[[], None] | None,
    ) -> None:
        self._disk = disk
        self.payloads = payloads
        """Where the bytes of large entries are; the one who gives them out starts and closes it."""
        self._settings = settings
        self._ledger = found.ledger
        self._active = found.active
        self._reach = reach = ReachFile(disk, node_tag, found.serial, found.reach)
        self._supply = supply = SegmentSupply(disk, node_tag, settings, found.next_number)
        supply.continue_behind(found.active[-1].seq if found.active else 0)
        for segment in found.free:
            supply.put_back_now(segment)
        if not found.active:
            found.active.append(supply.take_now(None))
        supply.prepare_now(found.later[0] if found.later else None)
        for segment in found.later[1:]:
            supply.put_back_now(segment)
        self._pipeline = Pipeline(
            disk,
            FrameCoder(node_tag),
            settings,
            supply,
            found.ledger,
            found.active,
            found.offset,
            found.prev_crc,
            reach,
            payloads,
        )
        reach.write_now(
            reach.reach._replace(first_seq=found.active[0].seq, newest_seq=supply.newest_seq)
        )
        supply.start(self._pipeline.control, reach, self._pipeline.resume)
        self._purge = Purge(self._pipeline, supply, found.ledger, reach, found.active, on_space)
        self._closed = False
        self.recovered: dict[GroupId, RecoveredLog] = found.logs
        """What the disk held when it was opened; the caller may empty it once taken over."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        node_tag: int,
        settings: WalSettings,
        on_space: Callable[[], None] | None = None,
        *,
        is_expected: bool = False,
    ) -> Wal:
        """Recover the log in `disk`, or begin one. Blocking. `is_expected`: there has been one, so
        that one which begins here lacks all that was in it.

        `node_tag` (0 <= tag < 2**64) belongs to the node's identity and is part of every
        checksum. `on_space` runs after each segment that was freed. Raises WalFormatError,
        PayloadFormatError.
        """
        payloads = PayloadFiles(disk, node_tag, settings.payload, settings.reserve_bytes)
        found = recover(disk, node_tag, payloads)
        if is_expected and not found.is_marked:
            # in the mark from its first write on: a start that is cut short is known for one
            found.reach = found.reach._replace(lost=True)
        wal = cls(disk, node_tag, settings, found, payloads, on_space)
        damaged = [
            FrameBody(fr.STATE, group) for group, log in wal.recovered.items() if log.damaged
        ]
        wal._pipeline.flush_now(damaged, lambda: wal._settle(found))
        return wal

    def _settle(self, found: Recovered) -> None:
        """What was damaged is noted in the log: the files may be taken as they are now."""
        for segment in found.active:
            if segment.is_cut or not segment.header.length:
                self._supply.accept_length_now(segment)
        self._reach.write_now(
            self._reach.reach._replace(end=self._pipeline.position, unsettled=False)
        )

    @property
    def has_losses(self) -> bool:
        """Frames of replicas that nothing here names may have been lost. Whoever makes a replica
        that is not new cannot know what it has promised. Lasts over restarts."""
        return self._reach.reach.lost

    def note_losses(self, done: Callable[[], None]) -> None:
        """Say that there are such losses, where the log itself cannot know it; `done` once that is
        durable. A start that is cut short is then gone on with as it was begun."""
        self._reach.note_loss(done)

    def settle_losses(self) -> None:
        """Every replica that may have been among what was lost stands in the log again, damaged."""
        self._pipeline.put([], self._reach.settle_loss, force=True)

    def append(self, group: GroupId, ops: Sequence[LogOp], done: Callable[[], None] | None) -> None:
        """Write the operations, in order, behind everything appended before.

        `done` runs on the loop once a sync covers them. Without `done`, SetCommit and TrimPrefix
        wait for the next sync that something else needs, at the latest for `mark_idle`.
        """
        assert not self._closed, "nothing is appended to a closed WAL"
        assert group > 0, "group ids are positive"
        force = done is not None or not all(isinstance(op, SetCommit | TrimPrefix) for op in ops)
        self._pipeline.put(fr.encode_ops(group, ops), done, force=force)

    def sync(self, done: Callable[[], None]) -> None:
        """Call `done` once everything appended so far, and what rides, is on the disk."""
        self._pipeline.put([], done, force=True)

    def origin_of(self, group: GroupId, entry: LogEntry) -> Origin | None:
        """Where this entry of the log stands, for what is written because of it. None: inside."""
        place = self.place_of(group, entry.log_index)
        return None if place is None else Origin(place.number, place.offset, entry.payload)

    def place_of(self, group: GroupId, log_index: LogIndex) -> PayloadPlace | None:
        """Where the payload of this entry of the log stands, if it stands apart."""
        ledger = self._ledger.groups.get(group)
        return None if ledger is None else ledger.places.get(log_index)

    def placed_numbers(self) -> set[int]:
        """The payload files in which entries of the log stand."""
        return self._ledger.placed_numbers()

    def places(self) -> list[PayloadPlace]:
        """Where the payloads of entries of the log stand that stand apart."""
        return self._ledger.places()

    def distrust(self, group: GroupId) -> None:
        """Note that this replica was found damaged, as recovery does; InstallSnapshot ends it."""
        body = FrameBody(fr.STATE, group, flags=fr.FLAG_DAMAGED)
        self._pipeline.put([body], None, force=True)

    def mark_idle(self) -> None:
        """Sync what rides and write one mark behind the last batch, while nothing is being written.
        So damage to that batch can be told from a torn tail. This is to be called now and then (a
        tick of the node). Does nothing when there is nothing to do."""
        self._pipeline.mark()

    def set_flushed(self, group: GroupId, applied_index: LogIndex) -> None:
        """The state store has **durably** flushed this group's state up to `applied_index`.

        Also due after a restart, with the applied index that the store was opened with.
        """
        ledger = self._ledger.groups.get(group)
        if ledger is not None:
            ledger.flushed_index = max(ledger.flushed_index, applied_index)

    def release(self) -> None:
        """Start to free the oldest segments that nothing needs any more."""
        self._purge.release()

    def shrink(self) -> None:
        """To be called now and then: give the disk back the free segments that were of no use
        since the last call."""
        if not self._closed:
            self._supply.shrink()

    def needs_release(self, applied: Applied) -> bool:
        """The log, or what a restart applies once more from payload files, is more than it should
        be. Flush the groups of `pinned_by`, then release."""
        used = sum(segment.size for segment in self._active[:-1])
        if len(self._active) > 1 and used > self._settings.retain_bytes:
            return True
        return self._ledger.unflushed_payload_bytes(applied) > self._settings.retain_bytes

    def pinned_by(self) -> list[GroupId]:
        """Groups with entries in the oldest segment that are above their flushed index."""
        return self._purge.pinned_by()

    @property
    def free_bytes(self) -> int:
        """What the disk can still take, in bytes."""
        return self._disk.free_bytes()

    @property
    def reserve_bytes(self) -> int:
        """Free disk space that is kept for what the node itself must write."""
        return self._settings.reserve_bytes

    def has_space(self) -> bool:
        """False when free disk space is below the reserve: refuse appends, go on reading."""
        return self._disk.free_bytes() >= self._settings.reserve_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes of all segment files, free ones included."""
        return sum(segment.size for segment in self._active) + self._supply.free_bytes

    @property
    def used_segments(self) -> int:
        return len(self._active)

    @property
    def unsynced_bytes(self) -> int:
        """Bytes of frames that no sync covers yet, all of them in memory."""
        return self._pipeline.unsynced_bytes

    def destroyed(self) -> frozenset[GroupId]:
        """Destroyed groups of which older frames may still be in the log."""
        return frozenset(self._ledger.destroyed)

    async def close(self) -> None:
        """Sync everything appended, and a mark; then close the files. The disk stays open."""
        if self._closed:
            return
        self._closed = True
        self.payloads.stop()
        self._pipeline.drop_waiting()
        await self._idle()
        self._supply.stop()
        await self._idle()
        reach = self._reach
        self._pipeline.flush_now(
            (), lambda: reach.write_now(reach.reach._replace(end=self._pipeline.position))
        )
        reach.close()
        for segment in self._active + self._supply.segments():
            segment.file.close()

    async def _idle(self) -> None:
        """Return while nothing is being written. What the one part does once the other is idle may
        give that one work again, and so may whatever runs before this does."""
        while True:
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._pipeline.when_idle(partial(self._reach.when_idle, partial(_settle, idle)))
            await idle
            if self._pipeline.is_idle:
                return


def _settle(idle: asyncio.Future[None]) -> None:
    if not idle.done():
        idle.set_result(None)
