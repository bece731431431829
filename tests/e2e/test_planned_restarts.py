"""The leader's node is told to end, under load, and started again. RESTART_ROUNDS repeats it."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from pathlib import Path

import pytest

from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.cluster import Load, rounds, running, whole
from tests.e2e.load import StreamWriter, quantile, set_up
from tests.reliability import record_if_asked

BASIN = "restart-basin"
PAUSE_S = 0.005
PATIENCE_S = 10.0
"""A client that repeats what was refused, or may have been lost, gives up after so long."""
WHOLE_S = 60.0
GATEWAY_EVERY = 10
"""Restarts of the gateway: behind each so many of nodes, and the first."""


def longest_gap(writers: list[StreamWriter], begin: float, end: float) -> float:
    """The longest time between two acknowledgements of one writer that meets [begin, end], without
    its pause."""
    longest = 0.0
    for writer in writers:
        known = [outcome.known for outcome in writer.outcomes[-20_000:]]
        for before, after in itertools.pairwise(known):
            if after >= begin and before <= end:
                longest = max(longest, after - before - PAUSE_S)
    return longest


def failed(writers: list[StreamWriter]) -> int:
    """Appends for which the patience of a client was not enough."""
    count = 0
    for writer in writers:
        known = [outcome.known for outcome in writer.outcomes]
        count += sum(after - before > PATIENCE_S for before, after in itertools.pairwise(known))
    return count


async def _end_leader(cluster: OwnCluster, load: Load) -> tuple[float, float]:
    """The gap that writers see when the leader's node is told to end, until its process has ended
    and its successor has answered all of them; and the longest one until the node is whole again.

    When it comes back is its supervisor's to say: it waits longer for one that ends so often.
    """
    await whole(cluster, BASIN, 3, WHOLE_S)
    await load.acknowledged(10)
    leader = await cluster.wait_leader(BASIN)
    pid = cluster.node(leader)["pid"]
    begin = time.monotonic()
    cluster.kill_node(leader, signal.SIGTERM)
    async with asyncio.timeout(WHOLE_S):
        while is_alive(pid):
            await asyncio.sleep(0.02)
        await load.acknowledged(3)
        gap = longest_gap(load.writers, begin, time.monotonic())
        while cluster.node(leader)["pid"] == pid:
            await asyncio.sleep(0.02)
    await whole(cluster, BASIN, 3, WHOLE_S)
    return gap, longest_gap(load.writers, begin, time.monotonic())


def is_alive(pid: int) -> bool:
    """Whether the process is there and runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def _end_gateway(cluster: OwnCluster, load: Load) -> None:
    pid = int(cluster.file()["gateway"]["pid"])
    os.kill(pid, signal.SIGTERM)
    async with asyncio.timeout(WHOLE_S):
        while int(cluster.file()["gateway"]["pid"]) == pid:
            await asyncio.sleep(0.02)
    await cluster.wait_ready(WHOLE_S)
    await load.acknowledged(3)


@pytest.mark.timeout(3600)
def test_a_planned_restart_is_hardly_felt(tmp_path: Path) -> None:
    """Its node gives the lead away before it ends: what clients see is a gap, and no failure that
    a repetition within their patience does not heal; nothing is lost or doubled."""

    async def main() -> None:
        gaps: list[float] = []
        longest: list[float] = []
        gateways = 0
        async with running(tmp_path / "cluster") as cluster:
            load = Load(cluster.url, BASIN, writers=4)
            for writer in load.writers:
                writer.pause_s = PAUSE_S
            await set_up(cluster.url, BASIN, [writer.stream for writer in load.writers])
            load.start()
            for number in range(rounds("RESTART_ROUNDS", 3)):
                gap, until_whole = await _end_leader(cluster, load)
                gaps.append(gap)
                longest.append(until_whole)
                if number % GATEWAY_EVERY == 0:
                    await _end_gateway(cluster, load)
                    gateways += 1
            await load.acknowledged(5)
            await load.stop()
            verdict = await load.verify()
        print(
            f"\nleaders ended {len(gaps)}  gap: p50 {quantile(gaps, 0.5):.3f} s  "
            f"p99 {quantile(gaps, 0.99):.3f} s  max {max(gaps):.3f} s  gateways {gateways}\n"
            f"longest until the node is whole: p50 {quantile(longest, 0.5):.3f} s  "
            f"p99 {quantile(longest, 0.99):.3f} s  max {max(longest):.3f} s\n"
            f"acknowledged {verdict.acknowledged}  missing {verdict.missing}  duplicates "
            f"{verdict.duplicates}  given up {failed(load.writers)}  repeated {load.errors()}"
        )
        fields = {
            "leaders": len(gaps),
            "gateways": gateways,
            "gaps_ms": [round(gap * 1000) for gap in gaps],
            "until_whole_ms": [round(gap * 1000) for gap in longest],
            "appends": sum(len(writer.outcomes) for writer in load.writers),
            "failed": failed(load.writers),
            "lost": verdict.missing,
            "doubled": verdict.duplicates,
            "repeated": load.errors(),
        }
        record_if_asked("restarts", fields)
        assert verdict.clean, verdict
        assert not failed(load.writers)

    asyncio.run(main())
