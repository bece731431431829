"""Where a gateway's processes meet: it is held while one of them needs it, and left to nobody."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from svc_cluster.cli.processes.gateway_directory import (
    GroupDirectory,
    new_directory,
    page_path,
    socket_path,
)
from svc_cluster.settings_errors import DirectoryError


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What stands for the system's place of temporary files."""
    place = tmp_path_factory.mktemp("t")
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def left(place: Path, name: str = "svc-gateway-abcd1234") -> Path:
    """Return what a group of two leaves that was killed."""
    directory = place / name
    directory.mkdir()
    for number in (1, 2):
        socket_path(directory, number).touch()
        page_path(directory, number).touch()
    (directory / "2.tmp").touch()
    return directory


def test_what_nobody_holds_any_more_is_removed_at_the_next_start(place: Path) -> None:
    """With what its processes have left in it. One that a process holds stays."""
    gone = left(place)
    one = new_directory(2)
    socket_path(one.path, 1).touch()
    assert one.path.stat().st_mode & 0o777 == 0o700
    two = new_directory(2)
    assert not gone.exists()
    assert sorted(place.iterdir()) == sorted([one.path, two.path])
    assert socket_path(one.path, 1).exists()
    one.leave()
    two.leave()
    assert [*place.iterdir()] == []


def test_what_may_be_something_else_is_left(place: Path) -> None:
    """Another name, other files, a folder, a link: whoever has made those wants to keep them."""
    other_name = left(place, "svc-gateway-notes")
    other_file = left(place, "svc-gateway-aaaaaaaa")
    (other_file / "notes").touch()
    folder = left(place, "svc-gateway-bbbbbbbb")
    (folder / "9.sock").mkdir()
    target = left(place, "kept")
    link = place / "svc-gateway-cccccccc"
    link.symlink_to(target)
    new_directory(2).leave()
    assert sorted(place.iterdir()) == sorted([other_name, other_file, folder, target, link])
    assert len([*other_name.iterdir()]) == len([*target.iterdir()]) == 5
    assert len([*other_file.iterdir()]) == 6


def test_the_last_process_that_leaves_removes_it(place: Path) -> None:
    """Whichever that is, and whether or not the others have said that they go."""
    parent = new_directory(2)
    one, two = GroupDirectory(parent.path), GroupDirectory(parent.path)
    one.hold()
    two.hold()
    parent.leave()
    page_path(parent.path, 1).touch()
    one.leave()
    assert page_path(parent.path, 1).exists()
    two.leave()
    assert [*place.iterdir()] == []


def test_one_that_is_gone_is_made_again_and_held(place: Path) -> None:
    """By whichever process looks first; the next group does not take it for a left one."""
    one = new_directory(2)
    shutil.rmtree(one.path)
    two = GroupDirectory(one.path)
    two.hold()
    assert one.path.stat().st_mode & 0o777 == 0o700
    page_path(one.path, 2).touch()
    new_directory(2).leave()
    assert page_path(one.path, 2).exists()
    one.hold()
    two.leave()
    assert page_path(one.path, 2).exists()
    one.leave()
    assert [*place.iterdir()] == []


def test_a_link_in_its_place_is_not_used(place: Path) -> None:
    """In a place where everybody may write, anybody could have made it."""
    one = new_directory(2)
    shutil.rmtree(one.path)
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    one.path.symlink_to(elsewhere)
    with pytest.raises(OSError, match=one.path.name):
        one.hold()
    one.leave()
    assert elsewhere.exists()


def test_a_name_that_is_too_long_for_sockets_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any process is started; nothing is left."""
    deep = place / ("d" * 90)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with pytest.raises(DirectoryError, match="too long a name"):
        new_directory(64)
    assert [*deep.iterdir()] == []
