"""A tiny disk in memory whose crashes the test decides on, byte by byte."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from svc_cluster.storage.disk import DiskFile

BLOCK_BYTES: Final = 4096
Write = tuple[DiskFile, int, bytes]


class FakeFile:
    """`durable` is on the platter, `data` is what a read returns."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.data = bytearray(size)
        self.durable = bytearray(size)
        self.holes: set[int] = set()
        """Blocks that take no room."""
        self.is_open = True

    def size(self) -> int:
        return len(self.data)

    def held_bytes(self) -> int:
        return len(self.data) - BLOCK_BYTES * len(self.holes)

    def pread(self, size: int, offset: int) -> bytes:
        self.is_open = True
        return bytes(self.data[offset : offset + size])

    def pread_cached(self, size: int, offset: int) -> bytes | None:
        return self.pread(size, offset) if self.is_open else None

    def release(self) -> None:
        self.is_open = False

    def close(self) -> None:
        pass


class FakeDisk:
    """Submissions wait until the test runs `step` or `run`."""

    def __init__(self, free: int = 1 << 40) -> None:
        self.files: dict[str, FakeFile] = {}
        self.queue: deque[tuple[list[Write], Callable[[], None]]] = deque()
        self.free = free
        self.removals: list[str] = []
        """Names whose removal was submitted."""
        self.sync_count = 0
        self.can_dig = True
        self.refused_holes = 0
        """Times that holes were asked for where none can be made."""
        self.trace: list[tuple[str, int, int]] = []
        """(file, offset, length) of every durable write, in order."""

    def list_names(self) -> list[str]:
        return sorted(self.files)

    def open(self, name: str) -> FakeFile:
        return self.files[name]

    def create(self, name: str, size: int) -> FakeFile:
        assert name not in self.files
        self.free -= size
        self.files[name] = FakeFile(name, size)
        return self.files[name]

    def submit_create(self, name: str, size: int, done: Callable[[DiskFile], None]) -> None:
        self.queue.append(([], lambda: done(self.create(name, size))))

    def submit_reserve(
        self, name: str, size: int, head: bytes, done: Callable[[DiskFile | None], None]
    ) -> None:
        def made() -> None:
            if self.free < size:
                done(None)
                return
            file = self.create(name, size)
            self._sync([(file, 0, head)])
            done(file)

        self.queue.append(([], made))

    def submit_renew(
        self, file: DiskFile, name: str, head: bytes, done: Callable[[bool], None]
    ) -> None:
        def renewed() -> None:
            missing = file.size() - file.held_bytes()
            if missing > self.free:
                done(False)
                return
            self.free -= missing
            self.file(file).holes.clear()
            self.files[name] = self.files.pop(file.name)
            file.name = name
            self._sync([(file, 0, head)])
            done(True)

        self.queue.append(([], renewed))

    def submit_holes(
        self, file: DiskFile, holes: Sequence[tuple[int, int]], done: Callable[[bool], None]
    ) -> None:
        def dug() -> None:
            if not self.can_dig:
                self.refused_holes += 1
                done(False)
                return
            target, before = self.file(file), file.held_bytes()
            for offset, size in holes:
                assert not offset % BLOCK_BYTES and not size % BLOCK_BYTES, "whole blocks"
                self._sync([(file, offset, bytes(size))])
                target.holes |= set(range(offset // BLOCK_BYTES, (offset + size) // BLOCK_BYTES))
            self.free += before - file.held_bytes()
            done(True)

        self.queue.append(([], dug))

    def makes_holes(self) -> bool:
        return self.can_dig

    def submit(self, writes: Sequence[Write], done: Callable[[], None]) -> None:
        self.queue.append((list(writes), done))

    def submit_aside(self, writes: Sequence[Write], done: Callable[[], None]) -> None:
        self.submit(writes, done)

    def write_sync(self, writes: Sequence[Write]) -> None:
        assert not any(w for w, _ in self.queue), "the tests never block behind the queue"
        self._sync(writes)

    def unlink(self, name: str) -> None:
        self.free += self.files.pop(name).size()

    def submit_unlink(self, name: str) -> None:
        self.removals.append(name)
        self.queue.append(([], lambda: self.unlink(name)))

    def free_bytes(self) -> int:
        return self.free

    def close(self) -> None:
        pass

    def step(self) -> None:
        """Carry out the oldest submission."""
        writes, done = self.queue.popleft()
        self._sync(writes)
        done()

    def run(self) -> None:
        """Carry out everything, also what that brings about."""
        for _ in range(100_000):
            if not self.queue:
                return
            self.step()
        raise AssertionError("the disk never becomes quiet")

    def crash(self, torn: Callable[[int, int, bytes], bytes | None] | None = None) -> FakeDisk:
        """What the next start finds. Writes that wait are lost, unless `torn(place, offset,
        data)` says what of the write at that place of the queue is found instead."""
        after = FakeDisk(self.free)
        for name, file in self.files.items():
            after.files[name] = FakeFile(name, file.size())
            after.files[name].durable[:] = after.files[name].data[:] = file.durable
            after.files[name].holes = set(file.holes)
        writes = [write for batch, _ in self.queue for write in batch]
        for place, (written, offset, data) in enumerate(writes):
            found = None if torn is None else torn(place, offset, bytes(data))
            if found is not None:
                target = after.files[written.name]
                target.data[offset : offset + len(found)] = found
                target.durable[offset : offset + len(found)] = found
        return after

    def flip(self, name: str, offset: int, mask: int = 0x40) -> None:
        """Damage one byte at rest."""
        file = self.files[name]
        file.data[offset] ^= mask
        file.durable[offset] ^= mask

    def zero(self, name: str, offset: int, size: int) -> None:
        file = self.files[name]
        file.data[offset : offset + size] = file.durable[offset : offset + size] = bytes(size)

    def file(self, opened: DiskFile) -> FakeFile:
        """What stands behind a file that this disk has opened."""
        assert isinstance(opened, FakeFile)
        return opened

    def _sync(self, writes: Sequence[Write]) -> None:
        self.sync_count += 1
        for written, offset, data in writes:
            file = self.file(written)
            file.is_open = True
            assert offset + len(data) <= file.size(), "files have a fixed length"
            file.data[offset : offset + len(data)] = data
            file.durable[offset : offset + len(data)] = data
            file.holes -= set(range(offset // BLOCK_BYTES, -(-(offset + len(data)) // BLOCK_BYTES)))
            self.trace.append((file.name, offset, len(data)))
