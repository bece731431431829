"""Many groups whose logs together are more than a node may keep: each gives way, none is lost."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

from svc_cluster.base.memory import MIB
from svc_cluster.replica.memory_budget import LOG_SHARE
from tests.linearizability.history import Outcome
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.snapshot_scenario import OPTIONS

BASINS = 3
MEMORY = 12 * MIB
"""More than what is on its way to two peers."""

ENTRY = 400_000
LIMITED = replace(
    OPTIONS,
    basins=BASINS,
    memory_bytes_max=MEMORY,
    log_retention_seconds=600.0,
    flush_seconds=600.0,
)
"""Neither age nor the size of one group would ever shorten a log, and nothing else flushes."""


async def _appends(cluster: SimCluster, each: int) -> None:
    rng = random.Random(cluster.seed)
    for _ in range(each):
        for history in cluster.recorder.streams:
            outcome = None
            while outcome is not Outcome.OK:
                client = cluster.recorder.new_client()
                items = cluster.recorder.items(rng, client, 1, ENTRY)
                append = await cluster.recorder.append(cluster.apis[0], history, client, items)
                outcome = append.outcome


def test_logs_of_many_groups_stay_within_the_nodes_memory() -> None:
    """Four times what a node may keep is appended while one node is away: the logs of the others
    are cut back, nothing stays refused, and the one that comes back is made whole by snapshots."""

    async def main(cluster: SimCluster) -> None:
        _ = cluster.start()
        await cluster.set_up()
        away = cluster.nodes[-1]
        for node in cluster.nodes[:-1]:
            cluster.nemesis.cut(node.node_id, away.node_id, both=True)
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                for node in cluster.nodes[:-1]:
                    assert node.node is not None
                    most = max(most, node.node.host.memory.held()["log"])
                await asyncio.sleep(0.05)

        watching = cluster.loop.create_task(watch())
        await _appends(cluster, 4 * MEMORY // (BASINS * ENTRY))
        await asyncio.sleep(2.0)
        for node in cluster.nodes[:-1]:
            assert node.node is not None
            held = node.node.host.memory.held()["log"]
            assert held <= MEMORY * LOG_SHARE + BASINS * 2 * ENTRY, "cut back to whole entries"
        assert most <= MEMORY * 1.2, "a look every half second, and the replies to others between"
        cluster.network.heal_all()
        deadline = cluster.loop.time() + LIVENESS_S
        while (why := cluster.not_whole()) is not None:
            assert cluster.loop.time() < deadline, why
            await asyncio.sleep(0.1)
        watching.cancel()
        assert away.node is not None
        basins = away.node.host.basins
        assert len(basins) == BASINS
        assert all(away.installs[group] for group in basins), "its logs were not kept for it"
        cluster.compare_stores()
        for history in cluster.recorder.streams:
            cluster.judge(history, await cluster.read_all(history))
        cluster.look()

    in_simulation(1, LIMITED, main)
