"""Programs of earlier releases: built from the history, once a session, beside this one's."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD_S = 280.0


class NoHistoryError(Exception):
    """This checkout does not have the commit: as without git, or cloned with a depth."""


@dataclass(frozen=True, slots=True)
class Program:
    """What `python -m svc_cluster` runs. `place`: where its package is; None: this checkout's."""

    release: str
    place: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """With the package of this program before any other."""
        return {**os.environ, "PYTHONPATH": str(self.place or ROOT)}

    @property
    def command(self) -> list[str]:
        """To be run in a directory that holds no package of ours."""
        return [sys.executable, "-P", "-m", "svc_cluster"]


def commits() -> dict[str, str]:
    """Commit by release, as the file `versions` names them."""
    lines = (Path(__file__).parent / "versions").read_text().splitlines()
    rows = (line.split() for line in lines if line and not line.startswith("#"))
    return dict(rows)


def build(release: str, directory: Path) -> Program:
    """The wheel of a release, made from its commit and unpacked. Raises NoHistoryError."""
    commit = commits()[release]
    try:
        tree = subprocess.run(
            ["git", "-C", str(ROOT), "archive", "--format=tar", commit],
            capture_output=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError) as cause:
        raise NoHistoryError(f"release {release} is commit {commit}, which is not here") from cause
    source, place = directory / "source", directory / "program"
    with tarfile.open(fileobj=BytesIO(tree)) as archive:
        archive.extractall(source, filter="data")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"),
            *("--no-index", "--no-deps", "--no-build-isolation", "--target", str(place)),
            str(source),
        ],
        check=True,
        timeout=BUILD_S,
    )
    return Program(release, place)


NOW = Program("now")
