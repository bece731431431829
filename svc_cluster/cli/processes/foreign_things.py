"""Whether a directory that somebody has named is one of ours. From its first start on, what is in a
data directory is for the service's user alone; in a directory that was named by mistake that would
take the rights to other people's files, for good."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def foreign_thing(directory: Path, *marks: str) -> str | None:
    """Return the name of something in the directory that others have a right to. That is looked at
    where none of the `marks` is there that every one of ours has. None: there is nothing that would
    be taken from anybody, or it is ours, or there is no such directory. Raises OSError."""
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return None
    if any(mark in names for mark in marks):
        return None
    for name in names:
        facts = (directory / name).lstat()
        if stat.S_ISLNK(facts.st_mode) or facts.st_uid != os.geteuid():
            continue  # nobody would change it
        if stat.S_IMODE(facts.st_mode) & 0o077:
            return name
    return None
