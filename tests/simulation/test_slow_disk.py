"""A leader whose disk alone is slow gives its place away; where all disks are slow nobody does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Sequence

import pytest

from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from tests.linearizability.history import Outcome
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.options import Options

BASIN = GroupId(CATALOG_GROUP + 1)
WRITERS = 6
SLOW_S = 0.2
OPTIONS = Options(gateways=1, http=False, basins=1, streams=1)


def _leader(cluster: SimCluster) -> SimNode | None:
    for node in cluster.nodes:
        basin = None if node.node is None else node.node.host.basins.get(BASIN)
        if basin is not None and basin.group.is_serving:
            return node
    return None


def _handed_over(cluster: SimCluster) -> int:
    return sum(node.node.slow_disk.handed_over for node in cluster.nodes if node.node is not None)


async def _write(cluster: SimCluster, seconds: float, number: int) -> int:
    """Appends one after the other; how many were acknowledged."""
    rng = random.Random(number)
    history, client = cluster.recorder.streams[0], cluster.recorder.new_client()
    end, acked = cluster.loop.time() + seconds, 0
    while cluster.loop.time() < end:
        items = cluster.recorder.items(rng, client, 1, 100)
        append = await cluster.recorder.append(cluster.apis[0], history, client, items)
        acked += append.outcome is Outcome.OK
        if append.outcome is not Outcome.OK:
            client = cluster.recorder.new_client()
    return acked


LOAD_S = 12.0


async def _under_load(cluster: SimCluster, slow: str) -> tuple[SimNode, SimNode]:
    """The leader before and behind LOAD_S of load on slow disks."""
    watch = cluster.start()
    await cluster.guarded(cluster.set_up(), watch)
    before = _leader(cluster)
    assert before is not None
    for node in cluster.nodes:
        if slow == "all" or node is before:
            node.disk.switches.extra_latency_s = SLOW_S
    writers = [_write(cluster, LOAD_S, number) for number in range(WRITERS)]
    acked = await cluster.guarded(_gathered(writers), watch)
    assert sum(acked) > 20
    while (after := _leader(cluster)) is None:
        await asyncio.sleep(0.1)
    history = cluster.recorder.streams[0]
    final = await cluster.guarded(cluster.read_all(history), watch)
    watch.cancel()
    cluster.judge(history, final)
    return before, after


async def _gathered(writers: Sequence[Awaitable[int]]) -> list[int]:
    return await asyncio.gather(*writers)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_leader_with_the_only_slow_disk_hands_over(seed: int) -> None:
    """Within the load the stream's leader is another node, and the history is linearizable."""

    async def main(cluster: SimCluster) -> None:
        before, after = await _under_load(cluster, "leader")
        assert after is not before
        assert _handed_over(cluster) > 0

    in_simulation(seed, OPTIONS, main)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_equally_slow_disks_change_no_leader(seed: int) -> None:
    """No disk is behind the others, so leadership is not passed around."""

    async def main(cluster: SimCluster) -> None:
        before, after = await _under_load(cluster, "all")
        assert after is before
        assert _handed_over(cluster) == 0

    in_simulation(seed, OPTIONS, main)
