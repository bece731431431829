"""Who votes in the catalog changes while clients append, nodes crash and links are cut."""

from __future__ import annotations

import asyncio
import os

import pytest

from svc_cluster._pb.cluster.v1 import admin_pb2
from svc_cluster.administration import cluster_calls
from tests.simulation.catalog_mover import CatalogMover
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.moves_scenario import (
    OPTIONS,
    STEPS_SEED,
    play_move,
    play_wandering,
)
from tests.simulation.node import Luck

STEPS_EVERY = int(os.environ.get("MOVE_STEPS_EVERY", "30"))
SEEDS = range(1, 1 + int(os.environ.get("MOVE_SEEDS", "2")))


def test_the_catalog_moves_grows_and_shrinks_under_load() -> None:
    """From three votes to three others, one at a time, to five, to one, and to three again. Whoever
    has no vote follows all the same, and every node tells who votes."""

    async def run(cluster: SimCluster) -> None:
        mover = CatalogMover(cluster)
        watch = await mover.begin()
        writers = [cluster.loop.create_task(mover.load(n)) for n in range(2)]

        async def moves() -> None:
            for to in ((2, 3, 4), (3, 4, 5), (3, 4, 5, 1, 2), (1, 3, 5), (1,), (1, 2, 4)):
                await mover.move(*to)
                await mover.vote(*to)

        await cluster.guarded(moves(), watch, *writers)
        mover.stopping = True
        for writer in writers:
            await cluster.guarded(asyncio.wait_for(writer, 20.0), watch)
        await cluster.guarded(mover.finish(), watch)
        assert mover.acked > 20
        for node in cluster.nodes:
            assert node.node is not None
            request = admin_pb2.BasinRequest(catalog=True)
            told = await node.within(cluster_calls.group(node.node, request))
            assert [row.node_id for row in told.replicas] == [1, 2, 4]
            assert {row.role for row in told.replicas} == {"leader", "follower"}
            assert (told.configuration, told.diverged) == (7, False)
        watch.cancel()

    in_simulation(1, OPTIONS, run)


@pytest.mark.parametrize("role", ["new", "leaves", "stays"])
def test_a_node_that_crashes_at_any_step_of_a_move_of_the_catalog_delays_it_only(role: str) -> None:
    """Power fails right behind an effect on its disk or store: the move goes through, and nothing
    that was acknowledged is lost."""
    steps = play_move(STEPS_SEED, role, kind=CatalogMover)
    assert steps.configurations == 2
    assert {"log submit", "log durable", "store write"} <= {*steps.effects}
    for number in range(0, len(steps.effects), STEPS_EVERY):
        luck = Luck(number % 2 == 0, 0.0 if number % 2 else 1.0)
        played = play_move(STEPS_SEED, role, number, luck, kind=CatalogMover)
        assert played.hit, f"step {number} was not reached"
        assert played.configurations >= 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_catalog_that_moves_under_faults_loses_nothing(seed: int) -> None:
    """Moves that are begun and given up again and again; then one goes through."""
    assert play_wandering(seed, CatalogMover).configurations >= 3
