"""Gives stretches of a file back to the disk, in steps, so that nobody's sync has to wait for it.

What is said of whole files in `removal.py` is true of stretches: a file system that gives blocks
back to the device at once makes every sync wait meanwhile. The file keeps its length; a hole reads
as zeros and takes room again once something is written there.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from svc_cluster.storage.removal import Pause, pause_s

Stretch = tuple[int, int]
"""Where a hole begins, and how many bytes it has."""

STEP_BYTES: Final = 4 * 1024 * 1024
"""At most so much is given back between two syncs."""

STEP_HOLES_MAX: Final = 64
"""At most so many holes come between two syncs."""

_PROBE: Final = "payload-probe"
_PROBE_BYTES: Final = 64 * 1024
_KEEP_SIZE: Final = 0x01
_PUNCH_HOLE: Final = 0x02
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_REFUSALS: Final = frozenset(
    (
        errno.EOPNOTSUPP,
        errno.ENOSYS,
        errno.EPERM,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EINTR,
        errno.ENOMEM,
    )
)
"""What a file system says that makes no hole and has lost nothing."""
_fallocate: Final = ctypes.CDLL(None, use_errno=True).fallocate
_fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


def dig(path: Path, holes: Sequence[Stretch], monotonic: Callable[[], float], pause: Pause) -> bool:
    """Make holes at these places of the file. Blocking; meant for a thread of its own. A crash in
    here leaves some of them, and so does a `pause` that returns true, which ends it. It opens the
    file anew, as its owner may close it meanwhile. False, with some of them made: the file system
    refuses the next one, and nothing is lost by that. Raises OSError."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        for step in steps(holes):
            begun = monotonic()
            try:
                for offset, size in step:
                    _punch(handle, offset, size)
            except OSError as refusal:
                if refusal.errno not in _REFUSALS:
                    raise
                return False
            os.fsync(handle)
            if pause(pause_s(monotonic() - begun)):
                break
        return True
    finally:
        os.close(handle)


def steps(holes: Sequence[Stretch]) -> list[list[Stretch]]:
    """Cut the holes into what is made between two syncs."""
    found: list[list[Stretch]] = [[]]
    room = STEP_BYTES
    for offset, size in holes:
        while size:
            if not room or len(found[-1]) == STEP_HOLES_MAX:
                found.append([])
                room = STEP_BYTES
            part = min(size, room)
            found[-1].append((offset, part))
            offset, size, room = offset + part, size - part, room - part
    return [step for step in found if step]


def makes_holes(directory: Path) -> bool:
    """Try whether files here can have holes that take no room. Blocking. A crash in here leaves a
    small file, which the next try writes over. Where the disk has no room for that file, whoever
    takes the call for a file without a byte is believed: room is what holes are needed for then."""
    path = directory / _PROBE
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        is_full = False
        try:
            os.posix_fallocate(handle, 0, _PROBE_BYTES)
        except OSError as cause:
            if cause.errno not in _FULL:
                raise
            is_full = True
        before = os.fstat(handle).st_blocks
        _punch(handle, 0, _PROBE_BYTES)
        return is_full or os.fstat(handle).st_blocks < before
    except OSError:
        return False
    finally:
        os.close(handle)
        path.unlink()


def _punch(handle: int, offset: int, size: int) -> None:
    if _fallocate(handle, _PUNCH_HOLE | _KEEP_SIZE, offset, size):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
