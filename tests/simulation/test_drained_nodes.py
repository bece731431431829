"""A node that is drained by the catalog leads nothing, through crashes, until that is over."""

from __future__ import annotations

import asyncio
import random

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.replica.drain_operations import DRAIN, TELL, UNDRAIN
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.options import Options
from tests.simulation.test_lead_balance import Balancing

OPTIONS = Options(gateways=1, http=False, basins=4, streams=1, tick_seconds=0.05)


class Drained(Balancing):
    """The first node leads everything, and is drained."""

    async def say(self, node: SimNode, verb: int) -> pb.NodeDrain:
        """Asked by any node that is there, until the catalog's leader answers."""

        def fill(request: pb.Request) -> None:
            request.drain_node.node_id = node.node_id
            request.drain_node.verb = verb
            request.drain_node.forced = True

        deadline = self.cluster.loop.time() + LIVENESS_S
        while True:
            for asked in self.cluster.nodes:
                if asked.node is None:
                    continue
                answer = await asked.node.ask_catalog(fill)
                if answer is not None and answer.WhichOneof("result") == "node_drain":
                    return answer.node_drain
            assert self.cluster.loop.time() < deadline
            await asyncio.sleep(0.1)

    async def rid(self, node: SimNode) -> None:
        """It leads nothing, and the others lead all."""
        wanted = self.cluster.options.basins + 1

        def holds() -> bool:
            led = self.leads()
            is_rid = led[node.node_id] == 0 and sum(led.values()) == wanted
            return is_rid and self.host(node).avoids_leads()

        await self.until("others lead all that it led", holds, 30.0)

    async def play(self, crash: str) -> None:
        """Crash something right behind the answer, while leads go away."""
        leaving = await self.started()
        cluster = self.cluster
        told = await self.say(leaving, DRAIN)
        assert (told.state, told.replicas) == ("draining", cluster.options.basins)
        victims = {"itself": [leaving], "all": cluster.nodes, "catalog": [self.at_catalog()]}
        for victim in victims.get(crash, []):
            cluster.nemesis.crash(victim, random.Random(1), 2.0)
        await self.until("all are back", lambda: all(n.node for n in cluster.nodes), 30.0)
        await self.rid(leaving)
        await self.write_everywhere()
        assert leaving.node is not None
        assert leaving.node.readiness()["not_draining"], "it follows on, and is ready"
        cluster.nemesis.crash(leaving, random.Random(2), 2.0)
        await self.until("it is back", lambda: leaving.node is not None, 30.0)
        assert (await self.say(leaving, TELL)).state == "draining"
        await self.rid(leaving)
        assert (await self.say(leaving, UNDRAIN)).state == "active"
        await self.until("it knows", lambda: not self.host(leaving).avoids_leads(), LIVENESS_S)
        deadline = cluster.loop.time() + 30.0
        while self.leads()[leaving.node_id] == 0:
            assert cluster.loop.time() < deadline, "it leads again"
            await self.ask()
            await asyncio.sleep(0.5)
        await self.write_everywhere()
        await self.finish()

    async def all_of_them(self) -> None:
        """Leads stay where they are."""
        await self.started()
        nodes = self.cluster.nodes
        for node in nodes:
            await self.say(node, DRAIN)
        await self.until("all know", lambda: all(self.host(n).avoids_leads() for n in nodes), 10.0)
        await asyncio.sleep(3.0)
        before = self.leads()
        await asyncio.sleep(10.0)
        assert self.leads() == before
        await self.write_everywhere()
        await self.finish()


@pytest.mark.parametrize("crash", ["nothing", "itself", "catalog", "all"])
def test_a_drained_node_leads_nothing_through_crashes(crash: str) -> None:
    async def run(cluster: SimCluster) -> None:
        await Drained(cluster).play(crash)

    in_simulation(5, OPTIONS, run)


def test_where_all_nodes_are_drained_leads_do_not_go_round() -> None:
    async def run(cluster: SimCluster) -> None:
        await Drained(cluster).all_of_them()

    in_simulation(6, OPTIONS, run)
