"""The copy of a data directory that no node uses: what is done to find out what it has, is done to
the copy. What stands in it as zeroes takes no room there."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from svc_cluster.backup.backup_errors import BackupError, NoRoomError
from svc_cluster.storage.disk import DirectoryInUseError, lock_directory
from svc_cluster.storage.disk_trouble import is_full
from svc_cluster.storage.restoring import is_half_restored

WAL_FOLDER: Final = "wal"
STATE_FOLDER: Final = "state"
CHUNK_BYTES: Final = 1024 * 1024
"""So much of a file is in memory at a time, and becomes a hole where all of it is zero."""
REASON_CHARACTERS_MAX: Final = 300
"""So much is told of a cause, which may be a list of all files."""
_BLOCK_BYTES: Final = 512
"""What a file takes is counted in these, whatever the file system's own are."""
_ZEROES: Final = bytes(CHUNK_BYTES)


def copied(directory: Path, work: Path) -> Path:
    """Copy a data directory that no process uses; the copy. Blocking. Raises BackupError."""
    directory = directory.resolve()
    try:
        _check(directory)
        lock = lock_directory(directory)
    except DirectoryInUseError as cause:
        raise BackupError(str(cause)) from cause
    except OSError as cause:
        raise BackupError(
            f"{directory} cannot be locked, so that no node starts in it meanwhile "
            f"({_reason(cause)}): do this as the nodes' user; what cannot be written to, copy to "
            "where it can be, and name the copy"
        ) from cause
    try:
        return _copy(directory, work / directory.name)
    except OSError as cause:
        if is_full(cause):
            raise NoRoomError(f"{directory} cannot be copied: the disk is full") from cause
        raise BackupError(f"{directory} cannot be copied ({_reason(cause)})") from cause
    finally:
        os.close(lock)


def taken_bytes(directories: Sequence[Path]) -> int:
    """What copies of these directories take of a disk, about. What is not there counts nothing."""
    found = 0
    for directory in directories:
        for place, _, names in os.walk(directory):
            for name in names:
                with contextlib.suppress(OSError):
                    found += (Path(place) / name).lstat().st_blocks * _BLOCK_BYTES
    return found


def _check(directory: Path) -> None:
    if not (directory / WAL_FOLDER).is_dir() or not (directory / STATE_FOLDER).is_dir():
        raise BackupError(f"{directory} is not the data directory of a node: name the data_dir")
    if is_half_restored(directory):
        raise BackupError(f"{directory} is half restored from a backup: nothing in it is whole")


def _reason(cause: OSError) -> str:
    return (cause.strerror or str(cause))[:REASON_CHARACTERS_MAX]


def _copy(directory: Path, place: Path) -> Path:
    ignored = shutil.ignore_patterns("LOCK")
    return Path(shutil.copytree(directory, place, ignore=ignored, copy_function=copy_file))


def copy_file(source: str, target: str) -> None:
    """Copy what a file holds. Blocking. Raises OSError."""
    with Path(source).open("rb") as held, Path(target).open("xb") as copy:
        while chunk := held.read(CHUNK_BYTES):
            if chunk == _ZEROES[: len(chunk)]:
                copy.seek(len(chunk), os.SEEK_CUR)
            else:
                copy.write(chunk)
        copy.truncate()
