"""How far the log must reach: a small file beside the segments, `wal-reach`.

Frames testify to what was synced before them, so nothing testifies to the end of the log, and a
segment that is gone takes its testimony along. This file names the segments that must be there and
a place up to which everything was synced. What is missing of that is damage (ADR 0019).

It holds two slots, written in turn and never both at once, so a crash tears at most one of them;
the whole one with the higher serial counts. A quiet log makes both of them say the same.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from svc_cluster.base.checksum import crc32c
from svc_cluster.model import versions
from svc_cluster.storage.disk import Disk, DiskFile
from svc_cluster.storage.wal.wal_frame import Position
from svc_cluster.storage.wal.wal_settings import WalFormatError

NAME: Final = "wal-reach"
FORMAT: Final = versions.newest_read(versions.WAL_REACH)
SLOT_BYTES: Final = 4096
FILE_BYTES: Final = 2 * SLOT_BYTES
BATCHES_MAX: Final = 64
"""Sync batches after which a busy log's end is written down anew, beside the log's own syncs."""

_MAGIC: Final = b"svcWALrc"
_FIELDS: Final = struct.Struct("<8sIIQQQQQQ")
_CRC: Final = struct.Struct("<I")
_LOST: Final = 1
_UNSETTLED: Final = 2

Done = Callable[[], None]


class Reach(NamedTuple):
    """What must be there. `newest_seq` is 0 before the first segment."""

    first_seq: int
    """The oldest segment of the log; older ones are freed, or about to be."""
    newest_seq: int
    """The newest segment that was ever made ready. No frame in it is durable before this is."""
    end: Position = (0, 0)
    """Everything before it was synced."""
    lost: bool = False
    """Frames were lost: a replica that no frame names may have stood in them."""
    unsettled: bool = False
    """Damage was found, and the replicas that it hurt are not noted in the log yet."""


class StoredReach(NamedTuple):
    """The file at a start. `reach` is None when there is none that can be read."""

    reach: Reach | None
    serial: int


def read_reach(disk: Disk, node_tag: int) -> StoredReach:
    """Blocking. Raises WalFormatError for another node's file or a format of the future."""
    best = StoredReach(None, 0)
    if NAME in disk.list_names():
        file = disk.open(NAME)
        for slot in (0, 1):
            found = decode(file.pread(_FIELDS.size + _CRC.size, slot * SLOT_BYTES), node_tag)
            if found is not None and (best.reach is None or found.serial > best.serial):
                best = found
        file.close()
    return best


