"""A file system of a few MiB in memory, which can really be full; needs the right to mount."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MIB: Final = 1024 * 1024

ADVICE_TO_DESTROY: Final = re.compile(
    r"\b(remov(e|ing)|delet(e|ing)|rm|wip(e|ing)|eras(e|ing)|discard|rejoin|reinstall"
    r"|new node|empty directory|start over|begin anew)\b",
    re.IGNORECASE,
)
"""What no message of a start or a stop may tell an operator to do with the files of a node."""


def unavailable(place: Path) -> str | None:
    """Why no file system can be mounted on the directory `place`; None where it can."""
    if os.geteuid() != 0:
        return "not root"
    try:
        with mounted(place, 1):
            return None
    except (OSError, subprocess.CalledProcessError) as refused:
        return str(getattr(refused, "stderr", None) or refused)


@contextlib.contextmanager
def mounted(place: Path, mib: int) -> Iterator[Path]:
    """`place`, made where it is not there, as a file system of so many MiB."""
    place.mkdir(exist_ok=True)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "svc-small-disk", str(place)],
        check=True,
        capture_output=True,
        text=True,
    )
    try:
        yield place
    finally:
        # lazily: a process that has not quite ended must not keep the test's directory
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> Path:
    """Take all that is left, to the last byte; returns the file to be removed for room."""
    filler = place / "filler"
    with filler.open("ab", buffering=0) as out:
        size = MIB
        while size:
            try:
                out.write(bytes(size))
            except OSError:
                size //= 2
    assert free_bytes(place) == 0
    return filler


def free_bytes(place: Path) -> int:
    facts = os.statvfs(place)
    return facts.f_bavail * facts.f_frsize
