"""A basin moves to other nodes of real processes under load, while those that matter are killed."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svc_cluster.lab.own_cluster import ClusterError, OwnCluster
from tests.e2e.cluster import Load, running
from tests.e2e.load import set_up

BASIN = "moved-basin"
COMMAND_S = 60.0
MOVED_S = 90.0


async def admin(cluster: OwnCluster, *words: str, node: int = 1) -> tuple[int, str]:
    """Status and output of `svc-cluster admin`."""
    command = [sys.executable, "-m", "svc_cluster", "admin", *words]
    command += ["--data-dir", str(cluster.directory), "--node", str(node)]

    def run() -> tuple[int, str]:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
        return ended.returncode, ended.stdout if ended.stdout else ended.stderr

    return await asyncio.to_thread(run)


async def show(cluster: OwnCluster) -> dict[str, Any]:
    """What any node that is there tells of the basin; empty: none does just now."""
    for row in cluster.file()["nodes"]:
        _, text = await admin(cluster, "basin", "show", BASIN, "-o", "json", node=int(row["id"]))
        if text.startswith("{"):
            told: dict[str, Any] = json.loads(text)
            return told
    return {}


async def until(
    cluster: OwnCluster, holds: Callable[[dict[str, Any]], bool], seconds: float = MOVED_S
) -> dict[str, Any]:
    """What `basin show` tells once that holds."""
    told: dict[str, Any] = {}
    try:
        async with asyncio.timeout(seconds):
            while not holds(told := await show(cluster)):
                pass
    except TimeoutError:
        raise AssertionError(f"not in time: {told}") from None
    return told


async def order(cluster: OwnCluster, to: list[int]) -> None:
    """Ask for the move until it is taken: of any node, since one may be starting again."""
    words = ("basin", "move", BASIN, "--to", ",".join(map(str, to)), "--reason", "a test")
    text = ""
    for _ in range(20):
        for row in cluster.file()["nodes"]:
            status, text = await admin(cluster, *words, node=int(row["id"]))
            if status == 0:
                return
    raise AssertionError(text)


def members(told: dict[str, Any]) -> list[int]:
    return sorted(int(row["node_id"]) for row in told.get("replicas", []))


def is_moved(told: dict[str, Any], to: list[int], configuration: int) -> bool:
    """Whether the basin is on these nodes, all of which answer, and nothing of the move is open."""
    return (
        not told.get("move", {}).get("to")
        and int(told.get("configuration", 0)) >= configuration
        and members(told) == sorted(to)
        and all(row["role"] in ("leader", "follower") for row in told["replicas"])
    )


async def holders(cluster: OwnCluster) -> set[int]:
    found = await cluster.groups()
    return {node for node, groups in found.items() if any(g["basin"] == BASIN for g in groups)}


async def only_on(cluster: OwnCluster, nodes: list[int]) -> None:
    """Until no other node has a copy."""
    async with asyncio.timeout(MOVED_S):
        while await holders(cluster) != {*nodes}:
            await asyncio.sleep(0.1)


async def kill(cluster: OwnCluster, node: int) -> None:
    """kill -9; the supervisor starts it again."""
    pid = cluster.kill_node(node, signal.SIGKILL)
    async with asyncio.timeout(MOVED_S):
        while cluster.node(node)["pid"] in (pid, 0):
            await asyncio.sleep(0.05)


async def leader(cluster: OwnCluster) -> int:
    try:
        return await cluster.wait_leader(BASIN)
    except ClusterError as fault:
        raise AssertionError(str(fault)) from fault


@pytest.mark.timeout(600)
def test_a_basin_moves_and_comes_back_while_its_leader_and_the_new_node_are_killed(
    tmp_path: Path,
) -> None:
    """Five nodes: one of three replicas goes to a node that has none, its leader and that node are
    killed behind the order, and once more on the way back. Every acknowledged record is there
    once and in order; who is no member any more keeps no copy."""

    async def main() -> None:
        async with running(tmp_path / "cluster", nodes=5) as cluster:
            load = Load(cluster.url, BASIN, writers=2)
            await set_up(cluster.url, BASIN, [writer.stream for writer in load.writers])
            first = members(await until(cluster, lambda told: len(members(told)) == 3))
            free = min({1, 2, 3, 4, 5} - {*first})
            load.start()
            await load.acknowledged(20)
            at_first = await leader(cluster)
            # the leader's own node is left, which is the harder way
            second = [free, *(node for node in first if node != at_first)]
            await order(cluster, second)
            await kill(cluster, at_first)
            await load.acknowledged(5, MOVED_S)
            await kill(cluster, free)
            await load.acknowledged(5, MOVED_S)
            told = await until(cluster, lambda told: is_moved(told, second, 1))
            assert told["leader"] in second
            await only_on(cluster, second)
            await load.acknowledged(10, MOVED_S)
            await order(cluster, first)
            await kill(cluster, at_first)
            await kill(cluster, await leader(cluster))
            await until(cluster, lambda told: is_moved(told, first, 2))
            await only_on(cluster, first)
            await load.acknowledged(10, MOVED_S)
            await load.stop()
            verdict = await load.verify()
        assert verdict.clean and verdict.acknowledged > 100, verdict

    asyncio.run(main())
