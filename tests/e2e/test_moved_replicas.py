"""Replicas leave a drained node of real processes, and come to a node that has none of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from svc_cluster.lab.own_cluster import OwnCluster, leader_in
from tests.e2e.cluster import Load, running
from tests.e2e.load import set_up
from tests.e2e.test_moved_basin import MOVED_S, admin, kill

BASINS = [f"moved-replicas-{number}" for number in range(4)]


async def told(cluster: OwnCluster, *words: str) -> dict[str, Any]:
    """What any node that is there answers; empty: none does just now."""
    for row in cluster.file()["nodes"]:
        _, text = await admin(cluster, *words, "-o", "json", node=int(row["id"]))
        if text.startswith("{"):
            answer: dict[str, Any] = json.loads(text)
            return answer
    return {}


async def ask(cluster: OwnCluster, *words: str, node: int = 1) -> str:
    """Until the command succeeds."""
    async with asyncio.timeout(MOVED_S):
        while True:
            status, text = await admin(cluster, *words, node=node)
            if status == 0:
                return text


async def held(cluster: OwnCluster) -> dict[int, int]:
    """Copies of these basins on each node that answers."""
    found = await cluster.groups()
    return {
        node: sum(group["basin"] in BASINS for group in groups) for node, groups in found.items()
    }


async def emptied(cluster: OwnCluster, node: int) -> None:
    """Until nothing of a basin is left on it, and it says so."""
    async with asyncio.timeout(MOVED_S):
        while (answer := await told(cluster, "node", "status", str(node))).get("replicas", 1) or (
            answer["leads"] or not answer["answers"]
        ):
            pass
        while (await held(cluster)).get(node, 1):
            await asyncio.sleep(0.1)


async def _drain(cluster: OwnCluster, load: Load) -> int:
    """The node with the most replicas; who leads the catalog and that node are killed meanwhile."""
    before = await held(cluster)
    leaving = max(before, key=lambda node: before[node])
    assert before[leaving] >= 2
    # its status is 1 while anything is left on it
    while not (answer := await told(cluster, "node", "drain", str(leaving))).get("state"):
        pass
    assert answer["state"] == "draining"
    catalog = leader_in(await cluster.groups(), None)
    for victim in {leaving, catalog or leaving}:
        await kill(cluster, victim)
    await emptied(cluster, leaving)
    await load.acknowledged(5, MOVED_S)
    answer = await told(cluster, "node", "status", str(leaving))
    assert (answer["replicas"], answer["holds_catalog"]) == (0, False)
    assert sum((await held(cluster)).values()) == 3 * len(BASINS)
    return leaving


async def _even_out(cluster: OwnCluster, load: Load, empty: int) -> None:
    """It takes replicas again, once that is asked for."""
    await ask(cluster, "node", "undrain", str(empty))
    status, text = await admin(cluster, "rebalance", "--dry-run")
    assert status == 1 and "balance" in text, text
    assert (await held(cluster))[empty] == 0
    text = await ask(cluster, "rebalance", node=empty)
    assert "every replica is where it should be" in text, text
    counts = (await held(cluster)).values()
    assert max(counts) - min(counts) <= 1, counts
    status, text = await admin(cluster, "rebalance", "--dry-run")
    assert status == 0, text
    await load.acknowledged(5, MOVED_S)


@pytest.mark.timeout(600)
def test_a_drained_node_is_emptied_and_filled_again_under_load(tmp_path: Path) -> None:
    """Who leads the catalog and the node itself are killed as soon as it drains. Every record that
    was acknowledged is there, once and in order."""

    async def main() -> None:
        async with running(tmp_path / "cluster", nodes=5) as cluster:
            loads = [Load(cluster.url, basin, writers=1) for basin in BASINS]
            for load in loads:
                await set_up(cluster.url, load.writers[0].basin, [load.writers[0].stream])
            loads[0].start()
            await loads[0].acknowledged(10)
            leaving = await _drain(cluster, loads[0])
            await _even_out(cluster, loads[0], leaving)
            await loads[0].stop()
            verdict = await loads[0].verify()
        assert verdict.clean and verdict.acknowledged > 50, verdict

    asyncio.run(main())
