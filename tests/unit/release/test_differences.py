"""What keeps a release from being made: what is not committed, and what does not come out alike."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.release.build import ReleaseError, check_committed, differences, release


def committed(tree: Path) -> None:
    """Make a folder a repository with one commit."""
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", "-C", str(tree), *command], check=True)


def test_what_is_not_committed_is_refused_by_name(tmp_path: Path) -> None:
    """A changed file, and one that was added; what git does not know takes no part anyhow."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "setup.py").touch()
    committed(tree)
    (tree / "untracked").touch()
    check_committed(tree)
    (tree / "setup.py").write_text("changed\n")
    (tree / "added").touch()
    subprocess.run(["git", "-C", str(tree), "add", "added"], check=True)
    with pytest.raises(ReleaseError, match=r"2 changes are not committed \(added, setup.py\)"):
        release(tree, tmp_path / "out", twice=False, native=False, image=None)
    assert not (tmp_path / "out").exists()


def test_what_two_releases_do_not_have_alike_is_named(tmp_path: Path) -> None:
    """Another byte in a file of the same length and time, and a file that only one of them has."""
    first, second = tmp_path / "first", tmp_path / "second"
    for place in (first, second):
        place.mkdir()
        (place / "same").write_bytes(b"same")
        (place / "wheel").write_bytes(place.name[:1].encode())
        os.utime(place / "wheel", (1, 1))
    assert differences(first, second) == ["wheel"]
    (second / "more").touch()
    assert differences(first, second) == differences(second, first) == ["more", "wheel"]
