"""A node ticks its groups in time whatever else it does to all of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.raft.group import Event, Message, Tick
from svc_cluster.raft.messages import AppendRequest
from svc_cluster.raft.raft_settings import RaftSettings
from svc_cluster.replica.tick_pace import CALM_TICK_SECONDS
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.knobs import changed
from tests.simulation.options import Options

OPTIONS = Options(gateways=1, http=False, basins=2, streams=1)
WALKS = 8
VISITS = 500
CALM_S = 20.0


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
        assert host.ticks._handle is not None
        host.ticks._handle.cancel()
        host.basins[min(host.basins)].group.rest.used()  # one that is calm is not ticked each time
        host.ticks.tick()
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


def test_calm_groups_have_few_ticks_and_as_many_heartbeats() -> None:
    """Basins that are awake and that nobody asks for anything: a fifth of the ticks of their node,
    and one ahead of each heartbeat.
    Each of their followers hears of its leader as often as it would with all of them, and at the
    time it is."""
    ticks: Counter[tuple[NodeId, GroupId]] = Counter()
    heartbeats: Counter[tuple[NodeId, GroupId]] = Counter()
    ticked_at: dict[tuple[NodeId, GroupId], float] = {}
    stale: list[float] = []

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        await asyncio.sleep(2.0)
        for node in cluster.nodes:
            assert node.node is not None
            for group_id, basin in node.node.host.basins.items():
                step = basin.group.step

                def watched(
                    event: Event, step: Any = step, key: Any = (node.node_id, group_id)
                ) -> None:
                    now = cluster.loop.time()
                    if isinstance(event, Tick):
                        ticks[key] += 1
                        ticked_at[key] = now
                    elif isinstance(event, Message) and key in ticked_at:
                        stale.append(now - ticked_at[key])
                    if isinstance(event, Message) and isinstance(event.body, AppendRequest):
                        heartbeats[key] += 1
                    step(event)

                basin.group.step = watched  # type: ignore[method-assign]
        await cluster.guarded(asyncio.sleep(CALM_S), watch)
        watch.cancel()

    in_simulation(2, OPTIONS, main)
    assert len(ticks) == 3 * OPTIONS.basins
    assert max(ticks.values()) <= 2 * CALM_S / CALM_TICK_SECONDS < CALM_S / OPTIONS.tick_seconds / 2
    assert len(heartbeats) == 2 * OPTIONS.basins, "of each basin the followers"
    assert min(heartbeats.values()) >= CALM_S / (
        RaftSettings().heartbeat + 1.5 * OPTIONS.tick_seconds
    )
    assert max(stale) <= OPTIONS.tick_seconds + 1e-6
