"""A node ticks its groups in time whatever else it does to all of them."""

from __future__ import annotations

import asyncio

from svc_cluster.raft.group import Tick
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.knobs import changed
from tests.simulation.options import Options

OPTIONS = Options(gateways=1, http=False, basins=2, streams=1)
WALKS = 8
VISITS = 500


async def _ticks_beside_walks(cluster: SimCluster) -> int:
    """The most visits that each of the other walks had until a basin was ticked."""
    watch = cluster.start()
    await cluster.guarded(cluster.set_up(), watch)
    node = cluster.nodes[0].node
    assert node is not None
    host = node.host
    visits = [0] * WALKS
    ticks: list[int] = []
    step = host.basins[min(host.basins)].group.step

    def watched(event: object) -> None:
        if isinstance(event, Tick):
            ticks.append(max(visits))
        step(event)  # type: ignore[arg-type]

    host.basins[min(host.basins)].group.step = watched  # type: ignore[method-assign]

    def walk(number: int) -> None:
        visits[number] += 1

    async def until_ticked() -> None:
        for number in range(WALKS):
            host.walks.start([number] * VISITS, walk)
        # the walks take no time on the simulation's clock: a tick is begun beside them by hand
        assert host._tick_handle is not None
        host._tick_handle.cancel()
        host._tick()
        while not ticks:
            await asyncio.sleep(0)

    await cluster.guarded(until_ticked(), watch)
    watch.cancel()
    return ticks[0]


def test_a_tick_does_not_wait_for_the_other_walks_of_a_node() -> None:
    """Three groups, two visits in a turn: every group is ticked before any of eight other walks is
    visited twice."""
    with changed((("group_walks.GROUPS_PER_TURN", 2),)):
        assert in_simulation(1, OPTIONS, _ticks_beside_walks) <= 1
