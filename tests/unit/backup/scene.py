"""A vault in memory, backups into it, and restores out of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from svc_cluster.backup.backup_manifest import Manifest
from svc_cluster.backup.create import BackupRun, Creation
from svc_cluster.backup.object_sealing import Plain, Sealed, Wrapping
from svc_cluster.backup.objects import ObjectStore
from svc_cluster.backup.restore import RestoredNode, Wishes, fill
from svc_cluster.backup.row_frames import Row
from svc_cluster.backup.seed import Restored
from svc_cluster.backup.vault import Vault, found_vault, vault_file
from svc_cluster.backup.verify import verify
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.write_set import WriteSet
from tests.unit.backup.memory_cluster import Basin, MemoryCluster, Rows
from tests.unit.backup.memory_objects import MemoryObjects, StoppedClock

KEY = bytes(range(32))
CHUNK_BYTES = 400
"""A few batches."""


class MemoryFiles:
    """Implements Files: what a node would hold, by group."""

    def __init__(self) -> None:
        self.groups: dict[int, Rows] = {}
        self.made = Restored("", 0)
        self._now = Rows()

    def group(self, group_id: GroupId) -> None:
        self._now = self.groups[int(group_id)] = Rows()

    async def put(self, rows: Iterable[Row]) -> None:
        self._now.rows.update(rows)

    async def delete(self, ranges: Iterable[tuple[bytes, bytes]]) -> None:
        write_set = WriteSet()
        for start, end in ranges:
            write_set.delete_range(start, end)
        self._now.write(write_set)


class Scene:
    """One cluster and its backups."""

    def __init__(self, *, sealed: bool = True) -> None:
        self.clock = StoppedClock()
        self.objects = MemoryObjects(self.clock)
        self.store: ObjectStore = self.objects
        """Where the backups are: in memory, unless a test has another place."""
        self.cluster = MemoryCluster()
        self.wrapping: Wrapping = Sealed(KEY) if sealed else Plain()
        self.key_id = self.wrapping.key_id if isinstance(self.wrapping, Sealed) else ""
        self.said: list[str] = []

    def filled(self) -> Basin:
        """A basin with two streams and ten batches in each."""
        basin = self.cluster.add("first-basin")
        for name in ("one", "two"):
            stream_id = basin.create(name)
            for number in range(10):
                basin.append(
                    stream_id, f"{name}/{number}".encode() * 10, count=3, at_ms=10_000 + number
                )
        return basin

    async def vault(self) -> Vault:
        file = await vault_file(self.store)
        if file is None:
            file = await found_vault(self.store, self.cluster.cluster_id, self.key_id)
        return Vault(self.store, file, self.wrapping)

    async def create(self, *, is_full: bool = False) -> Manifest:
        self.clock.now_ms += 60_000
        creation = Creation("9.9", is_full=is_full, chunk_bytes=CHUNK_BYTES)
        run = BackupRun(await self.vault(), self.cluster, self.clock, creation, self.said.append)
        return await run.run()

    def backup(self, *, is_full: bool = False) -> Manifest:
        return asyncio.run(self.create(is_full=is_full))

    def findings(self, manifest: Manifest) -> list[str]:
        return asyncio.run(self.look(manifest))

    async def look(self, manifest: Manifest) -> list[str]:
        """What is found to be damaged or missing."""
        return (await verify(await self.vault(), manifest, self.said.append)).findings

    def restored(
        self, manifest: Manifest, wishes: Wishes | None = None, nodes: int = 1
    ) -> list[MemoryFiles]:
        return asyncio.run(self.restore(manifest, wishes, nodes))

    async def restore(
        self, manifest: Manifest, wishes: Wishes | None = None, nodes: int = 1
    ) -> list[MemoryFiles]:
        """What each node of a new cluster is given."""
        found = []
        for node in range(1, nodes + 1):
            place = RestoredNode(
                Path("nowhere"),
                "cluster-b",
                NodeId(node),
                tuple(NodeId(each) for each in range(1, nodes + 1)),
                min(nodes, 3),
            )
            files = MemoryFiles()
            files.made = await fill(
                await self.vault(),
                manifest,
                place,
                wishes or Wishes(),
                files,
                self.said.append,
            )
            found.append(files)
        return found
