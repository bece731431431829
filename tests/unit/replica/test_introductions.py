"""Whom a node asks for others that its catalog does not know, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import NodeId
from svc_cluster.replica.introductions import AGAIN_SECONDS, NODES_MAX, Introductions
from tests.simulation.loop import run


class World:
    """Two nodes that can be asked, of which the second tells of others."""

    def __init__(self, loop: Any, rows: int = 1) -> None:
        self.loop = loop
        self.has_catalog = False
        self.asked: list[tuple[float, int]] = []
        self.met: list[Mapping[NodeId, str]] = []
        self._rows = rows
        self.introductions = Introductions(
            has_catalog=lambda: self.has_catalog,
            others=lambda: {NodeId(3): None, NodeId(1): None},
            ask=self._ask,
            meet=self.met.append,
        )

    async def _ask(self, node: NodeId, fill: Any) -> pb.Response | None:
        request = pb.Request()
        fill(request)
        assert request.WhichOneof("operation") == "list_nodes"
        self.asked.append((self.loop.time(), int(node)))
        if node == 1:
            return None
        response = pb.Response()
        for number in range(self._rows):
            response.nodes.nodes.add(node_id=4 + number, address="by its settings")
        response.nodes.nodes[0].link_address = "where it is"
        return response


def test_without_a_catalog_all_are_asked_until_there_is_one() -> None:
    """A second lies between two rounds, and what is told is taken up to its bound."""

    async def main(loop: Any) -> None:
        world = World(loop, rows=NODES_MAX + 5)
        begun = loop.time()
        task = loop.create_task(world.introductions.run())
        await asyncio.sleep(2.5 * AGAIN_SECONDS)
        rounds = [begun, begun, *(begun + AGAIN_SECONDS,) * 2, *(begun + 2 * AGAIN_SECONDS,) * 2]
        assert [at for at, _ in world.asked] == rounds
        assert [node for _, node in world.asked] == [1, 3] * 3
        assert len(world.met) == 3 and len(world.met[0]) == NODES_MAX
        assert world.met[0][NodeId(4)] == "where it is"
        assert world.met[0][NodeId(5)] == "by its settings"
        world.has_catalog = True
        await asyncio.sleep(10 * AGAIN_SECONDS)
        assert len(world.asked) == 6
        task.cancel()

    run(main)


def test_a_stranger_has_the_others_asked_once_a_second_at_most() -> None:
    """However often it greets; nobody is asked while none does."""

    async def main(loop: Any) -> None:
        world = World(loop)
        world.has_catalog = True
        task = loop.create_task(world.introductions.run())
        await asyncio.sleep(5.0)
        assert world.asked == []
        for _ in range(100):
            world.introductions.stranger()
            await asyncio.sleep(0.02)
        await asyncio.sleep(5.0)
        assert 2 <= len(world.asked) // 2 <= 2 / AGAIN_SECONDS + 1
        assert world.met[0] == {NodeId(4): "where it is"}
        task.cancel()

    run(main)
