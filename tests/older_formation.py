"""Data directories of nodes that formed their cluster with the release before 0.3: it is there
already, and goes on at the version that it has."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path

from svc_cluster.base.ids import NodeId
from svc_cluster.model.formation import FormationRecord, Stage
from svc_cluster.replica.formation_file import FormationFile
from svc_cluster.replica.identity import open_identity
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.wal.wal_settings import WalSettings
from svc_cluster.storage.wal.writer import Wal


def form(directories: Mapping[int, Path], cluster_id: str) -> None:
    """These nodes, by id with their data directories, are all of a cluster that is formed and has
    decided nothing yet."""
    asyncio.run(formed(directories, cluster_id))


async def formed(directories: Mapping[int, Path], cluster_id: str) -> None:
    """Does what `form` does, inside a loop."""
    disks, identities = {}, {}
    for number, directory in directories.items():
        (directory / "wal").mkdir(parents=True, exist_ok=True)
        disk = disks[number] = RealDisk(directory / "wal", asyncio.get_running_loop())
        rng = random.Random(number)
        identities[number] = open_identity(disk, cluster_id, NodeId(number), rng)
    members = tuple((NodeId(one), identities[one].incarnation) for one in sorted(directories))
    for number, disk in disks.items():
        wal = Wal.open(disk, identities[number].tag, WalSettings(), is_expected=False)
        file = FormationFile(disk, identities[number].incarnation)
        await file.write(FormationRecord(0, Stage.FORMED, members))
        await file.close()
        await wal.close()
        disk.close()
