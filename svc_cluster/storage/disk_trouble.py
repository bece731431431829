"""This module tells the person who runs the node what a full or failing disk means. It tells which
file system it is, how much room it has, and what to do.

What it must not do: advise to take away, empty or replace anything of a node. Where the disks of
all nodes are full at once, their files are the only copies.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

_MIB: Final = 1024 * 1024
_FULL: Final = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT))
_NO_FILES: Final = tuple(os.strerror(code) for code in (errno.EMFILE, errno.ENFILE))
_FAILING: Final = tuple(os.strerror(code) for code in (errno.EIO, errno.EROFS))
"""RocksDB's binding has no error numbers, only the system's words for them."""


def is_trouble(failure: BaseException) -> bool:
    """Whether the disk under the files was in the way, whatever the files hold."""
    return any(words in str(failure) for words in (*_FULL, *_FAILING))


def is_full(failure: BaseException) -> bool:
    """Whether the disk under the files had no room left for them."""
    return any(words in str(failure) for words in _FULL)


def remedy(failure: BaseException, place: Path) -> str | None:
    """Return what to do about a failure in the directory `place`, which tells about its file
    system. Return None where its cause was no full or failing disk, and no lack of open files."""
    text = str(failure)
    if is_full(failure):
        return (
            f"the disk is full, {room(place)}: make room on it; nothing that was acknowledged is "
            "lost, leave the node's own files as they are, and it goes on when it is started again"
        )
    if any(words in text for words in _FAILING):
        return (
            f"the disk fails or is read-only, {room(place)}: look for its device in the kernel's "
            "log and mend that; leave the node's own files as they are"
        )
    if any(words in text for words in _NO_FILES):
        return (
            "too many files are open: raise the limit of open files (RLIMIT_NOFILE, or the whole "
            "system's), or let fewer connections in; nothing that was acknowledged is lost"
        )
    return None


def room(place: Path) -> str:
    """The file system that holds `place`, and how much of it this user may still fill."""
    place = place.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    mount = place
    while not os.path.ismount(mount) and mount != mount.parent:
        mount = mount.parent
    try:
        facts = os.statvfs(place)
    except OSError as cause:
        return f"file system {mount} (which cannot be asked how full it is: {cause.strerror})"
    free, size = facts.f_bavail * facts.f_frsize, facts.f_blocks * facts.f_frsize
    return (
        f"file system {mount} with {free / _MIB:.1f} of {size / _MIB:.1f} MiB and "
        f"{facts.f_favail} files free"
    )
