"""A story that is played on a simulated cluster and watched to its end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.options import Options


def play(
    seed: int, options: Options, story: Callable[[SimCluster], Coroutine[Any, Any, None]]
) -> None:
    """Start a cluster, make its basins and streams, and let `story` go on from there. Whatever the
    checkers find meanwhile fails it. Raises SimulationFailedError."""

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        await cluster.guarded(story(cluster), watch)
        watch.cancel()

    in_simulation(seed, options, main)
