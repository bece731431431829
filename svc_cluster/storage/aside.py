"""Holds the state store's tables by a second name, so that their removal can be slow.

RocksDB unlinks what a compaction has replaced, 15 to 62 MB at once. Each table is therefore linked
into a folder beside the store when it is seen first. Once RocksDB has dropped its own name, ours is
the only one, the file's blocks are still there, and they are given back in small steps.

**Why that cannot hurt a table that is in use:** a file is shortened only while its link count is 1
and the name that counts is ours. RocksDB makes links to its tables (checkpoints) only from its own
name, which is gone then; it drops a table's name only when no version, reader or compaction refers
to it, and never opens a file of this folder. So a count of 1 stays 1. Where the
file system does not count (a probe tells), no table is held: its removal is then the store's own.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from svc_cluster.base.log import get_logger
from svc_cluster.base.seldom import Seldom
from svc_cluster.storage.removal import excess, remove_slowly

POLL_S: Final = 0.2
"""How often new and dropped tables are looked for: far less than a table lives."""

_SUFFIX: Final = ".sst"
log = get_logger("storage.aside")


def folder_of(store: Path) -> Path:
    """Where the second names are."""
    return store.with_name(f"{store.name}.aside")


class Aside:
    """A thread of its own, from `start` to `stop`. A crash at any moment leaves names that the next
    start goes on with, or blocks of a file that nothing uses."""

    def __init__(self, store: Path, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._folder = folder_of(store)
        self.at_once = 0
        """Files that were removed at once, as too much waited already."""
        self._behind = Seldom()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store-aside", daemon=True)

    def start(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._thread.start()

    def stop(self) -> None:
        """Blocking, for at most one step. What is not removed yet is left for the next start."""
        self._stopping.set()
        self._thread.join()

    def look(self) -> None:
        """Link what is new, remove what the store has dropped. Blocking. Raises OSError."""
        while dropped := self._hold():
            count = excess([size for _, size in dropped])
            for path, _ in dropped[:count]:
                path.unlink(missing_ok=True)
            self._tell(count)
            if self._stopping.is_set():
                return
            if not count:
                # one at a time: what the store makes meanwhile must be held before it is dropped
                remove_slowly(dropped[0][0], self._monotonic, self._pause)

    def _hold(self) -> list[tuple[Path, int]]:
        """Link each table that is not held yet; return what only this folder has, with sizes.

        A file is known by its inode: a store that begins anew gives the names of the one before
        to other files, and a link to a file keeps its inode from being given to another one.
        """
        held = set()
        dropped = []
        for name in sorted(os.listdir(self._folder)):
            with contextlib.suppress(FileNotFoundError):  # somebody has emptied the folder
                path = self._folder / name
                facts = path.lstat()
                held.add(facts.st_ino)
                if facts.st_nlink == 1:
                    dropped.append((path, facts.st_size))
        for name in os.listdir(self._store):
            if name.endswith(_SUFFIX):
                with contextlib.suppress(FileNotFoundError):  # dropped as soon as it was made
                    inode = (self._store / name).lstat().st_ino
                    if inode not in held:
                        self._link(name, inode)
        return dropped

    def _link(self, name: str, inode: int) -> None:
        # a folder that was copied may have this name for another file, which is about to go
        with contextlib.suppress(FileExistsError):
            os.link(self._store / name, self._folder / f"{name}.{inode}")

    def _tell(self, count: int) -> None:
        self.at_once += count
        if count and (since := self._behind.note(self._monotonic(), count)) is not None:
            log.warning("removals_fell_behind", folder=str(self._folder), removed_at_once=since)

    def _counts_links(self) -> bool:
        """Whether the file system tells how many names a file has. Some take a second name and
        go on to say one: each table would be taken for dropped."""
        one, other = self._folder / "probe", self._folder / "probe.link"
        for path in (one, other):
            path.unlink(missing_ok=True)
        one.touch(0o600)
        os.link(one, other)
        both = [path.lstat() for path in (one, other)]
        one.unlink()
        left = other.lstat()
        other.unlink()
        return (
            [facts.st_nlink for facts in both] == [2, 2]
            and left.st_nlink == 1
            and {facts.st_ino for facts in (*both, left)} == {left.st_ino}
        )

    def _let_go(self) -> None:
        """Drop our names, whole: that never hurts a table, whatever else has a name for it."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._folder):
                (self._folder / name).unlink()

    def _run(self) -> None:
        try:
            if not self._counts_links():
                raise OSError("the file system does not count the links to a file")
            while not self._stopping.wait(POLL_S):
                self.look()
        except _StoppedError:
            return
        except OSError as failure:
            # the store works without: its files then go at once
            log.warning("tables_not_held", folder=str(self._folder), reason=repr(failure))
            self._let_go()

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _StoppedError


class _StoppedError(Exception):
    """The process ends; the rest of the file is for the next start."""
