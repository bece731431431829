"""kill -9 of a basin's leader under load. KILL_ROUNDS repeats it more often."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Load, rounds, running, whole
from tests.e2e.load import Verdict, quantile, set_up
from tests.reliability import failure_recorded, record_if_asked

BASIN = "kill-leader-basin"
FIRST_APPEND_S_MAX = 20.0
"""An election takes a second or two; a busy machine may starve all of its voters for as long
again, and again. How long it takes on a free one is told in docs/reliability.md."""


@pytest.mark.timeout(3600)
def test_a_killed_leader_loses_nothing_and_is_replaced(tmp_path: Path) -> None:
    """Under load the leader's process gets SIGKILL again and again: nothing acknowledged is
    missing or doubled, tails never go back, and appends begun after the kill succeed soon."""

    gaps: list[float] = []

    def row(verdict: Verdict | None = None) -> dict[str, Any]:
        fields = {"kind": "leader", "cycles": len(gaps), "lost": verdict.missing if verdict else 0}
        if verdict:
            fields |= {"doubled": verdict.duplicates, "foreign": verdict.foreign}
        return {**fields, "failover_ms": [round(gap * 1000) for gap in gaps]}

    async def main() -> Verdict:
        async with running(tmp_path / "cluster") as cluster:
            load = Load(cluster.url, BASIN, writers=4)
            await set_up(cluster.url, BASIN, [writer.stream for writer in load.writers])
            load.start()
            for _ in range(rounds("KILL_ROUNDS", 3)):
                await whole(cluster, BASIN, 3)
                await load.acknowledged(10)
                leader = await cluster.wait_leader(BASIN)
                killed = time.monotonic()
                cluster.kill_node(leader)
                async with asyncio.timeout(30):
                    while (first := load.first_success_after(killed)) is None:
                        await asyncio.sleep(0.01)
                gaps.append(first - killed)
            await load.acknowledged(5)
            await load.stop()
            verdict = await load.verify()
        print(
            f"\nkills {len(gaps)}  kill to first append: p50 {quantile(gaps, 0.5):.3f} s  "
            f"p99 {quantile(gaps, 0.99):.3f} s  max {max(gaps):.3f} s\n"
            f"acknowledged {verdict.acknowledged}  missing {verdict.missing}  "
            f"duplicates {verdict.duplicates}  ambiguous {load.ambiguous}  {load.errors()}"
        )
        return verdict

    with failure_recorded("kills", row):
        verdict = asyncio.run(main())
    record_if_asked("kills", row(verdict))
    assert verdict.clean, verdict
    assert max(gaps) <= FIRST_APPEND_S_MAX
