"""The port to one directory of files, and its real form. Nothing above it touches a file.

Failure rule: a write or sync that fails ends the process at once, in the thread that saw it, with
exit code `EXIT_STORAGE`; it is never retried and never reported to a caller, because after a failed
fsync the page cache lies.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn, Protocol, TypeVar

_T = TypeVar("_T")
_IOVEC_MAX: Final = 512
_ZEROS_BYTES: Final = 1024 * 1024
_ZEROS: Final = bytes(_ZEROS_BYTES)
_CREATE_SYNC_BYTES: Final = 8 * 1024 * 1024

EXIT_STORAGE: Final = 74
"""Process exit code after a failed write or fsync."""


class DiskFile(Protocol):
    """One open file of fixed length."""

    name: str

    def size(self) -> int: ...

    def pread(self, size: int, offset: int) -> bytes:
        """Read up to `size` bytes; shorter only at the end of the file. Blocking."""
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
        """As `create`, in the background thread; `done` runs on the event loop."""
        ...

    def submit(
        self, writes: Sequence[tuple[DiskFile, int, bytes]], done: Callable[[], None]
    ) -> None:
        """Write each (file, offset, data), then fdatasync every file touched, in the disk thread.

        `done` runs on the event loop once all of it is durable. Submissions are carried out in
        order. Data may be any bytes-like object and must not change until `done`.
        """
        ...

    def write_sync(self, writes: Sequence[tuple[DiskFile, int, bytes]]) -> None:
        """The same, blocking: for start-up and shutdown."""
        ...

    def unlink(self, name: str) -> None:
        """Remove and sync the directory. Blocking: for start-up; at run time `submit_unlink`."""
        ...

    def submit_unlink(self, name: str) -> None:
        """As `unlink`, in the background thread. Nobody is told: who can wait for a file's end
        has no more use for it."""
        ...

    def free_bytes(self) -> int: ...

    def close(self) -> None: ...


class DirectoryInUseError(Exception):
    """Another process holds the directory."""


def lock_directory(directory: Path) -> int:
    """Take the directory for this process, creating it if need be, until the process ends.

    Returns the open descriptor that holds the lock; closing it gives the directory back. Raises
    DirectoryInUseError when another process holds it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    handle = os.open(directory / "LOCK", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as cause:
        os.close(handle)
        raise DirectoryInUseError(
            f"{directory} is in use by another process: stop that one, or choose another directory"
        ) from cause
    return handle


class RealFile:
    """A file of a RealDisk."""

    __slots__ = ("_handle", "_size", "name")

    def __init__(self, name: str, handle: int) -> None:
        self.name = name
        self._handle = handle
        self._size = os.fstat(handle).st_size

    @property
    def handle(self) -> int:
        return self._handle

    def size(self) -> int:
        return self._size

    def pread(self, size: int, offset: int) -> bytes:
        pieces = []
        while size > 0:
            piece = os.pread(self._handle, size, offset)
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class RealDisk:
    """A directory on the machine's disk. One thread writes and syncs, another makes files.

    Writers wait in the kernel with the interpreter lock released; the event loop only puts a job
    into a queue.
    """

    def __init__(
        self,
        directory: Path,
        loop: asyncio.AbstractEventLoop,
        *,
        unsafe_skip_sync: bool = False,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._loop = loop
        self._skip_sync = unsafe_skip_sync
        self.on_sync: Callable[[float, int], None] | None = None
        """Told of each batch of writes, on the thread that wrote it: the seconds of its syncs,
        and its bytes."""
        self._syncer = Worker("disk-sync")
        self._maker = Worker("disk-create")

    def list_names(self) -> list[str]:
        return sorted(os.listdir(self._directory))

    def open(self, name: str) -> RealFile:
        return RealFile(name, os.open(self._directory / name, os.O_RDWR | os.O_CLOEXEC))

    def create(self, name: str, size: int) -> RealFile:
        return _or_exit(lambda: self._create(name, size))

    def submit_create(self, name: str, size: int, done: Callable[[DiskFile], None]) -> None:
        def job() -> None:
            file = self._create(name, size)
            self._to_loop(lambda: done(file))

        self._maker.put(job)

    def submit(
        self, writes: Sequence[tuple[DiskFile, int, bytes]], done: Callable[[], None]
    ) -> None:
        def job() -> None:
            self._write(writes)
            self._to_loop(done)

        self._syncer.put(job)

    def write_sync(self, writes: Sequence[tuple[DiskFile, int, bytes]]) -> None:
        finished = threading.Event()

        def job() -> None:
            self._write(writes)
            finished.set()

        self._syncer.put(job)
        finished.wait()

    def unlink(self, name: str) -> None:
        def job() -> None:
            os.unlink(self._directory / name)
            self._sync_directory()

        _or_exit(job)

    def submit_unlink(self, name: str) -> None:
        def job() -> None:
            os.unlink(self._directory / name)
            self._sync_directory()

        self._maker.put(job)

    def free_bytes(self) -> int:
        """What this process may still write, in bytes."""
        facts = os.statvfs(self._directory)
        return facts.f_bavail * facts.f_frsize

    def close(self) -> None:
        """Finish what was submitted, then end the threads. Blocking."""
        self._syncer.stop()
        self._maker.stop()

    def _create(self, name: str, size: int) -> RealFile:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        handle = os.open(self._directory / name, flags, 0o600)
        offset = 0
        while offset < size:
            step = min(_ZEROS_BYTES, size - offset)
            _write_all(handle, [memoryview(_ZEROS)[:step]], offset)
            offset += step
            if offset % _CREATE_SYNC_BYTES == 0:
                self._sync(handle)  # in steps, so that the log's own syncs wait for little
        if not self._skip_sync:
            os.fsync(handle)
        self._sync_directory()
        return RealFile(name, handle)

    def _write(self, writes: Sequence[tuple[DiskFile, int, bytes]]) -> None:
        handles: dict[int, None] = {}
        size = 0
        run: list[bytes | memoryview] = []
        run_handle, run_start, run_end = -1, 0, 0
        for file, offset, data in writes:
            assert isinstance(file, RealFile), "a disk writes its own files"
            if file.handle != run_handle or offset != run_end or len(run) == _IOVEC_MAX:
                if run:
                    _write_all(run_handle, run, run_start)
                run, run_handle, run_start, run_end = [], file.handle, offset, offset
            run.append(data)
            run_end += len(data)
            size += len(data)
            handles[file.handle] = None
        if run:
            _write_all(run_handle, run, run_start)
        started = self._loop.time()
        for handle in handles:
            self._sync(handle)
        if self.on_sync is not None:
            self.on_sync(self._loop.time() - started, size)

    def _sync(self, handle: int) -> None:
        if not self._skip_sync:
            os.fdatasync(handle)

    def _sync_directory(self) -> None:
        if self._skip_sync:
            return
        handle = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _to_loop(self, done: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(done)
        except RuntimeError:
            if not self._loop.is_closed():
                raise  # a closed loop has nobody left to tell


class Worker:
    """A thread that runs jobs in order, and takes the process down when one fails."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def stop(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            _or_exit(job)


def exit_storage(failure: BaseException) -> NoReturn:
    """End the process now: what the disk holds is no longer known. Any thread may call this."""
    line = f"fatal: storage failed, the process ends and must be restarted: {failure!r}\n"
    with contextlib.suppress(OSError):
        os.write(2, line.encode("utf-8", "replace"))
    os._exit(EXIT_STORAGE)


def _or_exit(job: Callable[[], _T]) -> _T:
    try:
        return job()
    except Exception as failure:  # whatever it is, a retry could only hide it
        exit_storage(failure)


def _write_all(handle: int, pieces: Sequence[bytes | memoryview], offset: int) -> None:
    """Write the pieces one behind the other, going on after short writes."""
    left = list(pieces)
    while left:
        count = os.pwritev(handle, left, offset)
        if count <= 0:
            raise OSError(errno.EIO, "a write made no progress")
        offset += count
        while left and count >= len(left[0]):
            count -= len(left.pop(0))
        if count:
            left[0] = memoryview(left[0])[count:]
