"""Replicas leave a node that is drained, and are evened out when somebody wants it, by themselves:
through crashes of who leads the catalog and of who is to have them, under load."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace

import pytest

from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.catalog.placement_model import CHANGES_MAX, INCOMING_MAX
from svc_cluster.catalog.placement_queue import watched
from svc_cluster.replica.drain_operations import DRAIN, TELL, UNDRAIN
from svc_cluster.replica.replica_moves import ReplicaMoves
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.options import Options
from tests.simulation.test_drained_nodes import Drained

BASINS = 6
OPTIONS = Options(
    nodes=5,
    gateways=1,
    http=False,
    basins=BASINS,
    streams=1,
    tick_seconds=0.05,
    flush_seconds=0.5,
    log_retention_seconds=2.0,
)
GONE_S = 8.0
SOON = replace(OPTIONS, constants=(("replica_moves.GONE_SECONDS", GONE_S),))
MOVED_S = 120.0
"""Virtual seconds for all replicas of a node, with one node away for a while."""


class Moving(Drained):
    """A cluster of more nodes than a basin has replicas."""

    async def begin(self) -> None:
        self.watch = self.cluster.start()
        await self.cluster.set_up()
        self.most: Counter[str] = Counter()
        self.seen: list[BasinRecord] = []

    def rows(self) -> list[BasinRecord]:
        """As the catalog that has applied most knows them; as before while nobody is there."""
        catalogs = [
            catalog
            for node in self.cluster.nodes
            if node.node is not None and (catalog := node.node.host.catalog) is not None
        ]
        if not catalogs:
            return self.seen
        newest = max(catalogs, key=lambda one: one.group.applied_index)
        self.seen = found = list(newest.state.basins.values())
        opened = [one for row in found if (one := watched(row)) is not None]
        coming = Counter(node for one in opened for node in one.coming)
        self.most["open"] = max(self.most["open"], len(opened))
        self.most["coming"] = max(self.most["coming"], *coming.values(), 0)
        return found

    def counts(self) -> Counter[int]:
        """Replicas on each node by the rows; those that are to go elsewhere are still there."""
        found = Counter({int(node.node_id): 0 for node in self.cluster.nodes})
        found.update(int(node) for row in self.rows() for node in row.replicas)
        return found

    def is_still(self) -> bool:
        return not any(row.change for row in self.rows())

    def coming(self) -> list[SimNode]:
        """Nodes to which something is on its way."""
        ids = {node for row in self.rows() if (one := watched(row)) for node in one.coming}
        return [node for node in self.cluster.nodes if node.node_id in ids]

    def leader(self) -> SimNode | None:
        """Who leads the catalog, if somebody does."""
        try:
            return self.at_catalog()
        except AssertionError:
            return None

    async def emptied(self, leaving: SimNode, seconds: float = MOVED_S) -> None:
        """No row names it, and it has no copy."""
        number = int(leaving.node_id)

        def is_empty() -> bool:
            return not self.counts()[number] and self.is_still() and leaving.node is not None

        await self.until("the node is empty", is_empty, seconds)
        await self.until("its copies are gone", lambda: not self.host(leaving).basins, LIVENESS_S)
        assert (await self.say(leaving, TELL)).replicas == 0

    async def end(self) -> None:
        """Everything is whole, in every replica."""
        cluster = self.cluster
        await self.until("whole", lambda: cluster.not_whole() is None, LIVENESS_S)
        cluster.compare_stores()
        await self.finish()
        assert self.most["open"] <= CHANGES_MAX
        assert self.most["coming"] <= INCOMING_MAX

    async def drain(self, crash: str) -> None:
        """Crash something as soon as something moves."""
        await self.begin()
        cluster = self.cluster
        leaving = cluster.nodes[0]
        writers = [cluster.loop.create_task(self.write(number)) for number in range(BASINS)]
        assert (await self.say(leaving, DRAIN)).replicas > 0
        await self.until("something moves", lambda: bool(self.coming()), LIVENESS_S)
        leader = self.leader()
        victims: dict[str, list[SimNode]] = {
            "catalog": [] if leader is None else [leader],
            "coming": self.coming(),
            "leaving": [leaving],
            "gone": self.coming()[:1],
            "all": cluster.nodes,
        }
        down = GONE_S + 15.0 if crash == "gone" else 2.0
        for victim in victims.get(crash, []):
            cluster.nemesis.crash(victim, random.Random(1), down)
        await self.emptied(leaving, MOVED_S + down)
        self.stopping = True
        await asyncio.gather(*writers)
        await self.end()

    async def even_out(self, crash: str) -> None:
        """Two nodes are emptied and come back: then the others have all. Nothing moves until it is
        wished, and nothing any more once all are even."""
        await self.begin()
        cluster = self.cluster
        empty = cluster.nodes[:2]
        for node in empty:
            await self.say(node, DRAIN)
        for node in empty:
            await self.emptied(node)
        for node in empty:
            await self.say(node, UNDRAIN)
        before = self.counts()
        await asyncio.sleep(30.0)
        assert self.counts() == before, "nobody has asked for it"
        wishing = cluster.loop.create_task(self.wish())
        await self.until("something moves", lambda: bool(self.coming()), LIVENESS_S)
        if crash == "catalog" and (leader := self.leader()) is not None:
            cluster.nemesis.crash(leader, random.Random(1), 2.0)
        await self.until("it is even", self.is_even, MOVED_S)
        await self.until("its leader says so", self.is_done, LIVENESS_S)
        at_end = self.counts()
        await asyncio.sleep(30.0)
        assert self.counts() == at_end
        wishing.cancel()
        await self.end()

    def is_even(self) -> bool:
        counts = self.counts().values()
        return max(counts) - min(counts) <= 1 and self.is_still()

    def is_done(self) -> bool:
        leader = self.leader()
        return leader is not None and self.moves(leader).progress.is_done

    def moves(self, node: SimNode) -> ReplicaMoves:
        assert node.node is not None
        return node.node.service.moves

    async def wish(self) -> None:
        """What `admin rebalance` does."""
        while True:
            leader = self.leader()
            if leader is not None:
                self.moves(leader).wish()
            await asyncio.sleep(1.0)


@pytest.mark.parametrize("crash", ["catalog", "coming", "gone"])
def test_a_drained_node_ends_empty_through_crashes(crash: str) -> None:
    """Under load: nothing that was acknowledged is lost, and the limits are kept. A node that is
    away for long is given up, and another one has the replica."""

    async def run(cluster: SimCluster) -> None:
        await Moving(cluster).drain(crash)

    in_simulation(11, SOON if crash == "gone" else OPTIONS, run)


@pytest.mark.parametrize("crash", ["catalog"])
def test_a_skewed_cluster_becomes_even_when_that_is_wished(crash: str) -> None:
    async def run(cluster: SimCluster) -> None:
        await Moving(cluster).even_out(crash)

    in_simulation(12, OPTIONS, run)


def test_a_drain_sends_nothing_more_to_a_node_that_died() -> None:
    """All that leaves goes to the one node that has none of it. It dies once the first change is
    open: the rest waits, and keeps its copies."""

    async def run(cluster: SimCluster) -> None:
        moving = Moving(cluster)
        await moving.begin()
        await moving.say(cluster.nodes[0], DRAIN)
        await moving.until("something moves", lambda: bool(moving.coming()), 30.0)
        victim = moving.coming()[0]
        dead = int(victim.node_id)
        cluster.nemesis.crash(victim, random.Random(1), 300.0)
        before = sum(dead in row.replicas for row in moving.rows())
        for _ in range(400):
            await asyncio.sleep(0.1)
            assert sum(dead in row.replicas for row in moving.rows()) == before

    in_simulation(11, replace(OPTIONS, nodes=4, basins=12), run)
