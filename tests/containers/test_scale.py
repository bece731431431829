"""The profile `scale` of compose: two nodes come with join tokens that a service makes, and leave.
They are scraped as the others are, and hold basins. The commands are those of
docs/operations/containers.md."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import pytest

from svc_cluster.base.clock import SystemClock
from tests.containers.compose import NODES, READY_S, Compose, docker
from tests.containers.test_compose import Load
from tests.containers.test_lost_volume import admin
from tests.containers.test_observability import ask

JOINING = {"svc-3": 4, "svc-4": 5}
SCRAPED_S = 60.0
"""Within this Prometheus has five targets that are nodes."""

pytestmark = pytest.mark.timeout(1200)


async def members(cluster: Compose) -> dict[int, str]:
    """The standing of each node by svc-0, or its state where it was removed."""
    rows = json.loads(await admin(cluster, "member", "list", "--json"))["members"]
    return {
        row["node_id"]: "removed" if row["state"] == "removed" else row["standing"] for row in rows
    }


async def scraped(cluster: Compose) -> None:
    """Until all five nodes are targets of Prometheus and up. Raises TimeoutError."""
    wanted = {f"{service}:9090" for service in (*NODES, *JOINING)}
    seen: dict[str, str] = {}
    async with asyncio.timeout(SCRAPED_S):
        while {name for name, health in seen.items() if health == "up"} != wanted:
            found = (await asyncio.to_thread(ask, cluster, "targets"))["activeTargets"]
            seen = {
                target["labels"]["instance"]: target["health"]
                for target in found
                if target["labels"]["job"] == "svc-node"
            }
            await asyncio.sleep(0.5)


async def replicas(cluster: Compose) -> dict[int, int]:
    """Groups on each node that answers."""
    found = json.loads(await admin(cluster, "cluster", "status", "-o", "json"))["nodes"]
    return {row["node_id"]: row["groups"] for row in found if row["state"] != "removed"}


async def all_are_up(cluster: Compose) -> None:
    """Until the five nodes are members that are there."""
    end = SystemClock().monotonic() + READY_S
    while (found := await members(cluster)) != dict.fromkeys(range(1, 6), "up") | {1: "self"}:
        assert SystemClock().monotonic() < end, found
        await asyncio.sleep(0.5)


def test_nodes_come_with_tokens_and_leave_again(cluster: Compose) -> None:
    """Under load, with nothing but `up` for the growth: five members, five targets within a minute,
    replicas on the new ones; then both are drained and removed. Once their volumes are deleted, the
    same `up` lets them come again, empty. The history is linearizable."""
    volumes: list[str] = []

    async def grow() -> None:
        command = ("--profile", "scale", "up", "--detach", "--no-build", "svc-3", "svc-4")
        await asyncio.to_thread(cluster.run, *command)
        await all_are_up(cluster)
        await scraped(cluster)
        await cluster.wait_healthy(*JOINING)
        # once more it finds its tokens, and nothing is made anew
        before = [cluster.container(service) for service in (*NODES, *JOINING)]
        await asyncio.to_thread(cluster.run, *command)
        assert [cluster.container(service) for service in (*NODES, *JOINING)] == before
        await admin(cluster, "rebalance", "--for", "240")
        held = await replicas(cluster)
        assert all(held[node] for node in JOINING.values()), held

    async def shrink(service: str, node: int) -> None:
        await admin(cluster, "node", "drain", str(node))
        await admin(cluster, "node", "status", str(node))
        await admin(cluster, "member", "remove", str(node))
        await cluster.wait_said(service, f"node {node} was removed from the cluster")
        mounts = cluster.describe(service)["Mounts"]
        volumes.extend(one["Name"] for one in mounts if one["Destination"] == "/data")
        cluster.run("--profile", "scale", "rm", "--stop", "--force", service)
        assert (await members(cluster))[node] == "removed"

    async def come_again() -> None:
        for volume in volumes:
            docker("volume", "rm", volume)
        command = ("--profile", "scale", "up", "--detach", "--no-build", "svc-3", "svc-4")
        await asyncio.to_thread(cluster.run, *command)
        await all_are_up(cluster)
        rows = json.loads(await admin(cluster, "member", "list", "--json"))["members"]
        assert {row["node_id"]: row["ordinal"] for row in rows if row["node_id"] > 3} == {
            4: 1,
            5: 1,
        }
        await admin(cluster, "rebalance", "--for", "240")
        held = await replicas(cluster)
        assert all(held[node] for node in JOINING.values()), held

    async def play() -> list[str]:
        await asyncio.to_thread(
            cluster.run, "--profile", "observability", "up", "--detach", "--no-build"
        )
        await cluster.wait_healthy("prometheus")
        token = cluster.read_file("svc-0", "/pki/root-token").strip()
        load = Load(cluster, token, "scaled")
        await load.set_up()
        await more_basins(load)
        load.start()
        try:
            await load.progress()
            await grow()
            await load.progress()
            for service, node in reversed(JOINING.items()):
                await shrink(service, node)
                await load.progress()
            await come_again()
            await load.progress()
            for service, node in reversed(JOINING.items()):
                await shrink(service, node)
            await load.stop()
            return await load.judge()
        finally:
            await load.stop()

    assert asyncio.run(play()) == []


async def more_basins(load: Load) -> None:
    """Enough for each of five nodes to hold some."""
    for number in range(5):
        await load.insist(partial(load.apis[0].create_basin, f"scale-basin-{number}"))
