"""What a node tells of the stages of a write, in a running cluster."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.cluster import Load, running, same_applied
from tests.e2e.load import set_up
from tests.integration.processes import page
from tests.integration.test_stopped_groups import metrics

BASIN = "staged-basin"
STAGES = (
    "svc_raft_proposal_queue_duration_seconds",
    "svc_raft_proposal_commit_duration_seconds",
    "svc_raft_apply_duration_seconds",
    "svc_wal_fsync_duration_seconds",
)


async def permits(cluster: OwnCluster) -> float:
    """Appends whose wait for room the gateway has timed."""
    _, text = await page(int(cluster.url.rpartition(":")[2]), "/metrics")
    line = re.search(r"^s2_append_permit_latency_seconds_count (.*)$", text, re.MULTILINE)
    assert line is not None
    return float(line[1])


def test_the_stages_of_a_write_are_timed_where_they_happen(tmp_path: Path) -> None:
    """The basin's leader times queue, commit, sync, apply and the way to both followers, and
    counts its election and what it committed; a follower syncs and applies alone."""

    async def main() -> None:
        async with running(tmp_path / "cluster") as cluster:
            await set_up(cluster.url, BASIN, ["stream-0"])
            load = Load(cluster.url, BASIN, writers=1)
            load.start()
            await load.acknowledged(30)
            await load.stop()
            await same_applied(cluster, BASIN, 3)
            leader = await cluster.wait_leader(BASIN)
            found = {node: await metrics(cluster, node) for node in (1, 2, 3)}
            assert load.errors() == {}
            waited = await permits(cluster)
        own = found[leader]
        for stage in STAGES:
            # several appends may ride in one entry, and each write is queued by itself
            assert own[f"{stage}_count"] >= 10, stage
            assert 0 < own[f"{stage}_sum"] < 60, stage
        assert own["svc_raft_proposal_queue_duration_seconds_count"] >= 30
        assert own["svc_raft_proposals_committed_total"] >= 10
        assert own['svc_raft_elections_total{result="won"}'] >= 1
        assert own["svc_raft_proposals_failed_total"] == 0
        assert waited >= 30
        for peer in {1, 2, 3} - {leader}:
            assert own[f'svc_raft_peer_round_trip_seconds_count{{peer="{peer}"}}'] >= 1
            assert found[peer]["svc_raft_apply_duration_seconds_count"] >= 10
            assert found[peer]["svc_wal_fsync_duration_seconds_count"] >= 10

    asyncio.run(main())
