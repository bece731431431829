"""The port to one directory of files, and its real form. Nothing above it touches a file.

Failure rule: a write or sync that fails ends the process at once, in the thread that saw it, with
exit code `EXIT_STORAGE`; it is never retried and never reported to a caller, because after a failed
fsync the page cache lies.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from svc_cluster._native import core
from svc_cluster.base.log import get_logger
from svc_cluster.base.seldom import Seldom
from svc_cluster.storage.holes import Stretch, dig, makes_holes
from svc_cluster.storage.private import keep_private
from svc_cluster.storage.real_file import RealFile, make_zeros, open_to_write, renew, reserve
from svc_cluster.storage.removal import excess, remove_slowly
from svc_cluster.storage.syncs import (
    NativeSyncs,
    PythonSyncs,
    Syncs,
    Write,
    held,
    to_loop,
    write_parts,
)
from svc_cluster.storage.worker import Worker, or_exit

log = get_logger("storage.disk")


class DiskFile(Protocol):
    """One open file of fixed length."""

    name: str

    def size(self) -> int: ...

    def held_bytes(self) -> int:
        """Return the bytes of the disk that it takes, which holes are no part of."""
        ...

    def pread(self, size: int, offset: int) -> bytes:
        """Read up to `size` bytes; shorter only at the end of the file. Blocking."""
        ...

    def pread_cached(self, size: int, offset: int) -> bytes | None:
        """Read `size` bytes if memory has all of them; None otherwise. Never waits for the disk."""
        ...

    def release(self) -> None:
        """Give the descriptor back, until the next use opens the file anew.

        `pread_cached` does not open it, and knows nothing until then. Reads under way end well; no
        write may be under way.
        """
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """One directory, owned by one process."""

    def list_names(self) -> list[str]: ...

    def open(self, name: str) -> DiskFile: ...

    def create(self, name: str, size: int) -> DiskFile:
        """Make a file of `size` zeros that are really written, sync it and its directory. Blocking:
        for start-up; at run time use `submit_create`."""
        ...

    def submit_create(self, name: str, size: int, done: Callable[[DiskFile], None]) -> None:
        """Does what `create` does, in the background thread; `done` runs on the event loop."""
        ...

    def submit_reserve(
        self, name: str, size: int, head: bytes, done: Callable[[DiskFile | None], None]
    ) -> None:
        """Make a file whose room is set aside, in the background thread. Behind `head` it reads as
        zeros until it is written. It and its directory are synced when `done` runs; None: there is
        no room."""
        ...

    def submit_renew(
        self, file: DiskFile, name: str, head: bytes, done: Callable[[bool], None]
    ) -> None:
        """Give a file that nobody writes to another name and beginning, and room where it has
        holes, in the background thread. A crash leaves either name with either beginning; both are
        synced when `done` is told True. False: there is no room, and the file is as it was."""
        ...

    def submit_holes(
        self, file: DiskFile, holes: Sequence[Stretch], done: Callable[[bool], None]
    ) -> None:
        """Give these stretches of the file back to the disk, in a background thread, which takes
        its time. Nobody reads or writes there, and the file keeps its name, until `done` runs on
        the event loop, told False when the disk refuses. That leaves some, as a crash does."""
        ...

    def makes_holes(self) -> bool:
        """Whether `submit_holes` makes room. Blocking, for start-up."""
        ...

    def submit(
        self, writes: Sequence[tuple[DiskFile, int, bytes]], done: Callable[[], None]
    ) -> None:
        """Write each (file, offset, data), then fdatasync every file touched, in the disk thread.

        `done` runs on the event loop once all of it is durable. Submissions are carried out in
        order. Data may be any bytes-like object and must not change until `done`.
        """
        ...

    def submit_aside(
        self, writes: Sequence[tuple[DiskFile, int, bytes]], done: Callable[[], None]
    ) -> None:
        """Does what `submit` does, in the background thread. It is in no order with the
        submissions, which do not wait for it. For small files that nobody else writes to at that
        time."""
        ...

    def write_sync(self, writes: Sequence[tuple[DiskFile, int, bytes]]) -> None:
        """Does what `submit` does, blocking, for start-up and shutdown."""
        ...

    def unlink(self, name: str) -> None:
        """Remove and sync the directory. Blocking: for start-up; at run time `submit_unlink`."""
        ...

    def submit_unlink(self, name: str) -> None:
        """Does what `unlink` does, in a background thread, which takes its time. Nobody is told:
        who can wait for a file's end has no more use for it; `close` may come first, and the file
        is then still there."""
        ...

    def free_bytes(self) -> int: ...

    def close(self) -> None: ...


class DirectoryInUseError(Exception):
    """Another process holds the directory."""


def lock_directory(directory: Path) -> int:
    """Take the directory for this process, creating it if need be, until the process ends.

    Returns the open descriptor that holds the lock; closing it gives the directory back. What is in
    it is for this user alone from now on. Raises DirectoryInUseError when another process holds it.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(directory / "LOCK", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as cause:
        os.close(handle)
        raise DirectoryInUseError(
            f"{directory} is in use by another process: stop that one, or choose another directory"
        ) from cause
    keep_private(directory)
    return handle


class RealDisk:
    """A directory on the machine's disk. One thread writes and syncs, others make and remove files.

    Writers wait in the kernel without the interpreter lock; the event loop only queues jobs.
    """

    def __init__(
        self, directory: Path, loop: asyncio.AbstractEventLoop, *, native: bool = True
    ) -> None:
        """`native`: the log is written by the thread of the native core, where that was built."""
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._loop = loop
        self.on_sync: Callable[[float, float, int], None] | None = None
        """Told of each batch of writes, on the thread that wrote it or the loop's: the seconds of
        the write, those of its syncs, and its bytes."""
        self._syncs: Syncs
        if native and core.sync_thread is not None:
            self._syncs = NativeSyncs(loop, directory, self._told, core.sync_thread)
        else:
            self._syncs = PythonSyncs(loop, directory, lambda file: self._sync(file), self._told)
        self._maker = Worker("disk-create", directory)
        self._remover = Worker("disk-remove", directory)
        self._removals_lock = threading.Lock()
        self._removals: deque[tuple[str, int]] = deque()
        """Names and sizes of what waits to be removed. Longer than BACKLOG_FILES_MAX only until
        the remover, which takes the first ones at once then, has come to it."""
        self.removed_at_once = 0
        """Files that were not removed slowly, as too much waited already."""
        self._behind = Seldom()
        self._pause = threading.Event()
        """Set when the removals that are left need not spare anybody."""

    def list_names(self) -> list[str]:
        return sorted(os.listdir(self._directory))

    def open(self, name: str) -> RealFile:
        return RealFile(self._directory / name, open_to_write(self._directory / name))

    def create(self, name: str, size: int) -> RealFile:
        return or_exit(lambda: self._create(name, size), self._directory)

    def submit_create(self, name: str, size: int, done: Callable[[DiskFile], None]) -> None:
        def job() -> None:
            file = self._create(name, size)
            self._to_loop(lambda: done(file))

        self._maker.put(job)

    def submit_reserve(
        self, name: str, size: int, head: bytes, done: Callable[[DiskFile | None], None]
    ) -> None:
        def job() -> None:
            file = reserve(self._directory / name, size, head)
            self._sync_directory()
            self._to_loop(lambda: done(file))

        self._maker.put(job)

    def submit_renew(
        self, file: DiskFile, name: str, head: bytes, done: Callable[[bool], None]
    ) -> None:
        def job() -> None:
            assert isinstance(file, RealFile), "a disk renews its own files"
            is_renewed = renew(file, name, head)
            self._sync_directory()
            self._to_loop(lambda: done(is_renewed))

        self._maker.put(job)

    def submit_holes(
        self, file: DiskFile, holes: Sequence[Stretch], done: Callable[[bool], None]
    ) -> None:
        def job() -> None:
            if not self._pause.is_set():  # else the process ends
                path = self._directory / file.name
                self._to_loop(partial(done, dig(path, holes, self._loop.time, self._pause.wait)))

        self._remover.put(job)

    def makes_holes(self) -> bool:
        return or_exit(lambda: makes_holes(self._directory), self._directory)

    def submit(
        self, writes: Sequence[tuple[DiskFile, int, bytes]], done: Callable[[], None]
    ) -> None:
        self._syncs.submit(_real(writes), done)

    def submit_aside(
        self, writes: Sequence[tuple[DiskFile, int, bytes]], done: Callable[[], None]
    ) -> None:
        parts = held(_real(writes), self._directory)

        def job() -> None:
            for descriptor in write_parts(parts):
                self._sync(descriptor.number)
            self._to_loop(done)

        self._maker.put(job)

    def write_sync(self, writes: Sequence[tuple[DiskFile, int, bytes]]) -> None:
        self._syncs.write(_real(writes))

    def unlink(self, name: str) -> None:
        def job() -> None:
            remove_slowly(self._directory / name, self._loop.time, self._pause.wait)
            self._sync_directory()

        or_exit(job, self._directory)

    def submit_unlink(self, name: str) -> None:
        with self._removals_lock:
            self._removals.append((name, self._size_of(name)))
        self._remover.put(self._remove_next)

    def _remove_next(self) -> None:
        if self._pause.is_set():
            return  # the process ends, and has better to do in the time that it is given
        with self._removals_lock:
            is_behind = excess([size for _, size in self._removals]) > 0
            path = self._directory / self._removals.popleft()[0]
        if is_behind:
            path.unlink(missing_ok=True)
            self.removed_at_once += 1
            if (since := self._behind.note(self._loop.time())) is not None:
                log.warning("removals_fell_behind", folder=str(path.parent), removed_at_once=since)
        else:
            remove_slowly(path, self._loop.time, self._pause.wait)
        self._sync_directory()

    def _size_of(self, name: str) -> int:
        try:
            return (self._directory / name).lstat().st_size
        except FileNotFoundError:
            return 0

    def free_bytes(self) -> int:
        """What this process may still write, in bytes."""
        facts = os.statvfs(self._directory)
        return facts.f_bavail * facts.f_frsize

    def close(self) -> None:
        """Finish what was submitted, then end the threads. Blocking. Removals that have not begun
        are left out: what is to be removed holds nothing, and its owner meets it again."""
        self._syncs.close()
        self._maker.stop()
        self._pause.set()
        self._remover.stop()

    def _create(self, name: str, size: int) -> RealFile:
        file = make_zeros(self._directory / name, size, self._sync)
        self._sync_directory()
        return file

    def _told(self, written: float, synced: float, size: int) -> None:
        if self.on_sync is not None:
            self.on_sync(written, synced, size)

    def _sync(self, handle: int) -> None:
        os.fdatasync(handle)

    def _sync_directory(self) -> None:
        handle = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _to_loop(self, done: Callable[[], None]) -> None:
        to_loop(self._loop, done, self._directory)


def _real(writes: Sequence[tuple[DiskFile, int, bytes]]) -> list[Write]:
    found = []
    for file, offset, data in writes:
        assert isinstance(file, RealFile), "a disk writes its own files"
        found.append((file, offset, data))
    return found
