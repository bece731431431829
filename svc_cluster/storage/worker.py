"""Threads that run jobs on files in order, and end the process where one of them fails."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from svc_cluster.storage.disk_trouble import remedy

_T = TypeVar("_T")

EXIT_STORAGE: Final = 74
"""Process exit code after a failed write or fsync."""


class Worker:
    """A thread that runs jobs in order, and takes the process down when one fails."""

    def __init__(self, name: str, place: Path | None = None) -> None:
        """`place`: the directory that its jobs work in, which a failure then tells about."""
        self._place = place
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
            or_exit(job, self._place)
            del job  # what it holds is given back now, not when the next one comes


def exit_storage(failure: BaseException, place: Path | None = None) -> NoReturn:
    """End the process now: what the disk holds, in the directory `place`, is no longer known. Any
    thread may call this."""
    line = f"fatal: storage failed, the process ends and must be restarted: {failure!r}"
    if place is not None and (what_to_do := remedy(failure, place)) is not None:
        line += f": {what_to_do}"
    line += "\n"
    with contextlib.suppress(OSError):
        os.write(2, line.encode("utf-8", "replace"))
    os._exit(EXIT_STORAGE)


def or_exit(job: Callable[[], _T], place: Path | None) -> _T:
    """What the job returns. Whatever it raises ends the process."""
    try:
        return job()
    except Exception as failure:  # whatever it is, a retry could only hide it
        exit_storage(failure, place)
