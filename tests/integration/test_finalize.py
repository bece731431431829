"""Finalizing an upgrade with the commands, at the process of a node that is a cluster by itself."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from svc_cluster.http.client import HttpClient
from svc_cluster.model.versions import FIRST, NEWEST, PAYLOAD_DIRECTORY
from tests.integration.admin_node import AdminNode
from tests.integration.test_administration import SERVING, wait_health
from tests.older_formation import form

COMMAND_S = 60.0


def run(node: AdminNode, *arguments: str) -> tuple[int, str]:
    """The status of `svc-cluster admin`, and all that it said."""
    address = f"127.0.0.1:{node.admin_rpc}"
    done = subprocess.run(
        [sys.executable, "-m", "svc_cluster", "admin", *arguments, "--address", address],
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_S,
    )
    return done.returncode, done.stdout + done.stderr


async def figures(node: AdminNode) -> dict[str, float]:
    async with HttpClient(f"http://127.0.0.1:{node.http}") as client:
        page = await client.request("GET", "/metrics", timeout_s=COMMAND_S)
    rows = (line.split() for line in page.body.decode().splitlines() if "svc_cluster_" in line)
    return {row[0]: float(row[1]) for row in rows if row[0].startswith("svc_cluster_")}


def formats(node: AdminNode) -> set[int]:
    """The format that each copy of the data directory's identity names."""
    raw = (Path(node.settings["data_dir"]) / "wal" / "identity").read_bytes()
    slots = (raw[:4096], raw[4096:])
    return {
        json.loads(slot[16 : 16 + int.from_bytes(slot[8:12], "big")])["format"] for slot in slots
    }


def test_an_upgrade_is_told_finalized_once_and_kept(tmp_path: Path) -> None:
    """Told without `--yes`, done with it, nothing the second time; figures and exit statuses go
    with it, and the directory, which the release before starts on no more, says it after a kill."""
    node = AdminNode(tmp_path)
    form({1: Path(node.settings["data_dir"])}, node.settings["cluster_id"])
    node.start()
    try:
        asyncio.run(wait_health(node.health, "", SERVING))
        status, told = run(node, "upgrade", "status")
        assert (status, f"version {FIRST} (release 0.2) is active" in told) == (1, True), told
        assert "every process speaks version 3 (release 0.3)" in told
        assert "node 1" in told
        outstanding = {"svc_cluster_active_version": 2.0, "svc_cluster_upgrade_outstanding": 1.0}
        assert asyncio.run(figures(node)) == outstanding
        status, told = run(node, "upgrade", "finalize")
        assert (status, "repeat the command with --yes" in told) == (2, True), told
        assert asyncio.run(figures(node)) == outstanding
        assert formats(node) == {2}
        status, told = run(node, "upgrade", "finalize", "--yes")
        assert (status, told.splitlines()[0]) == (0, "active version 3 (release 0.3)"), told
        status, told = run(node, "cluster", "version", "-o", "json")
        answer = json.loads(told)
        assert (status, answer["active"], answer["newest"], answer["why_not"]) == (0, 3, NEWEST, "")
        assert [row["newest"] for row in answer["processes"]] == [NEWEST]
        node.process.kill()
        assert formats(node) == {PAYLOAD_DIRECTORY}
        node.start()
        asyncio.run(wait_health(node.health, "", SERVING))
        assert run(node, "upgrade", "status")[0] == 0
        status, told = run(node, "upgrade", "finalize", "--yes")
        assert (status, told.startswith("nothing to finalize")) == (0, True), told
        done = {"svc_cluster_active_version": 3.0, "svc_cluster_upgrade_outstanding": 0.0}
        assert asyncio.run(figures(node)) == done
    finally:
        node.stop()
