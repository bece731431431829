"""A basin moves from node to node while clients append, and something happens on the way.

A run without trouble counts the steps of one node's disk and store; the other runs have the power
fail behind a chosen one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.catalog.basin_record import BasinRecord
from tests.linearizability.history import Outcome
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.node import Luck
from tests.simulation.options import Options

BASIN = GroupId(CATALOG_GROUP + 1)
NAME = "basin-000"
MOVE_S = 30.0
"""Virtual seconds for one change under faults."""

OPTIONS = Options(
    nodes=5,
    gateways=1,
    http=False,
    basins=1,
    streams=2,
    tick_seconds=0.05,
    flush_seconds=0.5,
    log_retention_seconds=60.0,
)


@dataclass(slots=True)
class Moves:
    """What was seen in a run."""

    effects: list[str] = field(default_factory=list)
    """Steps of the watched node that last, while the basin moved."""
    hit: bool = False
    configurations: int = 0


class Mover:
    """A cluster of which the first basin moves."""

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
        """What each node has of the basin."""
        out = []
        for node in self.cluster.nodes:
            host = None if node.node is None else node.node.host
            replica = None if host is None else host.basins.get(BASIN)
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

    def record(self) -> BasinRecord | None:
        """The newest row that any node has applied."""
        found = [
            node.node.host.trusted_record(BASIN)
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

    async def ask(self, *nodes: int) -> pb.Response | None:
        """Whatever node is there asks the catalog's leader; no node: give the change up."""

        def fill(request: pb.Request) -> None:
            request.change_members.basin = NAME
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
        """Bring the basin to these nodes, however often that has to be asked for."""
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

    async def wander(self) -> None:
        """Ask for one exchange after the other, and now and then for the last to be given up."""
        while not self.stopping:
            row = self.record()
            if row is not None and row.change is None:
                await self.ask(*swapped(self, self.rng.choice(row.replicas)))
            elif self.rng.random() < 0.15:
                await self.ask()
            await asyncio.sleep(self.rng.uniform(0.1, 1.5))

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


STEPS_SEED = 3
DOWN_S = 0.4

FAULTS = ("crash_leader", "crash_any", "crash_most", "partition", "isolate_leader", "one_way")


async def one_move(mover: Mover, watch: asyncio.Task[None]) -> None:
    """The basin leaves its leader's node for one that has none of it, and clients append."""
    cluster = mover.cluster
    writers = [cluster.loop.create_task(mover.load(n)) for n in range(2)]
    await cluster.guarded(mover.move(*swapped(mover)), watch, *writers)
    mover.stopping = True
    for writer in writers:
        await cluster.guarded(_ended(writer), watch)
    await cluster.guarded(mover.finish(), watch)
    watch.cancel()


async def _ended(task: asyncio.Task[None]) -> None:
    await task


def play_move(seed: int, role: str, at_effect: int | None = None, luck: Luck = Luck()) -> Moves:
    """One move; the power of one node fails behind its step `at_effect`, and is back soon. `role`:
    the node that leaves, that stays, or that is new."""
    moves = Moves()

    async def run(cluster: SimCluster) -> None:
        mover = Mover(cluster)
        watch = await mover.begin()
        row = mover.record()
        assert row is not None
        which = {"leaves": row.replicas[0], "stays": row.replicas[1]}
        next_state = mover.rng.getstate()
        new = swapped(mover)[-1]
        mover.rng.setstate(next_state)
        number = which.get(role, NodeId(new))
        node = next(one for one in cluster.nodes if one.node_id == number)

        def on_effect(kind: str) -> None:
            moves.effects.append(kind)
            if not moves.hit and at_effect == len(moves.effects) - 1:
                moves.hit = True
                node.on_effect(None)
                cluster.nemesis.crash(node, mover.rng, DOWN_S, luck=luck, look=False)

        node.on_effect(on_effect)
        await one_move(mover, watch)
        row = mover.record()
        assert row is not None
        moves.configurations = row.configuration

    in_simulation(seed, OPTIONS, run)
    return moves


def play_wandering(seed: int) -> Moves:
    """The basin moves again and again, changes are given up in between, nodes crash and links are
    cut; then all is healed, and one more move goes through."""
    moves = Moves()
    rng = random.Random(f"{seed}/wandering")
    options = replace(
        OPTIONS,
        nodes=rng.choice((4, 5)),
        faults=tuple(one for one in FAULTS if rng.random() < 0.6) or ("crash_any",),
        fault_pause_s=rng.choice((1.0, 2.0, 4.0)),
        safety_s=40.0,
        flush_seconds=rng.choice((0.5, 2.0)),
        log_retention_seconds=rng.choice((0.3, 2.0, 60.0)),
        datagrams=rng.random() < 0.3,
    )

    async def run(cluster: SimCluster) -> None:
        mover = Mover(cluster)
        watch = await mover.begin()
        tasks = [cluster.loop.create_task(mover.load(n)) for n in range(3)]
        tasks.append(cluster.loop.create_task(mover.wander()))
        await cluster.guarded(cluster.nemesis.torment(), watch, *tasks)
        cluster.nemesis.heal()
        mover.stopping = True
        await cluster.guarded(cluster.nemesis.mended(), watch)
        for task in tasks:
            await cluster.guarded(_ended(task), watch)
        await cluster.guarded(mover.until("no change is open", mover.is_still), watch)
        await cluster.guarded(mover.move(*swapped(mover)), watch)
        await cluster.guarded(mover.finish(), watch)
        row = mover.record()
        assert row is not None
        moves.configurations = row.configuration
        watch.cancel()

    in_simulation(seed, options, run)
    return moves
