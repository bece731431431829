"""A basin that moves from node to node, as an operator asks for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.catalog.own_group import CatalogGroup
from tests.linearizability.history import Outcome
from tests.simulation.checkers.raft import InvariantError

if TYPE_CHECKING:
    from tests.simulation.cluster import SimCluster

BASIN = GroupId(CATALOG_GROUP + 1)
NAME = "basin-000"
LIVENESS_S = 20.0
"""Virtual seconds from the healing to a whole cluster."""

MOVE_S = 30.0
"""Virtual seconds for one change under faults."""


class Mover:
    """A cluster of which the first basin moves."""

    group = BASIN

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.rng = random.Random(f"{cluster.seed}/moves")
        self.stopping = False
        self.acked = 0

    async def until(self, what: str, holds: Callable[[], bool], seconds: float = MOVE_S) -> None:
        deadline = self.cluster.loop.time() + seconds
        while not holds():
            if self.cluster.loop.time() > deadline:
                raise InvariantError(f"liveness: not within {seconds} s: {what}: {self.told()}")
            await asyncio.sleep(0.02)

    def told(self) -> list[str]:
        """What each node has of the group."""
        out = []
        for node in self.cluster.nodes:
            host = None if node.node is None else node.node.host
            replica = None if host is None else host.replica(self.group)
            if replica is not None:
                engine = replica.group.engine
                kind = type(engine).__name__[0]
                out.append(
                    f"{node.node_id}{kind} {engine.configuration} {engine.role.value} "
                    f"{engine.last_index}/{replica.group.applied_index} "
                    f"{'stopped ' + replica.group.fault if replica.group.stopped else ''}"
                )
            if host is not None and host.changes.reasons:
                out.append(str(host.changes.reasons))
        return [*out, str(self.record())]

    def record(self) -> BasinRecord | CatalogGroup | None:
        """The newest row that any node has applied."""
        found = [
            node.node.host.rows.trusted_record(BASIN)
            for node in self.cluster.nodes
            if node.node is not None
        ]
        rows = [one for one in found if one is not None]
        return max(rows, key=lambda one: (one.configuration, one.change is None), default=None)

    def holders(self) -> set[int]:
        """The nodes that run and have something of the basin."""
        return {
            int(node.node_id)
            for node in self.cluster.nodes
            if node.node is not None and BASIN in node.node.host.basins
        }

    def fill(self, request: pb.Request) -> None:
        """Say which group is meant."""
        request.change_members.basin = NAME

    async def ask(self, *nodes: int) -> pb.Response | None:
        """Whatever node is there asks the catalog's leader; no node: give the change up."""

        def fill(request: pb.Request) -> None:
            self.fill(request)
            request.change_members.replicas.extend(nodes)
            request.change_members.reason = "a test"

        for node in self.cluster.nodes:
            if node.node is not None:
                asked = self.cluster.loop.create_task(node.within(node.node.ask_catalog(fill)))
                # in a process that dies it never ends
                done, _ = await asyncio.wait({asked}, timeout=4.0)
                if done and (response := asked.result()) is not None:
                    return response
        return None

    async def move(self, *nodes: int) -> None:
        """Bring the group to these nodes, however often that has to be asked for."""
        deadline = self.cluster.loop.time() + MOVE_S
        while (row := self.record()) is None or row.change or {*row.replicas} != {*nodes}:
            if self.cluster.loop.time() > deadline:
                raise InvariantError(f"liveness: not moved to {nodes}: {self.told()}")
            if row is not None and row.change is None:
                await self.ask(*nodes)
            await asyncio.sleep(0.1)

    async def load(self, number: int) -> None:
        """Small appends, all the time."""
        cluster = self.cluster
        rng = random.Random(f"{cluster.seed}/load {number}")
        history = cluster.recorder.streams[number % len(cluster.recorder.streams)]
        client = cluster.recorder.new_client()
        while not self.stopping:
            items = cluster.recorder.items(rng, client, 2, 60)
            append = await cluster.recorder.append(cluster.apis[0], history, client, items)
            if append.outcome is Outcome.OK:
                self.acked += 1
            else:
                client = cluster.recorder.new_client()
            if rng.random() < 0.2:
                await cluster.recorder.read(cluster.apis[0], history, client, 0, 10)
            await asyncio.sleep(0.03)

    async def run(self) -> None:
        await self.wander()

    async def wander(self) -> None:
        """Ask for one exchange after the other, and now and then for the last to be given up."""
        while not self.stopping:
            row = None if self.cluster.nemesis.is_patient else self.record()
            if row is not None and row.change is None:
                await self.ask(*self.other_places(row))
            elif row is not None and self.rng.random() < 0.15:
                await self.ask()
            await asyncio.sleep(self.rng.uniform(0.1, 1.5))

    def other_places(self, row: BasinRecord | CatalogGroup) -> list[int]:
        """Where the group is to be next."""
        return swapped(self, self.rng.choice(row.replicas))

    def is_changing(self) -> bool:
        """Whether a change is open, as far as anybody who is up knows."""
        row = self.record()
        return row is not None and row.change is not None

    def leave(self) -> int | None:
        """The term whose leader may seal, as everybody knows; None where somebody does not."""
        row = self.record()
        return None if row is None or row.change is None else int(row.change.sealing_term)

    def is_still(self) -> bool:
        row = self.record()
        return row is not None and row.change is None

    async def begin(self) -> asyncio.Task[None]:
        watch = self.cluster.start()
        await self.cluster.guarded(self.cluster.set_up(), watch)
        return watch

    async def finish(self) -> None:
        """Everything is whole, and what was acknowledged is there, in every replica."""
        cluster = self.cluster
        await self.until("whole", lambda: cluster.not_whole() is None, LIVENESS_S)
        row = self.record()
        assert row is not None
        await self.until("others are gone", lambda: self.holders() == {*row.replicas})
        cluster.compare_stores()
        for history in cluster.recorder.streams:
            cluster.judge(history, await cluster.read_all(history))
        cluster.look()


def free_nodes(mover: Mover) -> list[int]:
    """Nodes that have no replica of the basin by its row."""
    row = mover.record()
    assert row is not None
    every = {int(node.node_id) for node in mover.cluster.nodes}
    return sorted(every - {*map(int, row.replicas)})


def swapped(mover: Mover, leaves: NodeId | None = None) -> list[int]:
    """The basin's nodes with one exchanged for one that has none of it."""
    row = mover.record()
    assert row is not None
    gone = row.replicas[0] if leaves is None else leaves
    stay = [int(node) for node in row.replicas if node != gone]
    return [*stay, mover.rng.choice(free_nodes(mover))]
