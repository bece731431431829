"""What becomes of a state store whose files are damaged: it is set aside, never deleted.

A process that meets damage leaves a mark beside the store and ends; the next start moves the store
away and begins an empty one. The log, and the other replicas, know everything that was in it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final, NoReturn

from svc_cluster.storage.disk_trouble import is_trouble
from svc_cluster.storage.harm import DamagedBytesError, note_harm

EXIT_STORE_DAMAGED: Final = 75
"""Process exit code after damage in the state store: start the process again."""

_SIGNS: Final = ("Corruption", "checksum", "No such file or directory")
"""What RocksDB says of files whose content is wrong, or that are gone."""


def is_damage(failure: BaseException) -> bool:
    """Whether a failure of the store says that its files are damaged, not only out of reach."""
    return not is_trouble(failure) and any(sign in str(failure) for sign in _SIGNS)


def lacks_its_root(store: Path) -> bool:
    """Whether the file that everything else hangs on is gone: the store would begin anew in here
    and delete what is left."""
    names = os.listdir(store)
    return "CURRENT" not in names and any(
        name.endswith(".sst") or name.startswith("MANIFEST") for name in names
    )


def exit_damaged(store: Path, failure: BaseException) -> NoReturn:
    """Mark the store as damaged, or note whose bytes are, where all else is whole, and end the
    process. Any thread may call this."""
    if isinstance(failure, DamagedBytesError):
        _exit_harmed(store, failure)
    line = (
        f"fatal: the state store in {store} is damaged; the next start of this process sets it "
        f"aside and gets its content from the log and the other nodes: {failure!r}\n"
    )
    with contextlib.suppress(OSError):
        _mark(store).write_text(line)
        os.write(2, line.encode("utf-8", "replace"))
    os._exit(EXIT_STORE_DAMAGED)


def _exit_harmed(store: Path, failure: DamagedBytesError) -> NoReturn:
    line = (
        f"fatal: bytes of one replica beside the state store in {store} are damaged; the next "
        f"start of this process gets this replica from the other nodes: {failure!r}\n"
    )
    with contextlib.suppress(OSError):
        note_harm(store, failure.generation)
        os.write(2, line.encode("utf-8", "replace"))
    os._exit(EXIT_STORE_DAMAGED)


def is_marked(store: Path) -> bool:
    """Whether a process has met damage in it."""
    return _mark(store).exists()


def set_aside(store: Path) -> Path:
    """Move a damaged store out of the way and remove its mark; returns where it is now. Blocking.
    A crash in here is repeated by the next start."""
    number = 1
    while (place := store.with_name(f"{store.name}.damaged-{number}")).exists():
        number += 1
    if store.exists():
        store.rename(place)
        _sync(store.parent)
    _mark(store).unlink(missing_ok=True)
    _sync(store.parent)
    return place


def _mark(store: Path) -> Path:
    return store.with_name(f"{store.name}.damaged")


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
