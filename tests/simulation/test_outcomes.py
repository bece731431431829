"""Outcomes of repeatable requests over the life of a cluster: leaders, snapshots, and their end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from svc_cluster.model.stream_config import BasinConfig
from svc_cluster.raft.group import Role
from tests.simulation.adapters import addresses_of
from tests.simulation.api import Acked, Item
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.cluster import LIVENESS_S, SimCluster
from tests.simulation.node import SimNode
from tests.simulation.options import Options
from tests.simulation.story import play

BASIN = GroupId(CATALOG_GROUP + 1)
NAMES = "basin-000", "stream-0"
KEY = b"k" * 32
KEPT_MS = 5_000

OPTIONS = Options(gateways=2, http=False, basins=1, streams=1, tick_seconds=0.05, flush_seconds=0.5)
SHORT = replace(OPTIONS, constants=(("idempotency_keeper.IDEMPOTENCY_KEYS_KEPT_MS", KEPT_MS),))
BEHIND = replace(OPTIONS, log_retention_seconds=0.5, log_retention_bytes=1)


async def until(cluster: SimCluster, holds: Callable[[SimNode], bool]) -> None:
    deadline = cluster.loop.time() + LIVENESS_S
    while not all(node.alive and holds(node) for node in cluster.nodes):
        if cluster.loop.time() > deadline:
            raise InvariantError("liveness: it does not come to that")
        await asyncio.sleep(0.1)


def counts(node: SimNode) -> tuple[int, int]:
    """Of the catalog and of the basin."""
    assert node.node is not None
    host = node.node.host
    assert host.catalog is not None
    basin = host.basins.get(BASIN)
    return host.catalog.idempotency.count, 0 if basin is None else basin.idempotency.count


def leads(node: SimNode) -> bool:
    if node.node is None or BASIN not in node.node.host.basins:
        return False
    engine = node.node.host.basins[BASIN].group.engine
    return engine.role is Role.LEADER


async def append(cluster: SimCluster, gateway: int) -> Acked:
    return await cluster.apis[gateway].append(*NAMES, [Item("once")], request_token="t")


@pytest.mark.parametrize("seed", [1, 2])
def test_outcomes_end_after_their_time(seed: int) -> None:
    """On every replica alike, in the basin and in the catalog, by entries that the leaders propose;
    from then on the same request is a new one."""

    async def create(cluster: SimCluster) -> None:
        await cluster.gateways[0].ask(
            lambda process: process.backend.create_basin(
                "basin-once", BasinConfig(), request_key=KEY
            )
        )

    async def story(cluster: SimCluster) -> None:
        for gateway in (0, 1, 0):
            assert (await append(cluster, gateway)).start == 0
            await create(cluster)
        await until(cluster, lambda node: counts(node) == (1, 1))
        await asyncio.sleep(KEPT_MS / 2000)
        assert (await append(cluster, 1)).start == 0
        await until(cluster, lambda node: counts(node) == (0, 0))
        assert (await append(cluster, 1)).start == 1

    play(seed, SHORT, story)


def test_a_replica_from_a_snapshot_knows_the_outcomes() -> None:
    """It was away when the request was decided, gets a snapshot, leads, and answers as before."""

    async def story(cluster: SimCluster) -> None:
        away = next(node for node in cluster.nodes if not leads(node))
        for node in cluster.nodes:
            if node is not away:
                cluster.nemesis.cut(away.node_id, node.node_id, both=True)
                for one, other in product(addresses_of(away.node_id), addresses_of(node.node_id)):
                    cluster.network.reset(one, other)
        assert (await append(cluster, 0)).start == 0
        client = cluster.recorder.new_client()
        history = cluster.recorder.streams[0]
        for _ in range(20):
            items = cluster.recorder.items(random.Random(1), client, 3, 2_000)
            await cluster.recorder.append(cluster.apis[0], history, client, items)
            await asyncio.sleep(0.2)
        cluster.network.heal_all()
        await until(cluster, lambda node: counts(node)[1] == 1)
        assert away.installs[BASIN]
        deadline = cluster.loop.time() + LIVENESS_S
        while not leads(away):
            assert cluster.loop.time() < deadline
            leader = next((node for node in cluster.nodes if leads(node)), None)
            if leader is not None and leader.node is not None:
                leader.node.host.basins[BASIN].group.transfer_leadership(away.node_id)
            await asyncio.sleep(0.5)
        assert (await append(cluster, 1)).start == 0

    play(1, BEHIND, story)
