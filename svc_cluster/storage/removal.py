"""Removes large files so that nobody's sync has to wait for it.

A file system that gives blocks back to the device (ext4 mounted with `discard`) does that at once:
an unlink of 60 MiB takes up to 135 ms, and every sync of the whole file system that comes meanwhile
waits. So files are shortened in small steps with pauses, and then removed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

STEP_BYTES: Final = 4 * 1024 * 1024
"""A file loses at most this much at once."""

PAUSE_SHARE: Final = 2.0
"""The pause behind a step lasts this many times as long as the step."""

PAUSE_MIN_S: Final = 0.005
PAUSE_MAX_S: Final = 0.25

BACKLOG_FILES_MAX: Final = 1024
BACKLOG_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
"""No more than this waits to be removed slowly: its space is missing until it is."""

Pause = Callable[[float], object]


def excess(sizes: Sequence[int]) -> int:
    """Return how many of the files go at once, so that what is left is within the bounds of the
    backlog. They are the first ones of these `sizes`."""
    count, total = 0, sum(sizes)
    while len(sizes) - count > BACKLOG_FILES_MAX or total > BACKLOG_BYTES_MAX:
        total -= sizes[count]
        count += 1
    return count


def pause_s(taken_s: float) -> float:
    """Return how long to leave the disk to others behind a step that took so long."""
    return min(PAUSE_MAX_S, max(PAUSE_MIN_S, PAUSE_SHARE * taken_s))


def remove_slowly(path: Path, monotonic: Callable[[], float], pause: Pause) -> None:
    """Shorten the file at `path`, then unlink it. Blocking; meant for a thread of its own.

    Nobody may use the file any more, under any name. A crash in here leaves a shorter file. A file
    that is gone is no error. Raises OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            _shorten(handle, monotonic, pause)
        finally:
            os.close(handle)
        path.unlink()


def _shorten(handle: int, monotonic: Callable[[], float], pause: Pause) -> None:
    size = os.fstat(handle).st_size
    while size > STEP_BYTES:
        size -= STEP_BYTES
        begun = monotonic()
        os.ftruncate(handle, size)
        # the blocks go with the transaction, so it is this sync that takes the time
        os.fsync(handle)
        pause(pause_s(monotonic() - begun))
