"""Making a node's data directory that holds a restored state, before the node starts for the first
time.

A file stands in the directory from the first write to the last sync: a node does not start over it,
and a restore that is repeated begins anew. So what is half restored is served by nobody. What is
whole says by which restore it was made: the nodes of the cluster form a list of such directories
before any of them votes, so that one that is made once more later is refused.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from svc_cluster.backup.backup_errors import BackupError
from svc_cluster.backup.row_frames import Row
from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, Term
from svc_cluster.base.log_ops import CreateReplica, InstallSnapshot, SetHardState
from svc_cluster.base.write_set import WriteSet
from svc_cluster.model import versions
from svc_cluster.model.formation import FormationRecord
from svc_cluster.replica.formation_file import FormationFile
from svc_cluster.replica.identity import keep_active_version, open_identity
from svc_cluster.replica.prefixed import generation_prefix
from svc_cluster.storage.disk import DirectoryInUseError, RealDisk, lock_directory
from svc_cluster.storage.restoring import RESTORING
from svc_cluster.storage.rocks_settings import RocksSettings
from svc_cluster.storage.rocks_store import RocksStore
from svc_cluster.storage.state_store import StoreStalledError
from svc_cluster.storage.wal.wal_settings import WalSettings
from svc_cluster.storage.wal.writer import Wal

LOG_INDEX: Final = LogIndex(1)
TERM: Final = Term(1)
"""The place in a new log that every restored state stands for. It is the same for all, and the
digests of states from different restores differ, so that nodes find out when they were given
different ones."""

WRITE_BYTES: Final = 1024 * 1024
STALL_SECONDS: Final = 0.05
SLOTS: Final = 2
"""The file of the formation has so many, which are written by turns."""
_LEFT: Final = frozenset({"lost+found", RESTORING, "LOCK"})


def begin(directory: Path, what: str) -> int:
    """Take the directory for a restore and return the lock on it. It is empty, or holds an earlier
    restore that did not end, which is deleted. Raises BackupError."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        marker = directory / RESTORING
        _others(directory, marker)  # ahead of the lock, which takes all rights of others in there
        lock = lock_directory(directory)
        there = _others(directory, marker)
        if not marker.exists():
            with marker.open("w") as out:
                out.write(what + "\n")
                out.flush()
                os.fsync(out.fileno())
            _sync(directory)
        for name in there:
            place = directory / name
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        _sync(directory)
    except DirectoryInUseError as cause:
        raise BackupError(f"{directory} {cause}") from cause
    except OSError as cause:
        raise _unusable(directory, cause) from cause
    return lock


def _others(directory: Path, marker: Path) -> set[str]:
    """Return the names of what is there. Raises BackupError where that is not of a restore."""
    there = {each.name for each in directory.iterdir()} - _LEFT
    if there and not marker.exists():
        raise BackupError(
            f"{directory} is not empty ({sorted(there)[0]}): a restore is for a node that has "
            "never run; name another data_dir, or move what is there away"
        )
    return there


def end(directory: Path) -> None:
    """Everything is there and durable: the node may start. Raises BackupError."""
    try:
        for folder in (directory / "wal", directory / "state", directory):
            _sync(folder)
        (directory / RESTORING).unlink()
        _sync(directory)
    except OSError as cause:
        raise _unusable(directory, cause) from cause


@dataclass(frozen=True, slots=True)
class Restored:
    """What a directory says of the restore that has made it."""

    restore_id: str
    """Equal on all nodes that were given the same."""
    active_version: int
    """What the cluster had that was backed up; it goes on with that."""


class Seed:
    """The files of one node. `open`, then groups one after the other, then `close`."""

    def __init__(self, directory: Path, lock: int, cluster_id: str, node_id: NodeId) -> None:
        self._directory = directory
        self._lock = lock
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._generation = Generation(0)
        self._groups: list[tuple[GroupId, Generation]] = []
        self._prefix = b""
        self._held = WriteSet()
        self._held_bytes = 0

    def open(self) -> None:
        """Make the files. Blocking."""
        self._loop = asyncio.get_running_loop()
        self._disk = RealDisk(self._directory / "wal", self._loop)
        identity = open_identity(self._disk, self._cluster_id, self._node_id, random.SystemRandom())
        self._incarnation = identity.incarnation
        self._wal = Wal.open(self._disk, identity.tag, WalSettings(reserve_bytes=0))
        self._store = RocksStore(self._directory / "state", self._loop, RocksSettings())

    def group(self, group_id: GroupId) -> None:
        """What is put from now on is this group's."""
        self._generation = Generation(self._generation + 1)
        self._groups.append((group_id, self._generation))
        self._prefix = generation_prefix(self._generation)

    async def put(self, rows: Iterable[Row]) -> None:
        for key, value in rows:
            self._held.put(self._prefix + key, value)
            self._held_bytes += len(key) + len(value)
            if self._held_bytes >= WRITE_BYTES:
                await self._write()

    async def delete(self, ranges: Iterable[tuple[bytes, bytes]]) -> None:
        """Half-open ranges of keys."""
        for start, stop in ranges:
            self._held.delete_range(self._prefix + start, self._prefix + stop)
        await self._write()

    async def _write(self) -> None:
        held, self._held, self._held_bytes = self._held, WriteSet(), 0
        while len(held):
            try:
                self._store.write(held)
            except StoreStalledError:
                await asyncio.sleep(STALL_SECONDS)
            else:
                await asyncio.sleep(0)
                return

    async def close(self, made: Restored) -> None:
        """Make everything durable: first the rows, then the log that names them. Behind these come
        the restore, as the other nodes know it, and the active version of the cluster."""
        await self._write()
        flushed: asyncio.Future[None] = self._loop.create_future()
        self._store.flush(lambda: flushed.set_result(None))
        await flushed
        logged: asyncio.Future[None] = self._loop.create_future()
        for place, (group_id, generation) in enumerate(self._groups):
            is_last = place == len(self._groups) - 1
            self._wal.append(
                group_id,
                [
                    CreateReplica(generation),
                    SetHardState(TERM, None),
                    InstallSnapshot(LOG_INDEX, TERM, generation),
                ],
                (lambda: logged.set_result(None)) if is_last else None,
            )
        await logged
        for group_id, _ in self._groups:
            self._wal.set_flushed(group_id, LOG_INDEX)
        formation = FormationFile(self._disk, self._incarnation)
        for _ in range(SLOTS):  # in either one alone: a directory that does not say so may vote
            await formation.write(FormationRecord(restored=made.restore_id))
        await formation.close()
        if made.active_version > versions.FIRST:
            kept: asyncio.Future[None] = self._loop.create_future()
            keep_active_version(self._disk, made.active_version, lambda: kept.set_result(None))
            await kept
        await self.abandon()

    async def abandon(self) -> None:
        """Close the files as they are."""
        await self._wal.close()
        self._store.close()
        self._disk.close()
        with suppress(OSError):
            os.close(self._lock)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unusable(directory: Path, cause: OSError) -> BackupError:
    return BackupError(
        f"data_dir {directory} cannot be used ({cause.strerror}): give this user the right to "
        "write there, or room, and repeat"
    )
