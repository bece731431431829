"""A node that comes back at another address says so in time: before anybody finds it there."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2
from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.node_facts import NO_FACTS, SINCE, AnnouncedFacts
from svc_cluster.model.versions import FIRST
from tests.simulation.adapters import asks_address, hears_address, peer_address, rpc_address
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.options import Options

OPTIONS = Options(gateways=1, http=False, basins=1, streams=1, faults=())
MOVED = AnnouncedFacts("n3-elsewhere:7000", "n3-elsewhere:7001", "rack-3", "zone-b")
ALONE_S = 10.0
"""Virtual seconds in which a node that is found makes itself known, and hears the version."""


def rows(cluster: SimCluster, number: int) -> dict[int, AnnouncedFacts | None]:
    """What each running node has of one in its catalog; None: no row."""
    out: dict[int, AnnouncedFacts | None] = {}
    for sim in cluster.nodes:
        if sim.node is not None and (catalog := sim.node.host.catalog) is not None:
            row = catalog.state.nodes.get(NodeId(number))
            out[sim.node_id] = None if row is None else row.facts
    return out


async def until(cluster: SimCluster, what: str, holds: Callable[[], bool]) -> None:
    deadline = cluster.loop.time() + LIVENESS_S
    while not holds():
        if cluster.loop.time() > deadline:
            raise InvariantError(f"liveness: {what}: {rows(cluster, 3)}")
        await asyncio.sleep(0.02)


def is_formed(sim: SimNode) -> bool:
    return sim.node is not None and sim.node.former.formation.is_open


def hide(cluster: SimCluster, sim: SimNode) -> None:
    """Nobody reaches it; it reaches the others."""
    for other in cluster.nodes:
        if other is not sim:
            number, theirs = sim.node_id, other.node_id
            cluster.network.cut(peer_address(theirs), hears_address(number), both=False)
            cluster.network.cut(asks_address(theirs), rpc_address(number), both=False)


@pytest.mark.parametrize("seed", range(3))
def test_who_never_heard_of_the_version_says_where_it_is_by_now(seed: int) -> None:
    """It is stopped as soon as it has formed the cluster, so that it has not even applied the first
    entry, and comes back where its row alone can name it."""

    async def main(cluster: SimCluster) -> None:
        rng, sim = random.Random(seed), cluster.nodes[2]
        watch = cluster.start()
        await until(cluster, "it has formed the cluster", lambda: is_formed(sim))
        assert sim.node is not None
        assert sim.node.services.version.active == FIRST
        assert sim.node.host.catalog is not None and not sim.node.host.catalog.state.nodes
        sim.crash(rng)
        sim.says(MOVED)
        hide(cluster, sim)
        sim.start()
        others = {1: MOVED, 2: MOVED}
        await until(cluster, "its row", lambda: others.items() <= rows(cluster, 3).items())
        assert sim.node.services.version.active == FIRST, "nobody could tell it"
        cluster.network.heal_all()
        await until(cluster, "all", lambda: rows(cluster, 3) == {**others, 3: MOVED})
        await until(cluster, "whole", lambda: cluster.not_whole() is None)
        watch.cancel()
        cluster.look()

    in_simulation(seed, OPTIONS, main)


def test_what_is_said_under_the_first_version_is_written_behind_the_raise() -> None:
    """A release that is at the first version passes over the facts, and reads no entry with them:
    until the version is raised the row has an address alone."""

    async def main(cluster: SimCluster) -> None:
        for sim in cluster.nodes:
            sim.begins_at_first = True
            sim.says(replace(MOVED, host=f"rack-{sim.node_id}"))
        watch = cluster.start()
        await cluster.set_up()

        def registered() -> bool:
            return all(sim.node and sim.node.registration.is_done for sim in cluster.nodes)

        await until(cluster, "all are registered", registered)
        await asyncio.sleep(ALONE_S)
        numbers = [sim.node_id for sim in cluster.nodes]
        assert all(set(rows(cluster, number).values()) == {NO_FACTS} for number in numbers)

        def fill(request: replica_pb2.Request) -> None:
            request.raise_version.version = SINCE

        async def is_raised() -> bool:
            node = cluster.nodes[0].node
            answer = None if node is None else await node.ask_catalog(fill)
            return answer is not None and answer.WhichOneof("result") != "refusal"

        while not await is_raised():
            await asyncio.sleep(0.1)

        def are_written() -> bool:
            return all(
                {replace(MOVED, host=f"rack-{number}")} == set(rows(cluster, number).values())
                for number in numbers
            )

        await until(cluster, "all facts are in the rows", are_written)
        watch.cancel()
        cluster.look()

    in_simulation(7, OPTIONS, main)
