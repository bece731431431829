"""Nobody but the process's own user reads what it keeps on the disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

UMASK: Final = 0o077
"""The umask of every process, from its start on: what RocksDB makes has no mode of its own."""

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600


def keep_private(directory: Path) -> int:
    """Take every right of others from the directory and all that is in it; returns how many things
    had one. Links are not followed. What belongs to another user, as the root of a volume may, is
    left as it is, and so is what another process removes meanwhile. Raises OSError."""
    changed = int(_take(directory, DIRECTORY_MODE))
    for place, folders, files in os.walk(directory):
        changed += sum(_take(Path(place) / name, DIRECTORY_MODE) for name in folders)
        changed += sum(_take(Path(place) / name, FILE_MODE) for name in files)
    return changed


def _take(path: Path, mode: int) -> bool:
    try:
        facts = path.lstat()
        if stat.S_ISLNK(facts.st_mode) or facts.st_uid != os.geteuid():
            return False
        if stat.S_IMODE(facts.st_mode) & 0o077 == 0:
            return False
        path.chmod(mode)
    except FileNotFoundError:
        return False
    return True
