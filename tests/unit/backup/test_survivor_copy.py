"""A data directory is copied as it is, with its holes, or it is told why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc_cluster.backup.backup_errors import BackupError
from svc_cluster.backup.survivor_copy import CHUNK_BYTES, copied, copy_file


def empty(place: Path) -> Path:
    (place / "wal").mkdir(parents=True)
    (place / "state").mkdir()
    return place


def test_the_current_directory_is_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name by itself is empty: the copy would be the work directory."""
    empty(tmp_path / "n1")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "n1")
    assert copied(Path(), tmp_path / "work") == tmp_path / "work" / "n1"
    assert (tmp_path / "work" / "n1" / "wal").is_dir()


def test_what_cannot_be_locked_is_refused_with_a_sentence(tmp_path: Path) -> None:
    """As on a file system that is mounted for reading alone."""
    (empty(tmp_path / "n1") / "LOCK").mkdir()
    with pytest.raises(BackupError, match=r"n1 cannot be locked.*name the copy"):
        copied(tmp_path / "n1", tmp_path / "work")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a",
        bytes(10),
        bytes(CHUNK_BYTES) + b"a",
        b"a" + bytes(2 * CHUNK_BYTES),
        b"a" * CHUNK_BYTES + bytes(CHUNK_BYTES) + b"b",
    ],
)
def test_a_copy_holds_the_same(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    copy_file(str(tmp_path / "file"), str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == content


def test_a_copy_takes_no_room_for_holes(tmp_path: Path) -> None:
    """Files of the log and of large records are made long before they are full."""
    with (tmp_path / "file").open("wb") as file:
        file.truncate(64 * CHUNK_BYTES)
    copy_file(str(tmp_path / "file"), str(tmp_path / "copy"))
    found = (tmp_path / "copy").stat()
    assert found.st_size == 64 * CHUNK_BYTES
    assert found.st_blocks * 512 <= CHUNK_BYTES
