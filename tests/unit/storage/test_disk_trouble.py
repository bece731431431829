"""A full or failing disk is told as such, whoever met it."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from svc_cluster.cli.processes.start_checks import unusable
from svc_cluster.storage.damage import is_damage
from svc_cluster.storage.disk_trouble import is_trouble, remedy, room
from tests.e2e.small_disk import ADVICE_TO_DESTROY

ROOM = re.compile(r"file system (\S+) with ([0-9.]+) of ([0-9.]+) MiB and [0-9]+ files free")
FULL: tuple[Exception, ...] = (
    OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x/wal-1"),
    OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
    Exception("IO error: No space left on device: While appending to file: /x/MANIFEST-000009"),
)
FAILING: tuple[Exception, ...] = (
    OSError(errno.EIO, os.strerror(errno.EIO)),
    OSError(errno.EROFS, os.strerror(errno.EROFS)),
    Exception("IO error: Input/output error: While pread: /x/000008.sst"),
)


def _tells_the_room(told: str, place: Path) -> bool:
    """Of this file system, about as much as is free: others may write to it meanwhile."""
    found = ROOM.search(told)
    assert found is not None, told
    disk = os.statvfs(place)
    total = disk.f_blocks * disk.f_frsize / 2**20
    return place.is_relative_to(found[1]) and abs(float(found[3]) - total) < 0.1 * total


@pytest.mark.parametrize("failure", FULL)
def test_a_full_disk_is_told_with_its_file_system_and_how_much_is_free(
    failure: Exception, tmp_path: Path
) -> None:
    """And that nothing is lost, and what to do; nothing is damaged by it."""
    told = remedy(failure, tmp_path)
    assert told is not None
    for words in ("the disk is full", "make room on it", "nothing that was ackn"):
        assert words in told
    assert _tells_the_room(told, tmp_path)
    assert is_trouble(failure) and not is_damage(failure)
    assert not ADVICE_TO_DESTROY.search(told)


@pytest.mark.parametrize("failure", FAILING)
def test_a_failing_disk_is_told_as_such(failure: Exception, tmp_path: Path) -> None:
    """The files are to stay: they may be the only copies."""
    told = remedy(failure, tmp_path)
    assert told is not None
    for words in ("the disk fails", "kernel's log", "files as they are"):
        assert words in told
    assert _tells_the_room(told, tmp_path)
    assert is_trouble(failure) and not is_damage(failure)
    assert not ADVICE_TO_DESTROY.search(told)


def test_a_lack_of_open_files_is_told_as_such(tmp_path: Path) -> None:
    """The store's own words for it have no number; no disk is to blame, and nothing is damaged."""
    for failure in (
        OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
        OSError(errno.ENFILE, os.strerror(errno.ENFILE)),
        Exception("IO error: Too many open files: While open a file: /x/000008.sst"),
    ):
        told = remedy(failure, tmp_path)
        assert told is not None
        assert "RLIMIT_NOFILE" in told and "nothing that was acknowledged is lost" in told
        assert not is_trouble(failure) and not is_damage(failure)
        assert not ADVICE_TO_DESTROY.search(told)


def test_other_failures_are_not_taken_for_the_disk(tmp_path: Path) -> None:
    """A store that is in use or damaged, and a missing right."""
    for text in ("IO error: lock /x/LOCK: Resource temporarily unavailable", "Corruption: bad"):
        assert remedy(Exception(text), tmp_path) is None
    assert remedy(PermissionError(errno.EACCES, "Permission denied"), tmp_path) is None


def test_a_trouble_whose_text_has_a_word_for_damage_is_none() -> None:
    """RocksDB may put its own words around those of the system."""
    assert not is_damage(Exception("Corruption: while syncing: No space left on device"))


def test_the_room_is_that_of_the_file_system_below_also_for_a_place_to_be_made() -> None:
    """The mount point, free and whole size in MiB, and files."""
    told = room(Path("/nonexistent/place"))
    facts = os.statvfs("/")
    assert told.startswith("file system / with ")
    assert f"of {facts.f_blocks * facts.f_frsize / 2**20:.1f} MiB" in told


def test_a_directory_on_a_full_disk_is_not_said_to_lack_rights(tmp_path: Path) -> None:
    """The refusal of a start tells about the disk, not to choose another directory."""
    refusal = str(unusable(tmp_path, OSError(errno.ENOSPC, "No space left on device")))
    assert "make room" in refusal and "choose another" not in refusal
    refusal = str(unusable(tmp_path, PermissionError(errno.EACCES, "Permission denied")))
    assert "make room" not in refusal and "choose another" in refusal
