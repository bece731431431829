"""One data directory without its cluster: every group in it, with all that its log has.

What is not known to be committed is applied as well: it may have been acknowledged, and nobody is
left who could say that it was not. So this is done to a copy; the directory itself stays as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from svc_cluster.backup.backup_errors import BackupError, NewerFormatError, NoRoomError
from svc_cluster.backup.row_holes import UnreadableStateError
from svc_cluster.backup.salvage import Salvage, salvaged, settled
from svc_cluster.backup.surviving import SurvivingReplica
from svc_cluster.backup.survivor_copy import STATE_FOLDER, WAL_FOLDER
from svc_cluster.base.ids import CATALOG_GROUP, Generation, GroupId, LogIndex
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.base.write_set import WriteSet
from svc_cluster.catalog.catalog_state import CatalogPlan, CatalogState
from svc_cluster.codec.entry_version import UnknownEntryError
from svc_cluster.model.formation import FormationRecord
from svc_cluster.model.places import Places, place_of
from svc_cluster.raft.seal import SEAL_HEAD
from svc_cluster.replica.formation_file import FormationFile
from svc_cluster.replica.identity import IdentityError, NodeIdentity, read_identity
from svc_cluster.replica.machine import (
    EntryPlan,
    Planning,
    StateMachine,
    basin_machine,
    catalog_machine,
)
from svc_cluster.replica.prefixed import PrefixedReader, generation_prefix
from svc_cluster.storage.damage import is_marked
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.disk_trouble import is_full
from svc_cluster.storage.harm import HarmFormatError
from svc_cluster.storage.payload.payload_settings import PayloadFormatError
from svc_cluster.storage.payload.payload_store import PayloadStore
from svc_cluster.storage.rocks_settings import RocksSettings
from svc_cluster.storage.rocks_store import RocksStore, StoreDamagedError, StoreOpenError
from svc_cluster.storage.state_store import StoreStalledError
from svc_cluster.storage.wal.wal_settings import WalFormatError, WalSettings
from svc_cluster.storage.wal.writer import Wal
from svc_cluster.stream.apply import Plan as BasinPlan
from svc_cluster.stream.basin_state import BasinState

_Plan = TypeVar("_Plan", bound=EntryPlan[object])

STALL_SECONDS: Final = 0.05
ROWS_END: Final = b"\xff\xff"
"""Behind the keys of all rows of a group."""
_SALVAGED: Final = 1 << 62
"""Added to the generation of a replica that is written anew; no node comes so far."""


@dataclass(frozen=True, slots=True)
class SurvivingGroup:
    """A group in one survivor: how far its log went, and the state that it came to."""

    replica: SurvivingReplica
    machine: StateMachine[CatalogPlan] | StateMachine[BasinPlan]
    reader: PrefixedReader
    salvage: Salvage | None = None
    """What is missing of it, where something could not be read."""


class Survivor:
    """The copy of a data directory, open; `close` it."""

    def __init__(
        self,
        directory: Path,
        identity: NodeIdentity,
        record: FormationRecord,
        disk: RealDisk,
        wal: Wal,
    ) -> None:
        """`directory` is the one that was copied, for what is told."""
        self.directory = directory
        self.identity = identity
        self.record = record
        """What the directory has of the cluster's formation."""
        self.groups: dict[GroupId, SurvivingGroup] = {}
        self.unreadable: dict[GroupId, str] = {}
        """Groups with a replica in this directory that cannot be read, so that it is none; why."""
        self._disk = disk
        self._wal = wal
        self._store: PayloadStore | None = None
        self._is_marked = False

    @classmethod
    async def open(cls, copy: Path, directory: Path) -> Survivor:
        """Apply everything that the logs in `copy` have. Raises BackupError."""
        disk = RealDisk(copy / WAL_FOLDER, asyncio.get_running_loop())
        try:
            identity = read_identity(disk)
            record = FormationFile(disk, identity.incarnation).record
            wal = Wal.open(disk, identity.tag, WalSettings(reserve_bytes=0), is_expected=True)
        except (IdentityError, WalFormatError, PayloadFormatError, OSError) as cause:
            disk.close()
            raise BackupError(f"{directory}: {cause}") from cause
        except BaseException:
            disk.close()
            raise
        survivor = cls(directory, identity, record, disk, wal)
        try:
            await survivor._apply_all(copy / STATE_FOLDER)
        except UnknownEntryError as cause:
            await survivor.close()
            raise NewerFormatError(
                f"node {identity.node_id} holds {cause}: recover it with the release that ran there"
            ) from cause
        except BaseException:
            await survivor.close()
            raise
        return survivor

    async def close(self) -> None:
        """Close what is open, also behind damage: the copy is not used any more."""
        try:
            await self._wal.close()
        finally:
            try:
                with contextlib.suppress(UnreadableStateError):
                    (self._store or self._wal.payloads).close()
            finally:
                self._disk.close()

    def has_lost_its_place(self, given: Places) -> bool:
        """Whether another directory has the place of this one's node, by the places given away."""
        place = place_of(self.identity.node_id, given)
        return (
            place is not None
            and place.ordinal >= self.record.ordinal
            and place.incarnation != self.identity.incarnation
        )

    async def _apply_all(self, state: Path) -> None:
        logs = self._wal.recovered
        self._is_marked = is_marked(state)
        try:
            self._store = self._opened(state)
        except (StoreDamagedError, UnreadableStateError) as cause:
            self.unreadable |= dict.fromkeys(logs, str(cause))
            return
        except (StoreOpenError, HarmFormatError, OSError) as cause:
            if is_full(cause):
                raise NoRoomError(f"{self.directory}: the disk is full under its copy") from cause
            raise BackupError(f"{self.directory}: {cause}") from cause
        for log in logs.values():
            try:
                self.groups[log.group_id] = await self._group(log)
            except UnreadableStateError as cause:
                self.unreadable[log.group_id] = str(cause)

    def _opened(self, state: Path) -> PayloadStore:
        loop = asyncio.get_running_loop()
        on_failure = partial(_unreadable, self.directory)
        rocks = RocksStore(state, loop, RocksSettings(compacts=False), on_failure)
        try:
            return PayloadStore(rocks, self._wal.payloads, self._wal, loop)
        except BaseException:
            with contextlib.suppress(UnreadableStateError):
                rocks.close()
            raise

    async def _group(self, log: RecoveredLog) -> SurvivingGroup:
        """Raises UnreadableStateError. Nothing is applied to rows that are not all read."""
        store = self._opened_store()
        reader = PrefixedReader(store, log.generation)
        if log.group_id == CATALOG_GROUP:
            # a part of it would not know which basins and nodes there were
            self._read_through(log.generation)
            catalog = catalog_machine(CatalogState(reader))
            return SurvivingGroup(
                await self._applied(catalog, log, log.generation), catalog, reader
            )
        generation, salvage = log.generation, None
        try:
            self._read_through(generation)
        except UnreadableStateError:
            generation = Generation(_SALVAGED + generation)
            put = partial(self._put, generation)
            made = PrefixedReader(store, generation)
            salvage, reader = await salvaged(reader, ROWS_END, put, made), made
        basin = basin_machine(BasinState(reader))
        replica = await self._applied(basin, log, generation)
        if salvage is not None:
            replica = replace(replica, is_whole=False, lacks_rows=True)
            await self._put(generation, settled(reader, salvage))
        return SurvivingGroup(replica, basin, reader, salvage)

    async def _applied(
        self, machine: StateMachine[_Plan], log: RecoveredLog, generation: Generation
    ) -> SurvivingReplica:
        store = self._opened_store()
        first = machine.applied_index
        meets = log.base_index <= first <= log.last_index
        is_whole = not (log.damaged or self._is_marked or log.generation in store.harm.generations)
        sealed_at = _sealed_at(log)
        end = log.last_index if sealed_at is None else sealed_at
        last = (machine.applied_term, first)
        if meets and log.entries:
            last = (log.entries[-1].term, log.last_index)  # elections go by no-ops as well
        # a seal changes no state, and is applied as a no-op is; what is behind it has no effect
        for entry in log.entries[first - log.base_index : end - log.base_index] if meets else []:
            plan = _planned(machine.plan(entry))
            await self._put(generation, plan.write_set)
            machine.commit(plan)
        return SurvivingReplica(
            self.identity.node_id,
            *last,
            meets and is_whole,
            None if log.configuration is None else log.configuration.nodes,
            sealed_at is not None,
        )

    def _read_through(self, generation: Generation) -> None:
        """Read each row once: where one is damaged, another survivor may have all of them."""
        snapshot = self._opened_store().snapshot(fills_cache=False)
        try:
            for _ in PrefixedReader(snapshot, generation).scan(b"", ROWS_END):
                pass
        finally:
            snapshot.close()

    async def _put(self, generation: Generation, write_set: WriteSet) -> None:
        prefixed = write_set.prefixed(generation_prefix(generation))
        while True:
            try:
                self._opened_store().write(prefixed)
            except StoreStalledError:
                await asyncio.sleep(STALL_SECONDS)
            else:
                return

    def _opened_store(self) -> PayloadStore:
        assert self._store is not None, "without a store nothing is applied"
        return self._store


def _sealed_at(log: RecoveredLog) -> LogIndex | None:
    """Where the seal stands that ends the configuration of this log, applied or not; None: nowhere.
    One of a configuration before began the one that goes on behind it."""
    begun = 0 if log.configuration is None else log.configuration.seal_index
    for entry in log.entries:
        if entry.log_index > begun and entry.payload.startswith(SEAL_HEAD):
            return entry.log_index
    return None


def _unreadable(directory: Path, state: Path, failure: BaseException) -> NoReturn:
    if is_full(failure):
        raise NoRoomError(f"{directory}: the disk is full under its copy") from failure
    raise UnreadableStateError(
        f"the state of {directory} cannot be read ({failure}): leave this directory out"
    ) from failure


def _planned(steps: Planning[_Plan]) -> _Plan:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            plan: _Plan = end.value
            return plan
