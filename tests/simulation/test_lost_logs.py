"""A node whose log is gone recovers every replica that it had, also where its start is cut short at
any step: none of them ever counts as one that has promised nothing."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.formation_scenario import BASIN, OPTIONS, has_basin, make_basin, part, wipe

STRIDE = int(os.environ.get("FORMATION_STRIDE", "9"))
STEPS_MAX = 400


@pytest.mark.parametrize("offset", range(3))
def test_a_start_without_a_log_may_be_cut_short_at_any_step(offset: int) -> None:
    """The power fails while the node is made whole, and it comes back alone: what it has by then is
    from a snapshot, or counts for nothing."""
    step, cuts = offset, 0
    while step < STEPS_MAX and _cut_short(step):
        step += max(1, STRIDE // 3)
        cuts += 1
    assert cuts > 3, "the start has more steps than that"


def _cut_short(step: int) -> bool:
    """Returns whether there was such a step."""
    return in_simulation(step, OPTIONS, lambda cluster: _lose_the_log(cluster, step))


async def _lose_the_log(cluster: SimCluster, step: int) -> bool:
    rng = random.Random(f"{step}/lost log")
    watch = cluster.start()
    assert await cluster.guarded(make_basin(cluster, BASIN), watch)
    victim = cluster.nodes[2]
    while not has_basin(victim, BASIN):
        await cluster.guarded(asyncio.sleep(0.05), watch)
    wipe(cluster, victim, rng, keeps=("identity", "formation"))
    reached = asyncio.Event()
    steps = 0

    def effect(_told: str) -> None:
        nonlocal steps
        steps += 1
        if steps > step:
            reached.set()

    victim.on_effect(effect)
    victim.start()
    try:
        async with asyncio.timeout(3.0):
            await cluster.guarded(reached.wait(), watch)
    except TimeoutError:
        watch.cancel()
        return False
    victim.crash(rng)
    cluster.checker.forget_disk(victim.node_id)
    victim.start()
    part(cluster, victim)
    await cluster.guarded(asyncio.sleep(0.5), watch)
    assert victim.node is not None
    for replica in victim.node.host.replicas():
        engine = replica.group.engine
        assert engine.recovery or engine.base_index, f"group {replica.group.group_id} counts"
    watch.cancel()
    return True
