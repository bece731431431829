"""Leads that are on one node, as a rolling restart leaves them, come to be even by themselves."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.catalog.lead_plan import spread
from svc_cluster.replica.lead_balance import AT_ONCE_MAX
from tests.simulation.adapters import peer_address, raft_pairs
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.options import Options
from tests.simulation.test_retirement import Trial

BASINS = 9
OPTIONS = Options(gateways=1, http=False, basins=BASINS, streams=1, tick_seconds=0.05)
UNASKED = replace(OPTIONS, balance_seconds=10.0)
THREE = replace(OPTIONS, constants=(("lead_balance.AT_ONCE_MAX", 3),))
WITHIN_S = 60.0
"""From when leads are uneven until they are even, unasked."""


class Balancing(Trial):
    """Everything is led by one node, and the leads are evened out."""

    def leads(self) -> Counter[int]:
        """Groups that each node leads, the catalog's among them."""
        found: Counter[int] = Counter()
        for node in self.cluster.nodes:
            if node.node is not None:
                led = self.led_by(node)
                catalog = self.host(node).catalog
                assert catalog is not None
                found[node.node_id] = len(led) + catalog.group.is_serving
        return found

    def at_catalog(self) -> SimNode:
        """The node that leads the catalog."""
        for node in self.cluster.nodes:
            catalog = None if node.node is None else node.node.host.catalog
            if catalog is not None and catalog.group.is_serving:
                return node
        raise AssertionError("somebody leads it")

    async def ask(self, *, dry_run: bool = False) -> pb.LeadBalance:
        asked = self.at_catalog()
        assert asked.node is not None
        return await asked.node.service.balance.round(dry_run=dry_run)

    async def unasked(self) -> None:
        """Under load, without an error; and then nothing moves any more."""
        await self.started()
        cluster = self.cluster
        writers = [cluster.loop.create_task(self.write(number)) for number in range(BASINS)]
        assert spread(self.leads().values()) >= BASINS, "one node leads all"
        await self.until("leads are even", lambda: spread(self.leads().values()) <= 1, WITHIN_S)
        before = self.leads()
        await asyncio.sleep(25.0)
        assert self.leads() == before, "what is even is left alone"
        self.stopping = True
        await asyncio.gather(*writers)
        assert not self.failures, "no client noticed"
        await self.finish()

    async def so_many_at_a_time(self) -> None:
        """Asked for by an operator; told first, with nothing moved."""
        leading = await self.started()
        most: list[int] = []

        async def look() -> None:
            while True:
                replicas = self.host(leading).replicas()
                most.append(sum(replica.proposer.paused for replica in replicas))
                await asyncio.sleep(0.001)

        before = self.leads()
        told = await self.ask(dry_run=True)
        assert len(told.moves) >= BASINS // 2
        assert (told.moved, self.leads()) == (0, before)
        assert {row.node_id: row.led for row in told.counts} == dict(before)
        looking = self.cluster.loop.create_task(look())
        rounds = 0
        while (told := await self.ask()).moves:
            rounds += 1
            assert rounds < 10
        looking.cancel()
        assert 1 < max(most) <= 3, "several at a time, and no more"
        await self.until("leads are even", lambda: spread(self.leads().values()) <= 1, 2.0)
        assert not any(replica.proposer.paused for replica in self.host(leading).replicas())
        await self.write_everywhere()
        await self.finish()

    async def to_nobody_who_goes(self) -> None:
        """A node that drains takes none, one that is away neither; the rest is even."""
        await self.started()
        draining = self.cluster.nodes[1]
        assert draining.node is not None
        await draining.node.retire()
        while (told := await self.ask()).moves or told.without_leader:
            await asyncio.sleep(0.05)
        led = self.leads()
        assert led[draining.node_id] == 0
        assert abs(led[1] - led[3]) <= 1
        await self.finish()

    async def one_lead(self) -> None:
        """By its basin's leader alone, to a member alone that is there; who leads it stays
        otherwise, and goes on."""
        leading = await self.started()
        others = [node for node in self.cluster.nodes if node is not leading]
        group = next(iter(sorted(self.led_by(leading))))
        gone = others[1]
        assert await self.give(others[0], group, 0) == "unavailable", "it does not lead it"
        assert await self.give(leading, group, 9) == "invalid"
        host = self.host(leading)
        self.deafen(gone)
        assert await self.give(leading, group, gone.node_id) == "unavailable"
        await self.write_everywhere()
        self.cluster.network.heal_all()
        self.cluster.nemesis.crash(gone, random.Random(1), 20.0)
        await self.until("it is missed", lambda: not host.is_peer_up(gone.node_id), 15.0)
        assert await self.give(leading, group, gone.node_id) == "unavailable"
        assert group in self.led_by(leading)
        await self.write_everywhere()
        assert await self.give(leading, group, others[0].node_id) == ""
        await self.until("it leads", lambda: group in self.led_by(others[0]), LIVENESS_S)
        await self.write_everywhere()
        await self.until("the other one is back", lambda: gone.node is not None, 30.0)
        await self.finish()

    def deafen(self, deaf: SimNode) -> None:
        """It is connected, and hears nothing of its groups."""
        for node in self.cluster.nodes:
            if node is not deaf:
                for a, b in raft_pairs(node.node_id, deaf.node_id):
                    if a == peer_address(node.node_id):
                        self.cluster.network.clog(a, b, 3.0)

    async def give(self, asked: SimNode, group_id: GroupId, to: int) -> str:
        """What was refused; empty: it was done."""

        def fill(request: pb.Request) -> None:
            request.give_lead.to = to

        assert asked.node is not None
        answer = await asked.node.host.ask_any(NodeId(asked.node_id), fill, group_id)
        assert answer is not None
        return answer.refusal.code if answer.WhichOneof("result") == "refusal" else ""


@pytest.mark.parametrize(
    ("options", "play"),
    [
        (UNASKED, Balancing.unasked),
        (THREE, Balancing.so_many_at_a_time),
        (OPTIONS, Balancing.to_nobody_who_goes),
        (OPTIONS, Balancing.one_lead),
    ],
    ids=["unasked", "so-many-at-a-time", "nobody-who-goes", "one-lead"],
)
def test_leads_are_evened_out(
    options: Options, play: Callable[[Balancing], Coroutine[Any, Any, None]]
) -> None:
    assert AT_ONCE_MAX == 8

    async def run(cluster: SimCluster) -> None:
        await play(Balancing(cluster))

    in_simulation(7, options, run)
