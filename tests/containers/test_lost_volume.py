"""A volume that is removed under a node of compose, and what becomes of it without a command."""

from __future__ import annotations

import asyncio
import json

import pytest

from svc_cluster.base.clock import SystemClock
from tests.containers.compose import DECLARED, READY_S, Compose, ComposeError, docker

LOST = "svc-2"
pytestmark = pytest.mark.timeout(1200)


async def admin(cluster: Compose, *words: str) -> str:
    """What `svc-cluster admin` says inside svc-0, once it succeeds. Raises ComposeError."""
    end = SystemClock().monotonic() + READY_S
    command = ("python3", "-m", "svc_cluster", "admin", *words)
    while True:
        try:
            return docker("exec", cluster.container("svc-0"), *command)
        except ComposeError:
            if SystemClock().monotonic() > end:
                raise
            await asyncio.sleep(0.5)


def test_a_removed_volume_heals_by_itself(cluster: Compose) -> None:
    """`docker volume rm` of one node's data, `up --detach`, and all nodes have everything again,
    as many records as before with the same digests, and the gateway is ready."""

    async def play() -> None:
        await admin(cluster, "upgrade", "finalize", "--yes")
        await admin(cluster, "cluster", "health")
        (data,) = [
            mount["Name"]
            for mount in cluster.describe(LOST)["Mounts"]
            if mount["Destination"] == "/data"
        ]
        cluster.run("rm", "--stop", "--force", LOST)
        docker("volume", "rm", data)
        cluster.run("up", "--detach", "--no-build", "--no-deps", LOST)
        await admin(cluster, "cluster", "health")
        found = json.loads(await admin(cluster, "basin", "show", DECLARED, "-o", "json"))
        assert [row["node_id"] for row in found["replicas"]] == [1, 2, 3]
        assert not any(row["recovering"] for row in found["replicas"])
        (row,) = [
            row
            for row in json.loads(await admin(cluster, "member", "list", "--json"))["members"]
            if row["node_id"] == 3
        ]
        assert (row["ordinal"], row["replacing"]) == (1, False)
        await cluster.wait_ready()

    asyncio.run(play())
