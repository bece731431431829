"""The threads that wait for the disk when the state store is read: few, with a short queue."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from svc_cluster.storage.state_store import StoreBusyError

_T = TypeVar("_T")

THREADS_DEFAULT: Final = 2
WAITING_MAX_DEFAULT: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPoolSettings:
    threads: int = THREADS_DEFAULT
    """Reads of the disk at one time; at least 1."""
    waiting_max: int = WAITING_MAX_DEFAULT
    """Reads that wait for a thread; more are refused. At least 1."""


@dataclass(slots=True, eq=False)
class _Read:
    job: Callable[[], Any]
    future: asyncio.Future[Any]
    asked_at: float


class ReadPool:
    """Runs jobs that block and must not raise. Its methods are for the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: ReadPoolSettings) -> None:
        self._loop = loop
        self._settings = settings
        self._waiting: deque[_Read] = deque()
        self._changed = threading.Condition()
        """Held for what is waiting, and whether it is the end."""
        self._is_open = True
        self.refused = 0
        """Reads that found the queue full."""
        self.on_wait: Callable[[float], None] = _unheard
        """Told, on the event loop, the seconds that a read waited for its thread."""
        self._threads = [
            threading.Thread(target=self._run, name=f"store-read-{number}", daemon=True)
            for number in range(settings.threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Reads that no thread has begun."""
        return len(self._waiting)

    def submit(self, job: Callable[[], _T]) -> asyncio.Future[_T]:
        """Run the job when it is its turn, in the order of the calls. Cancelled before that, it
        gives its place back at once and is never run. Raises StoreBusyError."""
        future: asyncio.Future[_T] = self._loop.create_future()
        read = _Read(job, future, self._loop.time())
        with self._changed:
            assert self._is_open, "a closed pool reads nothing"
            if len(self._waiting) >= self._settings.waiting_max:
                self.refused += 1
                raise StoreBusyError("too many reads wait for the disk")
            self._waiting.append(read)
            self._changed.notify()
        future.add_done_callback(lambda _: self._leave(read))
        return future

    def close(self) -> None:
        """Cancel what waits and let what runs come to its end. Blocking."""
        with self._changed:
            self._is_open = False
            left, self._waiting = self._waiting, deque()
            self._changed.notify_all()
        for read in left:
            read.future.cancel()
        for thread in self._threads:
            thread.join()

    def _leave(self, read: _Read) -> None:
        if read.future.cancelled():
            with self._changed:
                if read in self._waiting:
                    self._waiting.remove(read)

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._is_open and not self._waiting:
                    self._changed.wait()
                if not self._is_open:
                    return
                read = self._waiting.popleft()
            waited = self._loop.time() - read.asked_at
            result = read.job()
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._done, read.future, result, waited)

    def _done(self, future: asyncio.Future[Any], result: Any, waited: float) -> None:
        self.on_wait(waited)
        if not future.done():
            future.set_result(result)


def _unheard(_: float) -> None:
    """Nobody wants to be told."""
