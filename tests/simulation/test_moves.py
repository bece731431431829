"""Basins move from node to node while clients append to them, nodes crash and links are cut."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.moves_scenario import (
    OPTIONS,
    STEPS_SEED,
    Mover,
    free_nodes,
    play_move,
    play_wandering,
)
from tests.simulation.node import Luck

STEPS_EVERY = int(os.environ.get("MOVE_STEPS_EVERY", "30"))
SEEDS = range(1, 1 + int(os.environ.get("MOVE_SEEDS", "2")))


def test_a_basin_moves_away_and_back_under_load() -> None:
    """One replica at a time, until two are elsewhere; then all the way back. Nothing is lost, and
    who is no member any more keeps nothing."""

    async def run(cluster: SimCluster) -> None:
        mover = Mover(cluster)
        watch = await mover.begin()
        row = mover.record()
        assert row is not None
        first = [*map(int, row.replicas)]
        writers = [cluster.loop.create_task(mover.load(n)) for n in range(2)]
        free = free_nodes(mover)

        async def moves() -> None:
            await mover.move(first[0], first[1], free[0])
            await mover.move(first[0], free[1], free[0])
            await mover.move(first[0], free[1], first[2])
            await mover.move(*first)

        await cluster.guarded(moves(), watch, *writers)
        mover.stopping = True
        for writer in writers:
            await cluster.guarded(asyncio.wait_for(writer, 20.0), watch)
        await cluster.guarded(mover.finish(), watch)
        row = mover.record()
        assert row is not None
        assert (row.configuration, row.replicas) == (4, tuple(first))
        assert mover.acked > 20
        watch.cancel()

    in_simulation(1, OPTIONS, run)


@pytest.mark.parametrize("role", ["new", "leaves", "stays"])
def test_a_node_that_crashes_at_any_step_of_a_move_delays_it_only(role: str) -> None:
    """Power fails right behind an effect on its disk or store: the move goes through, every record
    that was acknowledged is there, and only the members have a copy."""
    steps = play_move(STEPS_SEED, role)
    assert steps.configurations == 1
    assert {"log submit", "log durable", "store write"} <= {*steps.effects}
    for number in range(0, len(steps.effects), STEPS_EVERY):
        luck = Luck(number % 2 == 0, 0.0 if number % 2 else 1.0)
        played = play_move(STEPS_SEED, role, number, luck)
        assert played.hit, f"step {number} was not reached"
        assert played.configurations >= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_basins_that_move_under_faults_lose_nothing(seed: int) -> None:
    """Moves that are begun and given up again and again; then one goes through."""
    assert play_wandering(seed).configurations >= 2


def test_a_copy_stays_until_the_one_that_takes_its_place_is_there() -> None:
    """The node that is to have the replica is down: the change waits, and three copies are left."""

    async def run(cluster: SimCluster) -> None:
        mover = Mover(cluster)
        watch = await mover.begin()
        row = mover.record()
        assert row is not None
        first = [*map(int, row.replicas)]
        away = free_nodes(mover)[0]
        victim = next(node for node in cluster.nodes if node.node_id == away)
        cluster.nemesis.crash(victim, random.Random(1), 60.0)
        await asyncio.sleep(1.0)
        await mover.ask(first[0], first[1], away)
        waited = 0
        while victim.node is None:
            await asyncio.sleep(0.1)
            waited += victim.node is None
            assert first[2] in mover.holders(), mover.told()
        assert waited > 200, "it was away for longer than anybody is waited for"
        watch.cancel()

    in_simulation(1, OPTIONS, run)
