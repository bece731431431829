"""The payload files of a node, from their making to their end or their next life.

One is written, one is ready for when that is full, some hold what is needed, and those that hold
nothing are used again under a new number.

A file's name says its number. What it holds is known only to those who keep places: the log and
the state store. It never gives a number twice in one process, nor one below any that is named.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence

from svc_cluster.base.checksum import crc32c
from svc_cluster.base.log import get_logger
from svc_cluster.storage.disk import Disk, DiskFile
from svc_cluster.storage.holes import Stretch
from svc_cluster.storage.payload.open_files import OpenFiles
from svc_cluster.storage.payload.payload_frame import (
    BLOCK_BYTES,
    FORMAT,
    FRAME_HEADER_BYTES,
    EntryName,
    PayloadPlace,
    decode_head,
    encode_frame,
    encode_head,
    file_name,
    file_number,
    frame_bytes,
    holds,
)
from svc_cluster.storage.payload.payload_settings import PayloadFormatError, PayloadSettings

log = get_logger("storage.payload")
Writes = list[tuple[DiskFile, int, bytes]]


class PayloadFiles:
    """Owner of the files. All calls are for the event loop; `read` is for any thread.

    Until `start` it only reads.
    """

    def __init__(
        self, disk: Disk, node_tag: int, settings: PayloadSettings, reserve_bytes: int = 0
    ) -> None:
        """Open what is there. Blocking. `reserve_bytes`: free disk space that no new file is made
        of. Raises PayloadFormatError."""
        self._disk = disk
        self._node_tag = node_tag
        self._settings = settings
        self._reserve_bytes = reserve_bytes
        self._files: dict[int, DiskFile] = {}
        """Files with something in them, or of which that is not known yet."""
        self._open_files = OpenFiles(settings.open_files_max, self._is_settled)
        self._written: set[int] = set()
        """Files that writes are made to, or may be under way to."""
        self._filled: list[int] = []
        """Those of them that get nothing more."""
        self._current: int | None = None
        """The file that is written."""
        self._offset = 0
        self._ready: tuple[int, DiskFile] | None = None
        self._spares: list[DiskFile] = []
        self._missing: dict[str, int] = {}
        """Bytes of holes in files that have some, by name."""
        self._digging: set[int] = set()
        """Files in which holes are being made."""
        self._writes = settings.writes
        self.can_dig = False
        """Holes can be made, also in files of before that get nothing more."""
        self.lost: set[int] = set()
        """Files that something needs, or did at the start, and that are gone."""
        self._taken = 0
        """Files begun since the last `shrink`."""
        self._preparing = False
        self._running = False
        self._next_number = 1
        self.inline_entries = 0
        """Entries that were long enough, and went into the log as no file had room."""
        for name in disk.list_names():
            number = file_number(name)
            if number is not None:
                self._open(number, name)

    @property
    def settings(self) -> PayloadSettings:
        return self._settings

    @property
    def size_bytes(self) -> int:
        """Bytes that all files take, free ones included."""
        ready = [] if self._ready is None else [self._ready[1]]
        files = [*self._files.values(), *self._spares, *ready]
        return sum(file.size() - self._missing.get(file.name, 0) for file in files)

    def length(self, number: int) -> int:
        """Return how long this file is, holes included."""
        return self._files[number].size()

    def held_bytes(self, number: int) -> int:
        """Bytes that this file takes, without its holes."""
        file = self._files[number]
        return file.size() - self._missing.get(file.name, 0)

    @property
    def is_busy(self) -> bool:
        """A file is being made ready."""
        return self._preparing

    def closed_numbers(self) -> list[int]:
        """The files to which nothing more is written and that are not free, in their order."""
        return sorted(number for number in self._files if number not in self._written)

    # -- life

    def start(self, named: Iterable[int]) -> list[int]:
        """From now on files may be written and used again. `named`: the numbers that the log and
        the state store name; what they do not name is free. Returns those that are gone."""
        needed = set(named)
        for number in [one for one in self._files if one not in needed]:
            self._let_go(number)
        self.lost = needed - self._files.keys()
        self._next_number = max([self._next_number - 1, *needed]) + 1
        self._running = True
        self.can_dig = self._disk.makes_holes()
        if self._writes:
            self._writes = False
            self.begin()
        return sorted(self.lost)

    def begin(self) -> None:
        """From now on large entries go into payload files, if these can have holes. The settings
        allow it, or, later, the cluster's active version does."""
        if self._writes or not self._running:
            return
        self._writes = self.can_dig
        if not self.can_dig:
            log.warning("payload_files_off", reason="the file system makes no holes in files")
        self._prepare()

    def stop(self) -> None:
        """Begin nothing more. What is there is read until `close`."""
        self._running = False

    def close(self) -> None:
        """Close the files. Nobody reads any more."""
        self._running = False
        ready = [] if self._ready is None else [self._ready[1]]
        for file in [*self._files.values(), *self._spares, *ready]:
            file.close()

    def retire(self, number: int) -> None:
        """Nothing in the file is needed, and nobody reads it: it may be used again."""
        assert number not in self._digging, "a file in the making of holes is not free"
        assert number not in self._written, "a file with writes under way is not free"
        if number in self.lost:
            self.lost.discard(number)
            return
        self._let_go(number)
        self._prepare()

    def shrink(self) -> None:
        """To be called now and then: remove free files beyond as many as were begun since the last
        call, and one."""
        surplus = len(self._spares) - self._taken - (1 if self._writes else 0)
        self._taken = 0
        if self._running and not self._preparing:
            for _ in range(surplus):
                self._remove(self._spares.pop())

    def is_digging(self, number: int) -> bool:
        """Whether holes are being made in the file."""
        return number in self._digging

    def dig(self, number: int, holes: Sequence[Stretch], done: Callable[[int], None]) -> None:
        """Nothing there is needed, and nobody reads it: give it back. What was given back before is
        among it. `done` is told how many bytes that makes more. Only where `can_dig`."""
        assert number not in self._written, "a file with writes under way gets no holes"
        assert number not in self._digging, "holes of one file come one set after the other"
        file = self._files[number]
        self._digging.add(number)

        def dug(is_whole: bool) -> None:
            self._digging.discard(number)
            before = self._missing.get(file.name, 0)
            if is_whole:
                # as counted here: what the file system takes for many holes is none of it
                self._missing[file.name] = sum(size for _, size in holes)
            else:
                self._note_missing(file)
                self._stop_digging()
            done(max(0, self._missing.get(file.name, 0) - before))

        self._disk.submit_holes(file, holes, dug)

    def _stop_digging(self) -> None:
        """Nothing is lost by a refusal; a next start tries anew. Nothing more is written, as its
        space would not come back."""
        if self.can_dig:
            self.can_dig = self._writes = False
            log.warning("payload_holes_off", reason="the file system refuses to make a hole")

    def _note_missing(self, file: DiskFile) -> None:
        missing = file.size() - file.held_bytes()
        if missing > 0:
            self._missing[file.name] = missing

    def _is_settled(self, number: int, file: DiskFile) -> bool:
        return self._files.get(number) is file and number not in self._written

    def _let_go(self, number: int) -> None:
        # out of `_files` first: a read that comes late tells of the file, and it counts no more
        file = self._files.pop(number)
        self._open_files.give_up(number, file)
        self._free(file)

    def _free(self, file: DiskFile) -> None:
        if file.size() == self._settings.file_bytes:
            self._spares.append(file)
        else:
            self._remove(file)  # of other settings, or cut by a crash while it was made

    def _remove(self, file: DiskFile) -> None:
        file.close()
        self._missing.pop(file.name, None)
        self._disk.submit_unlink(file.name)

    # -- writing

    def takes(self, payload_bytes: int) -> bool:
        """Whether an entry of so many bytes is to be put here now."""
        if not self._writes or payload_bytes < self._settings.bulk_bytes_min:
            return False
        if self._running and self._has_room(frame_bytes(payload_bytes)):
            return True
        self.inline_entries += 1
        self._prepare()
        return False

    def put(self, entry: EntryName, payload: bytes) -> tuple[PayloadPlace, Writes]:
        """The entry's place, and what is to be written for it to be there. Only what `takes`."""
        size = frame_bytes(len(payload))
        number = self._current
        if number is None or self._offset + size > self._files[number].size():
            assert self._ready is not None, "there is room"
            if self._current is not None:
                self._filled.append(self._current)
            (number, file), self._ready = self._ready, None
            self._written.add(number)
            self._files[number] = file
            self._current, self._offset = number, BLOCK_BYTES
            self._taken += 1
            self._prepare()
        file, offset = self._files[number], self._offset
        header, padding, place = encode_frame(self._node_tag, number, offset, entry, payload)
        self._offset += size
        behind = place.offset + place.length
        return place, [
            (file, offset, header),
            (file, place.offset, payload),
            (file, behind, padding),
        ]

    def take_filled(self) -> list[int]:
        """Return the files that get nothing more since the last call.

        All that is to be written to them has been given out by `put`.
        """
        filled, self._filled = self._filled, []
        return filled

    def settled(self, filled: Iterable[int]) -> None:
        """What was given out before these were taken is written."""
        for number in filled:
            self._written.discard(number)
            self._open_files.opened(number, self._files[number])

    def _has_room(self, size: int) -> bool:
        current = self._current
        if current is not None and self._offset + size <= self._files[current].size():
            return True
        return self._ready is not None and BLOCK_BYTES + size <= self._ready[1].size()

    # -- reading

    def read(self, place: PayloadPlace) -> bytes | None:
        """What stands there, or None for anything else than what is to stand there. Blocking."""
        file = self._files.get(place.number)
        if file is None:
            return None
        try:
            data = self._pread(place.number, file, place.length, place.offset)
        except OSError as failure:
            if failure.errno in (errno.EBADF, errno.ENOENT):
                return None  # closed, or renamed, meanwhile: the file was free
            raise
        return data if _is_right(place, data) else None

    def read_cached(self, place: PayloadPlace) -> bytes | None:
        """Does what `read` does if memory has it all, and returns None otherwise."""
        file = self._files.get(place.number)
        data = None if file is None else file.pread_cached(place.length, place.offset)
        return data if data is not None and _is_right(place, data) else None

    def read_entry(self, place: PayloadPlace, entry: EntryName) -> bytes | None:
        """The entry's payload, if its frame stands there. Blocking, for start-up."""
        file = self._files.get(place.number)
        if file is None or place.offset < BLOCK_BYTES + FRAME_HEADER_BYTES:
            return None
        header = self._pread(
            place.number, file, FRAME_HEADER_BYTES, place.offset - FRAME_HEADER_BYTES
        )
        return self.read(place) if holds(header, self._node_tag, place, entry) else None

    def sync(self, numbers: Iterable[int]) -> None:
        """Make durable what was read of these files. Blocking, for start-up: a process that died
        between a write and its sync leaves bytes that can be read and are not on the disk."""
        for number in numbers:
            if (file := self._files.get(number)) is not None:
                self._disk.write_sync([(file, 0, encode_head(number, self._node_tag))])
                self._open_files.give_up(number, file)

    def _pread(self, number: int, file: DiskFile, size: int, offset: int) -> bytes:
        try:
            return file.pread(size, offset)
        finally:
            self._open_files.opened(number, file)

    # -- supply

    def _prepare(self) -> None:
        """Begin to make the next file ready, if there is none and there is room for it."""
        if not (self._running and self._writes):
            return
        if self._ready is not None or self._preparing:
            return
        number, size = self._next_number, self._settings.file_bytes
        spare = self._spares[0] if self._spares else None
        needed = size if spare is None else self._missing.get(spare.name, 0)
        if needed and self._disk.free_bytes() - needed < self._reserve_bytes:
            return
        self._preparing = True
        self._next_number += 1
        head = encode_head(number, self._node_tag)
        if spare is None:
            self._disk.submit_reserve(
                file_name(number), size, head, lambda file: self._prepared(number, file)
            )
            return
        self._spares.pop(0)
        old = spare.name

        def renewed(is_done: bool) -> None:
            if is_done:
                self._missing.pop(old, None)
                self._prepared(number, spare)
            else:
                self._remove(spare)
                self._prepared(number, None)

        self._disk.submit_renew(spare, file_name(number), head, renewed)

    def _prepared(self, number: int, file: DiskFile | None) -> None:
        self._preparing = False
        if file is not None:
            self._ready = (number, file)

    def _open(self, number: int, name: str) -> None:
        file = self._disk.open(name)
        head = decode_head(file.pread(BLOCK_BYTES, 0))
        if head is not None and head[0] != FORMAT:
            raise PayloadFormatError(
                f"{name} has payload format {head[0]}, this program reads format {FORMAT}: start "
                "the version of the program that wrote it"
            )
        if head is not None and head[1] != self._node_tag:
            raise PayloadFormatError(
                f"{name} was written by another node identity: give this node its own data "
                "directory, or restore the identity that belongs to this one"
            )
        self._next_number = max(self._next_number, number + 1)
        if file.size() < 2 * BLOCK_BYTES:
            file.close()
            self._disk.unlink(name)  # a crash came while it was made
        else:
            self._files[number] = file
            self._note_missing(file)
            file.release()


def _is_right(place: PayloadPlace, data: bytes) -> bool:
    return len(data) == place.length and crc32c(data) == place.checksum
