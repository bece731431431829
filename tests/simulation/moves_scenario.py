"""A group moves from node to node while clients append, and something happens on the way.

A run without trouble counts the steps of one node's disk and store; the other runs have the power
fail behind a chosen one.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field, replace

from svc_cluster.base.ids import NodeId
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.mover import Mover, swapped
from tests.simulation.node import Luck
from tests.simulation.options import Options

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


STEPS_SEED = 3
DOWN_S = 0.4

FAULTS = ("crash_leader", "crash_any", "crash_most", "partition", "isolate_leader", "one_way")


async def one_move(mover: Mover, watch: asyncio.Task[None]) -> None:
    """The group leaves its leader's node for one that has none of it, and clients append."""
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


def play_move(
    seed: int,
    role: str,
    at_effect: int | None = None,
    luck: Luck = Luck(),
    kind: type[Mover] = Mover,
) -> Moves:
    """One move; the power of one node fails behind its step `at_effect`, and is back soon. `role`:
    the node that leaves, that stays, or that is new."""
    moves = Moves()

    async def run(cluster: SimCluster) -> None:
        mover = kind(cluster)
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


def play_wandering(seed: int, kind: type[Mover] = Mover) -> Moves:
    """The group moves again and again, changes are given up in between, nodes crash and links are
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
        mover = kind(cluster)
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
        row = mover.record()
        assert row is not None
        await cluster.guarded(mover.move(*mover.other_places(row)), watch)
        await cluster.guarded(mover.finish(), watch)
        row = mover.record()
        assert row is not None
        moves.configurations = row.configuration
        watch.cancel()

    in_simulation(seed, options, run)
    return moves
