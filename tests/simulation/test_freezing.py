"""A basin stays frozen through crashes of all that could forget it, and is thawed for good."""

from __future__ import annotations

import random

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId, NodeId
from tests.linearizability.history import Append, Outcome
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.options import Options
from tests.simulation.test_retirement import Trial

OPTIONS = Options(gateways=1, http=False, basins=2, streams=1, tick_seconds=0.05)
WHY = "its disk is copied"


class Frozen(Trial):
    """The first basin is frozen; the second one never is."""

    def group(self) -> GroupId:
        catalog = self.host(self.cluster.nodes[0]).catalog
        assert catalog is not None
        return catalog.state.basins[self.cluster.recorder.streams[0].basin].group_id

    async def say(self, reason: str) -> None:
        """Freeze or thaw it at whoever leads it, again until it is done."""
        deadline = self.cluster.loop.time() + LIVENESS_S
        while not await self.said(reason):
            assert self.cluster.loop.time() < deadline, "nobody takes it"

    async def said(self, reason: str) -> bool:
        def fill(request: pb.Request) -> None:
            request.freeze_basin.reason = reason

        living = [node for node in self.cluster.nodes if node.node is not None]
        group = self.group()
        for asked in living:
            answer = await self.host(asked).ask_any(NodeId(asked.node_id), fill, group)
            if answer is not None and answer.WhichOneof("result") == "done":
                return True
        return False

    async def append(self, number: int) -> Append:
        cluster = self.cluster
        recorder = cluster.recorder
        client = recorder.new_client()
        items = recorder.items(random.Random(number), client, 1, 50)
        return await recorder.append(cluster.apis[0], recorder.streams[number], client, items)

    async def is_refused(self) -> None:
        """Definitely, once somebody leads the basin again; the other basin takes appends."""
        for number, wanted in ((0, Outcome.FAILED), (1, Outcome.OK)):
            append = await self.append(number)
            assert append.outcome is wanted, append

    async def led_again(self) -> None:
        def leads() -> bool:
            living = [node for node in self.cluster.nodes if node.node is not None]
            return sum(len(self.led_by(node)) for node in living) == self.cluster.options.basins

        await self.until("both basins are led", leads, 30.0)

    async def play(self) -> None:
        await self.started()
        cluster = self.cluster
        await self.write_everywhere()
        await self.say(WHY)
        await self.is_refused()
        leading = next(node for node in cluster.nodes if self.group() in self.led_by(node))
        cluster.nemesis.crash(leading, random.Random(1), 5.0)
        await self.led_again()
        await self.is_refused()
        for node in cluster.nodes:
            if node.node is not None:
                cluster.nemesis.crash(node, random.Random(2), 2.0)
        await self.until("all are back", lambda: all(n.node for n in cluster.nodes), 30.0)
        await self.led_again()
        await self.is_refused()
        await self.say("")
        leading = next(node for node in cluster.nodes if self.group() in self.led_by(node))
        cluster.nemesis.crash(leading, random.Random(3), 2.0)
        await self.led_again()
        await self.until("all are back", lambda: all(n.node for n in cluster.nodes), 30.0)
        await self.write_everywhere()
        await self.finish()


def test_a_frozen_basin_is_frozen_through_crashes_until_it_is_thawed() -> None:
    """Of its leader, and of all nodes; right behind the answer that it is."""

    async def run(cluster: SimCluster) -> None:
        await Frozen(cluster).play()

    in_simulation(11, OPTIONS, run)