class ReachFile:
    """The writer of the file; at most one write is under way. Its callbacks are on the loop."""

    def __init__(self, disk: Disk, node_tag: int, serial: int, reach: Reach) -> None:
        """Makes the file if it is not there, and `reach` its content. Blocking."""
        self._disk = disk
        self._node_tag = node_tag
        self._serial = serial
        self._reach = reach
        self._slot = 1
        """Which slot was written last."""
        self._slots: list[Reach | None] = [None, None]
        self._batches = 0
        self._due = False
        self._quiet = False
        self._in_flight = False
        self._waiting: list[Done] = []
        self._on_idle: list[Done] = []
        self._file = self._open()
        self.write_now(reach)

    @property
    def reach(self) -> Reach:
        """What the file says, or will say next."""
        return self._reach

    def write_now(self, reach: Reach) -> None:
        """Put `reach` into both slots, one after the other. Blocking: for start-up and shutdown."""
        assert not self._in_flight, "only while idle"
        self._reach = reach
        for _ in (0, 1):
            slot, data = self._next_slot()
            self._disk.write_sync([(self._file, slot * SLOT_BYTES, data)])
            self._slots[slot] = reach

    def raise_newest(self, segment_seq: int, done: Done) -> None:
        """A segment is ready; `done` once that is durable, and frames may stand in it."""
        self._change(self._reach._replace(newest_seq=segment_seq), done)

    def raise_first(self, segment_seq: int, done: Done) -> None:
        """Older segments are needed no more; `done` once that is durable, and they may go."""
        self._change(self._reach._replace(first_seq=segment_seq), done)

    def note_loss(self, done: Done) -> None:
        """Replicas may be missing from the log; `done` once that is durable."""
        self._change(self._reach._replace(lost=True), done)

    def settle_loss(self) -> None:
        """Every replica that may have been in what was lost is noted in the log, durably."""
        self._change(self._reach._replace(lost=False), None)

    def synced(self, end: Position, *, quiet: bool) -> None:
        """A batch is durable. Its end is written down after some batches, or at once when it was
        the last of a log that is `quiet` now."""
        self._reach = self._reach._replace(end=end)
        self._batches += 1
        self._quiet = quiet
        if quiet or self._batches >= BATCHES_MAX:
            self._due = True
            self._pump()

    def when_idle(self, done: Done) -> None:
        """Call back once nothing is under way."""
        if self._in_flight:
            self._on_idle.append(done)
        else:
            done()

    def close(self) -> None:
        self._file.close()

    def _change(self, reach: Reach, done: Done | None) -> None:
        self._reach = reach
        if done is not None:
            self._waiting.append(done)
        self._due = True
        self._pump()

    def _pump(self) -> None:
        if self._in_flight or not self._due:
            return
        self._due, self._in_flight, self._batches = False, True, 0
        written, waiting, self._waiting = self._reach, self._waiting, []
        slot, data = self._next_slot()

        def finished() -> None:
            self._in_flight = False
            self._slots[slot] = written
            if self._quiet and self._slots != [self._reach, self._reach]:
                self._due = True
            for done in waiting:
                done()
            self._pump()
            if not self._in_flight:
                listeners, self._on_idle = self._on_idle, []
                for listener in listeners:
                    listener()

        self._disk.submit_aside([(self._file, slot * SLOT_BYTES, data)], finished)

    def _next_slot(self) -> tuple[int, bytes]:
        """The slot that was not written last, and what goes into it."""
        self._slot = 1 - self._slot
        self._serial += 1
        return self._slot, encode(self._reach, self._serial, self._node_tag)

    def _open(self) -> DiskFile:
        if NAME in self._disk.list_names():
            file = self._disk.open(NAME)
            if file.size() == FILE_BYTES:
                if self._holds(file, 1 - self._slot):
                    self._slot = 1 - self._slot
                return file
            file.close()
            self._disk.unlink(NAME)
        return self._disk.create(NAME, FILE_BYTES)

    def _holds(self, file: DiskFile, slot: int) -> bool:
        """Whether the newest content stands in that slot: it must not be written over first."""
        data = file.pread(_FIELDS.size + _CRC.size, slot * SLOT_BYTES)
        found = decode(data, self._node_tag)
        return found is not None and found.serial == self._serial


def encode(reach: Reach, serial: int, node_tag: int) -> bytes:
    """One slot."""
    fields = _FIELDS.pack(
        _MAGIC,
        FORMAT,
        reach.lost * _LOST | reach.unsettled * _UNSETTLED,
        node_tag,
        serial,
        reach.first_seq,
        reach.newest_seq,
        *reach.end,
    )
    return fields + _CRC.pack(crc32c(fields))


def decode(data: bytes, node_tag: int) -> StoredReach | None:
    """What one slot says; None when it is torn, damaged or was never written."""
    if len(data) < _FIELDS.size + _CRC.size:
        return None
    magic, version, flags, tag, serial, first, newest, *end = _FIELDS.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _FIELDS.size)
    if magic != _MAGIC or crc != crc32c(data[: _FIELDS.size]):
        return None
    if version != FORMAT:
        raise WalFormatError(
            f"{NAME} has format {version}, this program reads format {FORMAT}: start the version "
            "of the program that wrote it"
        )
    if tag != node_tag:
        raise WalFormatError(
            f"{NAME} was written by another node identity: give this node its own data directory, "
            "or restore the identity that belongs to this one"
        )
    lost, unsettled = bool(flags & _LOST), bool(flags & _UNSETTLED)
    return StoredReach(Reach(first, newest, (end[0], end[1]), lost, unsettled), serial)
