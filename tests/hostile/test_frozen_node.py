"""One node of three stands still for a while under load on many basins. The two others go on as
before, keep what they have to within their memory, and it has everything again soon after."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from svc_cluster.lab.own_cluster import OwnCluster
from tests.hostile.conftest import Measured
from tests.hostile.figures import p99_ms
from tests.hostile.frozen import WHOLE_S, FrozenScene, Seen
from tests.hostile.processes import above_budget, in_mib
from tests.hostile.scale import FULL_SCALE, SCALE

pytestmark = pytest.mark.timeout(240 + 120 * SCALE)

IS_FULL = SCALE >= FULL_SCALE
BASINS = 100 if IS_FULL else 15
FREEZE_S = 30.0 if IS_FULL else 5.0
FROZEN = 3
READY_S = 90.0


def judge(seen: Seen, cluster: OwnCluster, pids: list[int]) -> None:
    """Everything that may not be, at once."""
    faults = above_budget(seen.peak_bytes)
    if seen.elections:
        faults.append(f"elections: {seen.elections}")
    if seen.whole_s > WHOLE_S:
        faults.append(f"whole {seen.whole_s:.1f} s after it went on")
    if not seen.verdict.clean:
        faults.append(f"the streams hold {seen.verdict}")
    if cluster.pids() != pids:
        faults.append("a process has ended")
    assert not faults, "\n".join(faults)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    made = OwnCluster(tmp_path_factory.mktemp("frozen") / "cluster")
    made.start()
    try:
        asyncio.run(made.wait_ready(READY_S))
        yield made
    finally:
        print(made.log_tail())
        made.end()


@pytest.fixture(scope="module")
def scene(cluster: OwnCluster) -> FrozenScene:
    """Its basins, and what was written to them, for all freezes."""
    made = FrozenScene(cluster, BASINS)
    asyncio.run(made.prepare())
    return made


@pytest.mark.parametrize(
    "leads",
    [True, False] if IS_FULL else [True],
    ids=["with its share of leads", "a follower"][: 1 + IS_FULL],
)
def test_a_frozen_node_harms_nobody(scene: FrozenScene, measured: Measured, leads: bool) -> None:
    """It leads its share of the groups: those elect another, once, and no other group does; or it
    follows in all of them. No append that was acknowledged is lost, and what was not is told."""
    cluster = scene.cluster

    async def main() -> None:
        pids = cluster.pids()
        if not leads:
            await scene.give_away(FROZEN)
        seen = await scene.freeze(FROZEN, FREEZE_S)
        measured(
            **in_mib(seen.peak_bytes),
            p99_ms=p99_ms(seen.waits_s),
            refusals=sum(seen.refusals.values()),
            answers=dict(seen.refusals),
            basins=BASINS,
            frozen_s=FREEZE_S,
            pause_s=seen.pause_s,
            led_by_frozen=seen.led_by_frozen,
            elections=len(seen.elections),
            behind_entries=seen.behind_entries,
            whole_s=round(seen.whole_s, 1),
            acknowledged=seen.verdict.acknowledged,
        )
        judge(seen, cluster, pids)

    asyncio.run(main())
