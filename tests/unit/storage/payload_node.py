"""A node's log and store above payload files, whose flushes and disk a test carries out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from svc_cluster.base.ids import GroupId, LogIndex, Term
from svc_cluster.base.log_ops import AppendEntries, LogEntry
from svc_cluster.base.write_set import Origin, WriteSet
from svc_cluster.storage.payload import references
from svc_cluster.storage.payload.payload_store import PayloadStore
from svc_cluster.storage.payload.pointer import decode_pointer
from svc_cluster.storage.state_store import StoreStalledError
from svc_cluster.storage.wal import Wal
from svc_cluster.storage.wal.wal_settings import WalSettings
from tests.memory_store import MemoryStore
from tests.unit.storage.fakes import FakeDisk
from tests.unit.storage.payload_driver import APART
from tests.unit.storage.wal_driver import create, open_wal, put, trim

GROUP = GroupId(1)
HEAD = b"head"


class _Store(MemoryStore):
    """Flushes are complete when the test says so, writes are refused on demand."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, initial: dict[bytes, bytes] | None = None
    ) -> None:
        super().__init__(loop, random.Random(1), initial=initial)
        self.flushes: list[Callable[[], None]] = []
        self.stalls = False

    def flush(self, done: Callable[[], None]) -> None:
        count = self._flushed_count + len(self._unflushed)

        def complete() -> None:
            self._make_durable(count - self._flushed_count)
            done()

        self.flushes.append(complete)

    def write(self, write_set: WriteSet) -> None:
        if self.stalls:
            raise StoreStalledError("stalled")
        super().write(write_set)

    def durable(self) -> dict[bytes, bytes]:
        return dict(self._durable.values)


class Node:
    """One log, one store, and a group whose entries are applied as soon as they are durable."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        disk: FakeDisk | None = None,
        rows: dict[bytes, bytes] | None = None,
        settings: WalSettings = APART,
    ) -> None:
        self.disk = disk or FakeDisk()
        self.wal: Wal = open_wal(self.disk, settings)
        self.inner = _Store(loop, rows)
        self.store = PayloadStore(self.inner, self.wal.payloads, self.wal, loop)
        self.disk.run()
        if disk is None:
            put(self.wal, self.disk, 1, create())
        self.index = 0

    def append(self, *values: tuple[bytes, bytes]) -> None:
        """One entry that puts these, and is applied."""
        self.index += 1
        payload = b"entry %d:" % self.index + b"|".join(value for _, value in values)
        entry = LogEntry(LogIndex(self.index), Term(1), payload)
        put(self.wal, self.disk, 1, AppendEntries((entry,)))
        self.apply(self.index, payload, values)

    def apply(self, index: int, payload: bytes, values: tuple[tuple[bytes, bytes], ...]) -> None:
        write_set = WriteSet()
        for key, value in values:
            write_set.put(key, HEAD + value, head_bytes=len(HEAD))
        place = self.wal.place_of(GROUP, LogIndex(index))
        if place is not None:
            write_set.origin = Origin(place.number, place.offset, payload)
        self.store.write(write_set)

    def delete(self, start: bytes, end: bytes) -> None:
        write_set = WriteSet()
        write_set.delete_range(start, end)
        self.store.write(write_set)

    def trim(self, index: int) -> None:
        put(self.wal, self.disk, 1, trim(index))

    def flush(self) -> None:
        """A whole one, and what it brings about."""
        self.store.flush(lambda: None)
        self.inner.flushes.pop(0)()
        self.disk.run()

    def first_file(self) -> set[bytes]:
        """The keys whose values stand in the first file."""
        found = set()
        for one, row in self.inner.scan(b"", references.FIRST_KEY):
            pointer = decode_pointer(one, row)
            if pointer is not None and pointer.place.number == 1:
                found.add(one)
        return found

    def numbers(self) -> list[int]:
        """The files that are not free."""
        return self.wal.payloads.closed_numbers()


def key(owner: int, number: int) -> bytes:
    return b"owner%03d" % owner + number.to_bytes(8, "big")


def value(seed: int, size: int = 3000) -> bytes:
    return random.Random(seed).randbytes(size)
