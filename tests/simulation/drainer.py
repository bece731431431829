"""An operator who drains a node, and lets it go on, again and again."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import NodeId
from svc_cluster.replica.drain_operations import DRAIN, UNDRAIN
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.mover import LIVENESS_S

if TYPE_CHECKING:
    from tests.simulation.cluster import SimCluster

ANSWER_S = 4.0


class Drainer:
    """The one of a cluster. Once it is told to stop, it leaves no node drained."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._rng = random.Random(f"{cluster.seed}/drains")
        self._drained: set[NodeId] = set()
        """Nodes of which it is not known that they are not."""
        self.stopping = False

    async def run(self) -> None:
        rng, nodes = self._rng, self._cluster.nodes
        while not self.stopping:
            await self._rest(rng.uniform(0.5, 6.0))
            if self.stopping or self._cluster.nemesis.is_patient:
                continue
            node = rng.choice(nodes).node_id
            self._drained.add(node)
            await self._ask(node, DRAIN)
            await self._rest(rng.uniform(0.5, 8.0))
            if await self._ask(node, UNDRAIN):
                self._drained.discard(node)
        deadline = self._cluster.loop.time() + LIVENESS_S
        while self._drained:
            if self._cluster.loop.time() > deadline:
                raise InvariantError(f"liveness: nodes {self._drained} cannot be let go on")
            node = min(self._drained)
            if await self._ask(node, UNDRAIN):
                self._drained.discard(node)
            await asyncio.sleep(0.2)

    async def _rest(self, seconds: float) -> None:
        end = self._cluster.loop.time() + seconds
        while not self.stopping and self._cluster.loop.time() < end:
            await asyncio.sleep(0.25)

    async def _ask(self, node_id: NodeId, verb: int) -> bool:
        """Any node that is there asks the catalog's leader. Whether it has said that it is done."""

        def fill(request: pb.Request) -> None:
            request.drain_node.node_id = node_id
            request.drain_node.verb = verb
            request.drain_node.forced = True

        for node in self._cluster.nodes:
            if node.node is None:
                continue
            asked = self._cluster.loop.create_task(node.within(node.node.ask_catalog(fill)))
            # in a process that dies it never ends
            done, _ = await asyncio.wait({asked}, timeout=ANSWER_S)
            if done and (answer := asked.result()) is not None:
                return bool(answer.WhichOneof("result") == "node_drain")
        return False
