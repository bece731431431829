"""The data directories of a real cluster that was killed, and what it had acknowledged."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svc_cluster.lab.api_client import ApiClient, AppendRecord
from svc_cluster.lab.own_cluster import OwnCluster

NODES = (1, 2, 3)
SETTINGS: dict[str, Any] = {
    "wal_segment_mib": 4,
    "wal_retain_mib": 4,
    "log_retention_mib": 4,
    "log_retention_seconds": 4.0,
    "flush_seconds": 0.5,
    "disk_reserve_mib": 1,
}
"""Small logs, flushed often: some groups begin behind a trimmed log, some at the beginning."""

EARLY, LATE = "early-basin", "late-basin"
_READY_S = 90.0
_BATCH = 10
_QUIET_S = 2.5
"""Longer than a node waits until it marks the end of a quiet log."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """`acknowledged`: the bodies of each (basin, stream) in order."""

    directory: Path
    cluster_id: str
    acknowledged: dict[tuple[str, str], list[bytes]]

    def copy(self, to: Path) -> None:
        """The nodes' directories as they were when the cluster was killed."""
        for node in NODES:
            shutil.copytree(self.directory / f"node-{node}", to / f"node-{node}")
        shutil.copy(self.directory / "cluster.secret", to / "cluster.secret")


def make(directory: Path, seed: int = 1) -> Dataset:
    """Run a cluster in `directory`, write, wait until it is quiet, kill -9 everything. The large
    batches of one stream stand in payload files."""
    return asyncio.run(_make(directory, random.Random(seed)))


def load(directory: Path) -> Dataset:
    """What `make` left."""
    facts = json.loads((directory / "acknowledged.json").read_text())
    rows = {(b, s): [bytes.fromhex(body) for body in bodies] for b, s, bodies in facts["streams"]}
    return Dataset(directory, facts["cluster_id"], rows)


async def _make(directory: Path, rng: random.Random) -> Dataset:
    environment = {"SVC_CLUSTER_LOCAL_OVERRIDES": json.dumps(SETTINGS)}
    cluster = OwnCluster(directory, options=["--no-restart"], environment=environment)
    cluster.start()
    rows: dict[tuple[str, str], list[bytes]] = {}
    try:
        await cluster.wait_ready(_READY_S)
        api = ApiClient(cluster.url)
        try:
            await _until_payload(directory)
            await _write(api, rng, rows, LATE, "bulk", batches=100, size=8_000)
            await _write(api, rng, rows, EARLY, "filler", batches=300, size=1_000)
            await asyncio.sleep(_QUIET_S)
            await _write(api, rng, rows, LATE, "one", batches=60, size=300)
            await _write(api, rng, rows, LATE, "two", batches=30, size=50)
            await _write(api, rng, rows, EARLY, "more", batches=30, size=300)
        finally:
            api.close()
        await asyncio.sleep(_QUIET_S)
        cluster.kill_all()
    finally:
        cluster.stop()
    cluster_id = json.loads((directory / "local.json").read_text())["cluster_id"]
    facts = {
        "cluster_id": cluster_id,
        "streams": [[b, s, [body.hex() for body in bodies]] for (b, s), bodies in rows.items()],
    }
    (directory / "acknowledged.json").write_text(json.dumps(facts))
    return Dataset(directory, cluster_id, rows)


async def _until_payload(directory: Path) -> None:
    """Until each node is ready to write payload files: a new cluster comes to the version of them
    a moment after its start."""
    async with asyncio.timeout(_READY_S):
        for node in NODES:
            while not any((directory / f"node-{node}" / "wal").glob("payload-0*.segment")):
                await asyncio.sleep(0.1)
    await asyncio.sleep(1.0)  # they are there before they are reserved


async def _write(
    api: ApiClient,
    rng: random.Random,
    rows: dict[tuple[str, str], list[bytes]],
    basin: str,
    stream: str,
    *,
    batches: int,
    size: int,
) -> None:
    await api.create_basin(basin)
    for _ in range(100):
        if (await api.create_stream(basin, stream)).status in (200, 201, 409):
            break
        await asyncio.sleep(0.1)
    bodies = rows.setdefault((basin, stream), [])
    for _ in range(batches):
        batch = [rng.randbytes(rng.randint(size // 2, size)) for _ in range(_BATCH)]
        answer = await api.append(basin, stream, [AppendRecord(body) for body in batch])
        if answer.status != 200:
            raise RuntimeError(f"an append to a healthy cluster was refused: {answer}")
        bodies += batch
