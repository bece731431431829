"""Basins of one cluster that have different numbers of replicas."""

from __future__ import annotations

import asyncio

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import InvalidError
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.gateway.cluster.backend import ProvisionedBasin
from svc_cluster.model.provision import Provision
from svc_cluster.model.stream_config import BasinConfig
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.replica.drain_operations import DRAIN
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.options import Options

OPTIONS = Options(nodes=5, gateways=1, http=False, basins=1, streams=1, tick_seconds=0.05)
HELD_S = 20.0


def record(cluster: SimCluster, name: str) -> BasinRecord | None:
    """The row, where every node has it."""
    rows = []
    for node in cluster.nodes:
        assert node.node is not None and node.node.host.catalog is not None
        rows.append(node.node.host.catalog.state.basins.get(name))
    return rows[0] if all(row == rows[0] for row in rows) else None


def voters(cluster: SimCluster, name: str) -> list[int]:
    """The nodes on which a replica of the basin votes."""
    row = record(cluster, name)
    found = []
    for node in cluster.nodes:
        assert node.node is not None
        replica = None if row is None else node.node.host.basins.get(row.group_id)
        if replica is not None:
            engine = replica.group.engine
            assert isinstance(engine, EngineGroup)
            assert row is not None and set(engine.members) == set(row.replicas)
            found.append(int(node.node_id))
    return found


async def until_held(cluster: SimCluster, name: str, count: int) -> None:
    deadline = cluster.loop.time() + HELD_S
    while len(voters(cluster, name)) != count:
        assert cluster.loop.time() < deadline, (name, voters(cluster, name))
        await asyncio.sleep(0.1)


async def made(cluster: SimCluster, name: str, factor: int | None) -> ProvisionedBasin:
    (gateway,) = cluster.gateways
    return await gateway.ask(
        lambda process: process.backend.create_basin(name, BasinConfig(), replication_factor=factor)
    )


async def drain(cluster: SimCluster, number: int) -> None:
    def fill(request: pb.Request) -> None:
        request.drain_node.node_id = number
        request.drain_node.verb = DRAIN
        request.drain_node.forced = True

    while True:
        for node in cluster.nodes:
            assert node.node is not None
            told = await node.within(node.node.ask_catalog(fill))
            if told is not None and told.WhichOneof("result") == "node_drain":
                return
        await asyncio.sleep(0.1)


def test_each_basin_has_as_many_voters_as_it_was_made_with() -> None:
    """And takes records with them. More than there are nodes for are refused, and nothing is made:
    who drains takes none."""

    async def play(cluster: SimCluster) -> None:
        await cluster.set_up()
        for factor in (1, 3, 5, None):
            name, count = f"wants-{factor}", factor or 3
            assert (await made(cluster, name, factor)).outcome is Provision.CREATED
            await until_held(cluster, name, count)
            await cluster.insist(lambda api, name=name: api.create_stream(name, "s"))
        with pytest.raises(InvalidError, match="1, 3 or 5"):
            await made(cluster, "wants-2", 2)
        await drain(cluster, 4)
        with pytest.raises(InvalidError, match="4 nodes take replicas"):
            await made(cluster, "wants-more", 5)
        for name in ("wants-2", "wants-more"):
            assert record(cluster, name) is None
        assert (await made(cluster, "wants-less", 3)).outcome is Provision.CREATED
        await until_held(cluster, "wants-less", 3)
        assert 4 not in voters(cluster, "wants-less")

    async def run(cluster: SimCluster) -> None:
        watch = cluster.start()
        await cluster.guarded(play(cluster), watch)
        watch.cancel()

    in_simulation(4, OPTIONS, run)
