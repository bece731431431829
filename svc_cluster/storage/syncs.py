"""What a disk is given to write and sync, in order: by a thread of the native core, or Python's.

Both do the same. That of the core needs no interpreter lock behind a sync, for which Python's waits
while the event loop is at work; and the loop is told by a descriptor, with all that is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from svc_cluster._native import SyncThread
from svc_cluster.storage.real_file import Descriptor, RealFile, write_all
from svc_cluster.storage.worker import Worker, exit_storage, or_exit

_IOVEC_MAX: Final = 512

Write = tuple[RealFile, int, bytes]
"""A file, an offset in it, and what is to stand there."""
Part = tuple[Descriptor, int, bytes]
"""The same, of a file that stays open for as long as this is held."""
Done = Callable[[], None]
Told = Callable[[float, float, int], None]
"""Is told the seconds of a batch's writes, those of its syncs, and its bytes."""


class Syncs(Protocol):
    """Writes and syncs one batch after another."""

    def submit(self, writes: Sequence[Write], done: Done) -> None:
        """`done` runs on the event loop once all of it is durable. Behind `close` nothing is
        written, and nobody is told: what the end of a last batch asks for, the next start does."""
        ...

    def write(self, writes: Sequence[Write]) -> None:
        """Does what `submit` does, blocking."""
        ...

    def close(self) -> None:
        """Block until everything is done, and end the thread."""
        ...


class PythonSyncs:
    """With a thread of Python's."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, place: Path, sync: Callable[[int], None], told: Told
    ) -> None:
        """`sync` makes a file's data durable. `told` is called on the thread."""
        self._loop, self._place = loop, place
        self._sync, self._told = sync, told
        self._worker = Worker("disk-sync", place)

    def submit(self, writes: Sequence[Write], done: Done) -> None:
        parts = held(writes, self._place)

        def job() -> None:
            self._carry_out(parts)
            to_loop(self._loop, done, self._place)

        self._worker.put(job)

    def write(self, writes: Sequence[Write]) -> None:
        parts = held(writes, self._place)
        finished = threading.Event()

        def job() -> None:
            self._carry_out(parts)
            finished.set()

        self._worker.put(job)
        finished.wait()

    def close(self) -> None:
        self._worker.stop()

    def _carry_out(self, parts: Sequence[Part]) -> None:
        begun = self._loop.time()
        written = write_parts(parts)
        started = self._loop.time()
        for descriptor in written:
            self._sync(descriptor.number)
        size = sum(len(data) for _, _, data in parts)
        self._told(started - begun, self._loop.time() - started, size)


class NativeSyncs:
    """With the thread of the native core."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        place: Path,
        told: Told,
        thread: type[SyncThread],
    ) -> None:
        """`told` is called on the event loop."""
        self._loop, self._place, self._told = loop, place, told
        self._under_way: deque[tuple[list[Part], Done | None]] = deque()
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = thread(self._eventfd, self._failed)
        loop.add_reader(self._eventfd, self._ready)

    def submit(self, writes: Sequence[Write], done: Done) -> None:
        if self._eventfd >= 0:
            self._put(writes, done)

    def write(self, writes: Sequence[Write]) -> None:
        self._put(writes, None)
        self._thread.wait()
        # all of them are done. A start writes to many files before the loop's first turn
        for parts, _ in reversed(self._under_way):
            if not parts:
                break
            parts.clear()

    def close(self) -> None:
        if self._eventfd < 0:
            return
        self._thread.close()
        if not self._loop.is_closed():
            self._loop.remove_reader(self._eventfd)
            if self._under_way:
                self._loop.call_soon_threadsafe(or_exit, self._tell, self._place)
        os.close(self._eventfd)
        self._eventfd = -1

    def _put(self, writes: Sequence[Write], done: Done | None) -> None:
        parts = held(writes, self._place)
        self._thread.submit([(one.number, offset, data) for one, offset, data in parts])
        # behind it, as what is refused is never told of; nothing is taken before the next turn
        self._under_way.append((parts, done))

    def _ready(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._eventfd)
        or_exit(self._tell, self._place)

    def _tell(self) -> None:
        for written, synced, size in self._thread.take():
            _, done = self._under_way.popleft()
            self._told(written, synced, size)
            if done is not None:
                done()

    def _failed(self, number: int) -> None:
        exit_storage(OSError(number, os.strerror(number)), self._place)


def held(writes: Sequence[Write], place: Path) -> list[Part]:
    """Take hold of the files' descriptors. Blocking where one has to be opened anew.

    Who writes and syncs knows numbers only, which would mean other files, or none, if these were
    closed or released meanwhile. The process ends where a file cannot be opened.
    """
    return or_exit(lambda: [(file.opened(), offset, data) for file, offset, data in writes], place)


def write_parts(parts: Sequence[Part]) -> list[Descriptor]:
    """Write each part, those that touch together; returns the descriptors of the files touched."""
    touched: dict[Descriptor, None] = {}
    run: list[bytes | memoryview] = []
    run_number, run_start, run_end = -1, 0, 0
    for descriptor, offset, data in parts:
        if descriptor.number != run_number or offset != run_end or len(run) == _IOVEC_MAX:
            if run:
                write_all(run_number, run, run_start)
            run, run_number, run_start, run_end = [], descriptor.number, offset, offset
        run.append(data)
        run_end += len(data)
        touched[descriptor] = None
    if run:
        write_all(run_number, run, run_start)
    return list(touched)


def to_loop(loop: asyncio.AbstractEventLoop, done: Done, place: Path) -> None:
    """Have `done` run on the event loop, where nothing but the end of the process may fail it."""
    try:
        loop.call_soon_threadsafe(or_exit, done, place)
    except RuntimeError:
        if not loop.is_closed():
            raise  # a closed loop has nobody left to tell
