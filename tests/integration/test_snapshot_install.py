"""A node that was away for longer than the logs reach back gets a snapshot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path

from svc_cluster.lab.api_client import ApiClient, AppendRecord
from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.cluster import running
from tests.e2e.load import set_up
from tests.integration.processes import samples
from tests.service_process import service

BASIN = "snapshot-basin"
STREAM = "filler"
MIB = 1024 * 1024
RETAIN_MIB = 8
SMALL_LOGS = {
    "wal_segment_mib": 4,
    "wal_retain_mib": RETAIN_MIB,
    "log_retention_mib": 2,
    "log_retention_seconds": 1.0,
    "flush_seconds": 0.5,
}


async def write(url: str, mib: int) -> None:
    """Append `mib` MiB in batches of a quarter MiB."""
    api = ApiClient(url)
    try:
        for number in range(4 * mib):
            records = [AppendRecord(b"%06d/%03d/" % (number, n) + b"x" * 8180) for n in range(32)]
            answer = await api.append(BASIN, STREAM, records)
            assert answer.status == 200, answer
    finally:
        api.close()


async def agreed(cluster: OwnCluster, nodes: int) -> None:
    """Until every replica of the basin shows the same applied index and digest."""
    async with asyncio.timeout(60):
        while True:
            rows = {
                (group["applied_index"], group["digest"])
                for groups in (await cluster.groups()).values()
                for group in groups
                if group["basin"] == BASIN
            }
            present = sum(
                group["basin"] == BASIN
                for groups in (await cluster.groups()).values()
                for group in groups
            )
            if present == nodes and len(rows) == 1:
                return
            await asyncio.sleep(0.1)


async def _sent(cluster: OwnCluster, nodes: Iterable[int]) -> float:
    """Snapshots that these nodes say they have sent; each has its duration."""
    total = 0.0
    for node in nodes:
        found = await samples(int(cluster.node(node)["admin_port"]))
        sent = found['svc_raft_snapshots_total{direction="sent",result="ok"}']
        assert found["svc_raft_snapshot_send_duration_seconds_count"] == sent
        total += sent
    return total


def test_a_node_that_missed_three_times_the_logs_capacity_is_brought_back_by_a_snapshot(
    tmp_path: Path,
) -> None:
    """Stop a node, write three times the WAL's capacity, start it: it installs a snapshot, serves,
    and the state digests are equal on all nodes."""

    async def main() -> None:
        environment = {"SVC_CLUSTER_LOCAL_OVERRIDES": json.dumps(SMALL_LOGS)}
        directory = tmp_path / "cluster"
        async with running(directory, options=["--no-restart"], environment=environment) as cluster:
            await set_up(cluster.url, BASIN, [STREAM])
            await write(cluster.url, 1)
            leader = await cluster.wait_leader(BASIN)
            away = next(node for node in (3, 2, 1) if node != leader)
            cluster.kill_node(away)
            await write(cluster.url, 3 * RETAIN_MIB)
            log = directory / "again.log"
            with service("node", directory / f"node-{away}.yaml", log, environment=environment):
                await agreed(cluster, 3)
                assert b"snapshot_installed" in log.read_bytes()
                took = 'svc_raft_snapshots_total{direction="received",result="ok"}'
                assert (await samples(int(cluster.node(away)["admin_port"])))[took] >= 1
                assert await _sent(cluster, {1, 2, 3} - {away}) >= 1
                for node in {1, 2, 3} - {away, leader}:
                    cluster.kill_node(node)
                # the leader needs the newcomer for every further acknowledgement
                await write(cluster.url, 1)

    asyncio.run(main())
