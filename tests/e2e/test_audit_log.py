"""The audit log of three nodes and a gateway: one file for all, moved away while they run. And S2's
official Python client, unmodified, choosing locations, each of whose writes is in it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.cluster import running
from tests.e2e.test_s2_clients import CLIENTS, root_token
from tests.log_lines import json_lines
from tests.own_processes import node_pids

SCRIPT = Path(__file__).parent / "clients" / "s2_python_locations.py"
LOCATIONS = {"aws:eu-1": False, "aws:us-2": False, "lab": True}
SECONDS = 60


async def choose_locations(cluster: OwnCluster, root: str) -> None:
    client = await asyncio.create_subprocess_exec(
        *(str(CLIENTS), str(SCRIPT), cluster.url, root, *LOCATIONS),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await client.communicate()
    assert client.returncode == 0, said.decode()
    assert said.decode().count(": ok\n") == 3


async def create(cluster: OwnCluster, root: str, basin: str) -> int:
    headers = {"authorization": f"Bearer {root}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{cluster.url}/v1/basins", json={"basin": basin}) as answer,
    ):
        await answer.read()
        return answer.status


async def until(path: Path, operation: str) -> dict[str, Any]:
    """The first line of this operation."""
    async with asyncio.timeout(SECONDS):
        while True:
            found = [each for each in json_lines(path) if each["operation"] == operation]
            if found:
                return found[0]
            await asyncio.sleep(0.05)


async def replace_root(cluster: OwnCluster, node: int) -> str:
    """As an operator does who has lost it."""
    arguments = ["-m", "svc_cluster", "admin", "root-token", cluster.node(node)["data_dir"]]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    return next(word for word in said.decode().split() if word.startswith("svct_"))


@pytest.mark.timeout(300)
@pytest.mark.skipif(not CLIENTS.exists(), reason="no .venv/clients: run `make setup`")
def test_the_audit_log_is_whole_across_rotation(tmp_path: Path) -> None:
    """Every write of the client is a line, refusals too, and no line has a secret. After the file
    is moved and SIGHUP sent, gateway and nodes go on in a new one and none of them ends."""

    async def main() -> None:
        overrides = json.dumps({"locations": LOCATIONS})
        async with running(
            tmp_path / "cluster",
            options=["--auth"],
            environment={"SVC_CLUSTER_LOCAL_OVERRIDES": overrides},
        ) as cluster:
            path = cluster.directory / "audit.log"
            root = await root_token(cluster.log_path)
            await until(path, "set-root-token")
            await choose_locations(cluster, root)
            told = [
                (e["operation"], e["token"], e["status"]) for e in json_lines(path) if "status" in e
            ]
            assert told == [
                ("create-basin", "root", 201),
                ("set-default-location", "root", 200),
                ("create-basin", "root", 201),
                ("ensure-basin", "root", 200),
                ("ensure-basin", "root", 422),
                ("create-basin", "root", 422),
                ("set-default-location", "root", 422),
            ]
            moved = path.with_suffix(".1")
            path.rename(moved)
            before = len(json_lines(moved))
            pids = [cluster.file()["gateway"]["pid"], *node_pids(cluster).values()]
            for pid in pids:
                os.kill(pid, signal.SIGHUP)
            async with asyncio.timeout(SECONDS):
                while not path.exists():
                    await asyncio.sleep(0.02)
            assert await create(cluster, root, "after-rotation") == 201
            fresh = await replace_root(cluster, node=2)
            event = await until(path, "set-root-token")
            assert (event["token"], event["node"]) == ("-", 2)
            async with asyncio.timeout(SECONDS):
                while await create(cluster, fresh, "with-new-root") == 401:
                    await asyncio.sleep(0.05)
            assert (await until(path, "create-basin"))["basin"] == "after-rotation"
            assert pids == [cluster.file()["gateway"]["pid"], *node_pids(cluster).values()]
            assert len(json_lines(moved)) == before
            text = moved.read_text() + path.read_text()
            for secret in (root, fresh):
                assert secret[5:40] not in text

    asyncio.run(main())
