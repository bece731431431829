"""The catalog's own group changes its members, as an operator asks for it."""

from __future__ import annotations

import asyncio

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import CATALOG_GROUP
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.catalog.own_group import CatalogGroup
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.learner_group import LearnerGroup
from tests.simulation.mover import Mover


class CatalogMover(Mover):
    """A cluster of which the catalog moves; basins stay where they are."""

    group = CATALOG_GROUP

    def fill(self, request: pb.Request) -> None:
        request.change_members.catalog = True

    async def begin(self) -> asyncio.Task[None]:
        """Three nodes vote; all do where a cluster begins."""
        watch = await super().begin()
        await self.cluster.guarded(self.move(1, 2, 3), watch)
        return watch

    async def vote(self, *nodes: int) -> None:
        """Return when these vote and nobody else does."""
        await self.until(f"{nodes} vote", lambda: self.holders() == {*nodes})

    def other_places(self, row: BasinRecord | CatalogGroup) -> list[int]:
        """Another three, or all, or three of them; most of the next ones vote already."""
        nodes, rng = [int(node.node_id) for node in self.cluster.nodes], self.rng
        now = [int(node) for node in row.replicas]
        if len(now) > 3 or (len(nodes) >= 5 and rng.random() < 0.2):
            return rng.sample(now, 3) if len(now) > 3 else rng.sample(nodes, 5)
        return super().other_places(row)

    def record(self) -> CatalogGroup | None:
        """The newest row that any node has applied."""
        found = [
            (catalog.state.applied_index, catalog.own_group)
            for node in self.cluster.nodes
            if node.node is not None and (catalog := node.node.host.catalog) is not None
        ]
        return max(found, key=lambda one: one[0])[1] if found else None

    def holders(self) -> set[int]:
        """The nodes that run and vote. All others that run have a copy that learns."""
        found = set()
        for node in self.cluster.nodes:
            catalog = None if node.node is None else node.node.host.catalog
            if catalog is None:
                continue
            engine = catalog.group.engine
            assert isinstance(engine, EngineGroup | LearnerGroup), "there are no others"
            if isinstance(engine, EngineGroup):
                found.add(int(node.node_id))
        return found
