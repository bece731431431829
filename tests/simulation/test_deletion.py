"""What is deleted stays deleted, also on a node whose state store has forgotten the deletion."""

from __future__ import annotations

import asyncio
import random

from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.node import Luck, SimNode
from tests.simulation.options import Options

OPTIONS = Options(
    gateways=1, http=False, basins=1, streams=1, tick_seconds=0.05, flush_seconds=600.0
)
BASIN = GroupId(CATALOG_GROUP + 1)


def test_node_whose_store_forgot_that_a_basin_was_removed_boots() -> None:
    """The log says that the replica is destroyed, the state store, which was not flushed since,
    still lists its basin: the node starts, makes no replica and catches up."""

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        for node in cluster.nodes:
            await cluster.guarded(_flushed(node), watch)
        await cluster.guarded(cluster.insist(lambda api: api.delete_basin("basin-000")), watch)
        await cluster.guarded(_until(cluster, lambda node: not _has_basin(node)), watch)
        await cluster.guarded(asyncio.sleep(1.0), watch)
        for node in cluster.nodes:
            cluster.nemesis.crash(node, random.Random(1), 0.1, luck=Luck(log=True, store=0.0))
            assert node.store.pairs(), "the store was flushed while the basin was there"
        await cluster.guarded(_until(cluster, lambda node: node.alive), watch)
        await cluster.guarded(_until(cluster, lambda node: not _has_basin(node)), watch)
        watch.cancel()
        cluster.look()

    in_simulation(1, OPTIONS, main)


async def _flushed(node: SimNode) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    node.store.flush(lambda: done.set_result(None))
    await done


async def _until(cluster: SimCluster, holds: object) -> None:
    assert callable(holds)
    deadline = cluster.loop.time() + LIVENESS_S
    while not all(holds(node) for node in cluster.nodes):
        if cluster.loop.time() > deadline:
            raise InvariantError("liveness: the removal is not done")
        await asyncio.sleep(0.1)


def _has_basin(node: SimNode) -> bool:
    return node.node is None or BASIN in node.node.host.basins
