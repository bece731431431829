"""The catalog's leader asks what nodes bear when a basin is made; no creation waits for long."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.catalog.placement_loads import Load
from svc_cluster.replica.node_loads import RECENT_SECONDS, WAIT_SECONDS, NodeLoads
from tests.simulation.loop import run

NODES = (NodeId(1), NodeId(2), NodeId(3))


class World:
    """Three nodes with one basin, of which the first leads it and answers after `delay` seconds."""

    def __init__(self, loop: Any, delay: float) -> None:
        self.asked = 0
        self.delay = delay
        services = SimpleNamespace(clock=SimpleNamespace(monotonic=loop.time))
        host: Any = SimpleNamespace(services=services, all_nodes=lambda: NODES, ask_any=self._ask)
        rows = {GroupId(2): SimpleNamespace(replicas=NODES[:2])}
        self.catalog: Any = SimpleNamespace(
            group=SimpleNamespace(is_serving=True), state=SimpleNamespace(basins_by_group=rows)
        )
        self.loads = NodeLoads(host)

    async def _ask(self, node: NodeId, fill: Any, **_: Any) -> pb.Response:
        self.asked += node == 1
        await asyncio.sleep(self.delay)
        led = pb.LedGroups(groups=[2], stored_bytes=[10], appends=[3])
        return pb.Response(led_groups=led if node == 1 else pb.LedGroups())


def test_an_answer_is_of_use_for_a_while_and_then_asked_for_anew() -> None:
    async def main(loop: Any) -> None:
        world = World(loop, 0.01)
        known = {1: Load(10, 3), 2: Load(10, 3)}
        assert await world.loads.recent(world.catalog) == known
        await asyncio.sleep(RECENT_SECONDS - 1.0)
        assert await world.loads.recent(world.catalog) == known
        assert world.asked == 1
        await asyncio.sleep(1.0)
        assert await world.loads.recent(world.catalog) == known
        assert world.asked == 2

    run(main)


def test_a_creation_waits_for_a_moment_and_the_answer_is_for_the_next() -> None:
    """However many there are meanwhile, it is asked for once."""

    async def main(loop: Any) -> None:
        world = World(loop, 3 * WAIT_SECONDS)
        begun = loop.time()
        found = await asyncio.gather(*(world.loads.recent(world.catalog) for _ in range(5)))
        assert loop.time() - begun <= WAIT_SECONDS + 0.01
        assert found == [{}] * 5
        await asyncio.sleep(3 * WAIT_SECONDS)
        assert await world.loads.recent(world.catalog) == {1: Load(10, 3), 2: Load(10, 3)}
        assert world.asked == 1

    run(main)


def test_who_does_not_lead_the_catalog_asks_nobody() -> None:
    async def main(loop: Any) -> None:
        world = World(loop, 0.01)
        world.catalog.group.is_serving = False
        assert await world.loads.recent(world.catalog) == {}
        assert world.asked == 0

    run(main)
