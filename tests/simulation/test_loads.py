"""What basins bear decides where new ones are placed: bytes and appends, as their leaders know."""

from __future__ import annotations

import asyncio
from typing import Final

from svc_cluster.catalog.placement_loads import Load
from svc_cluster.replica.node_questions import leaders_of_all
from tests.simulation.api import Item
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.options import Options
from tests.simulation.test_replication_factor import made, record, until_held

RECENT_S: Final = 2.0
OPTIONS = Options(
    nodes=5,
    gateways=1,
    http=False,
    basins=1,
    streams=1,
    tick_seconds=0.05,
    constants=(
        ("node_loads.RECENT_SECONDS", RECENT_S),
        ("catalog.placement_loads.LITTLE_BYTES", 1000),
        ("catalog.placement_loads.LITTLE_APPENDS", 1),
    ),
)
APPENDS: Final = 40
RECORD: Final = "x" * 2000
LIGHT: Final = 4


async def survey(cluster: SimCluster) -> dict[int, Load]:
    """What the groups bear, as any node is told it."""
    node = cluster.nodes[0].node
    assert node is not None
    host = node.host
    leads = await leaders_of_all(host.ask_any, host.all_nodes(), with_loads=True)
    plain = await leaders_of_all(host.ask_any, host.all_nodes())
    assert (plain.leaders, plain.loads) == (leads.leaders, {}), "it was not asked for"
    return {int(group): load for group, load in leads.loads.items()}


def test_new_basins_go_to_the_nodes_that_bear_least() -> None:
    """Three nodes have the one basin that is used. Of those with a single replica that are made
    behind it the two others get two each, although that is more of them."""

    async def play(cluster: SimCluster) -> None:
        await cluster.set_up()
        for _ in range(APPENDS):
            await cluster.insist(lambda api: api.append("basin-000", "stream-0", [Item(RECORD)]))
        await asyncio.sleep(RECENT_S)
        used = record(cluster, "basin-000")
        assert used is not None
        (load,) = [load for group, load in (await survey(cluster)).items() if group != 1]
        assert load.stored_bytes >= APPENDS * len(RECORD)
        light: list[int] = []
        for number in range(LIGHT):
            await made(cluster, f"light-{number}", 1)
            await until_held(cluster, f"light-{number}", 1)
            row = record(cluster, f"light-{number}")
            assert row is not None
            light += row.replicas
        others = {1, 2, 3, 4, 5} - {*used.replicas}
        assert sorted(light) == sorted([*others, *others])

    async def run(cluster: SimCluster) -> None:
        watch = cluster.start()
        await cluster.guarded(play(cluster), watch)
        watch.cancel()

    in_simulation(4, OPTIONS, run)


def test_appends_of_late_are_told_by_who_leads_the_basin() -> None:
    """Some four a second, of two records each."""

    async def play(cluster: SimCluster) -> None:
        await cluster.set_up()
        for _ in range(120):
            await cluster.insist(
                lambda api: api.append("basin-000", "stream-0", [Item("a"), Item("b")])
            )
            await asyncio.sleep(0.25)
        seen = await survey(cluster)
        assert seen[1] == Load(), "the catalog bears nothing"
        (load,) = [load for group, load in seen.items() if group != 1]
        assert 2 <= load.appends <= 4, "appends, not records"

    async def run(cluster: SimCluster) -> None:
        watch = cluster.start()
        await cluster.guarded(play(cluster), watch)
        watch.cancel()

    in_simulation(5, OPTIONS, run)
