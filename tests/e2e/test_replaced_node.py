"""A data directory is lost under load: the node is replaced, and then another one is killed.
The old directory comes back and is refused."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.cluster import READY_S, Load, running, whole
from tests.e2e.load import Verdict, set_up
from tests.integration.processes import wait_page
from tests.log_lines import whole_lines
from tests.service_process import service

BASIN = "replaced-node-basin"
LOST = 3
COMMAND_S = 60.0


async def admin(cluster: OwnCluster, *words: str) -> tuple[int, str]:
    """Status and output of `svc-cluster admin`, asked of node 1."""
    command = [sys.executable, "-m", "svc_cluster", "admin", *words]
    command += ["--data-dir", str(cluster.directory), "--node", "1"]

    def run() -> tuple[int, str]:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
        return ended.returncode, ended.stdout + ended.stderr

    return await asyncio.to_thread(run)


async def insist(cluster: OwnCluster, *words: str) -> str:
    """Until the command succeeds: what it needs to know comes seconds later."""
    status, text = 1, ""
    async with asyncio.timeout(COMMAND_S):
        while status:
            status, text = await admin(cluster, *words)
    return text


@pytest.mark.timeout(900)
def test_a_lost_directory_is_replaced_and_the_old_one_refused(tmp_path: Path) -> None:
    """Nothing acknowledged is lost, also when a node that was whole all the time is killed right
    after the new directory is ready. Nobody listens to the old one again."""

    async def main() -> None:
        async with running(tmp_path / "cluster", options=["--no-restart"]) as cluster:
            load = Load(cluster.url, BASIN, writers=2)
            await set_up(cluster.url, BASIN, [writer.stream for writer in load.writers])
            await whole(cluster, BASIN, 3)
            await insist(cluster, "upgrade", "finalize", "--yes")
            load.start()
            await load.acknowledged(10)
            verdict = await _lose_and_replace(cluster, load, tmp_path)
        assert verdict.clean and verdict.acknowledged > 20, verdict

    asyncio.run(main())


@pytest.mark.timeout(600)
def test_a_removed_volume_heals_by_itself(tmp_path: Path) -> None:
    """With `replace_lost_nodes` and without any command: under load, nothing acknowledged is lost,
    also when a node that was whole all the time is killed right after the new one is ready."""

    async def main() -> None:
        environment = {"SVC_CLUSTER_REPLACE_LOST_NODES": "true"}
        options = ["--no-restart"]
        place = tmp_path / "cluster"
        async with running(place, options=options, environment=environment) as cluster:
            load = Load(cluster.url, BASIN, writers=2)
            await set_up(cluster.url, BASIN, [writer.stream for writer in load.writers])
            await whole(cluster, BASIN, 3)
            await insist(cluster, "upgrade", "finalize", "--yes")
            load.start()
            await load.acknowledged(10)
            row = cluster.node(LOST)
            cluster.kill_node(LOST, signal.SIGKILL)
            shutil.rmtree(row["data_dir"])
            log = tmp_path / "node-3.log"
            with service("node", cluster.directory / f"node-{LOST}.yaml", log):
                await wait_page(int(row["admin_port"]), "/readyz", 200)
                cluster.kill_node(1, signal.SIGKILL)
                await load.acknowledged(5, READY_S)
                with service("node", cluster.directory / "node-1.yaml", tmp_path / "node-1.log"):
                    await load.stop()
                    verdict = await load.verify()
        assert verdict.clean and verdict.acknowledged > 10, verdict

    asyncio.run(main())


async def _lose_and_replace(cluster: OwnCluster, load: Load, tmp_path: Path) -> Verdict:
    rows = {number: cluster.node(number) for number in (1, 2, 3)}
    port = int(rows[LOST]["admin_port"])
    settings = cluster.directory / f"node-{LOST}.yaml"
    place, old, new = Path(rows[LOST]["data_dir"]), tmp_path / "old", tmp_path / "new"
    log = tmp_path / "node-3.log"
    cluster.kill_node(LOST, signal.SIGKILL)
    place.rename(old)
    status, text = await admin(cluster, "member", "replace", str(LOST))
    assert status == 1 and ("has not come up" in text or "is up" in text), text
    with service("node", settings, log):
        await wait_page(port, "/readyz?verbose", 503, "[-]formed", "admin member replace 3")
        await load.acknowledged(5)
        text = await insist(cluster, "member", "replace", str(LOST))
        assert "node 3 is replaced: directory 2 of its place" in text
        await wait_page(port, "/readyz", 200)
        await load.acknowledged(5)
        status, text = await admin(cluster, "member", "list")
        assert status == 0 and "takes the place" not in text, text
        cluster.kill_node(1, signal.SIGKILL)
        await load.acknowledged(5, READY_S)
        with service("node", cluster.directory / "node-1.yaml", tmp_path / "node-1.log"):
            await wait_page(int(rows[1]["admin_port"]), "/readyz", 200)
            await load.acknowledged(5, READY_S)
    with service("node", cluster.directory / "node-1.yaml", tmp_path / "node-1.log"):
        place.rename(new)
        old.rename(place)
        with service("node", settings, log):
            await wait_page(port, "/readyz?verbose", 503, "[-]formed", "refused for ever")
            await wait_page(port, "/metrics", 200, "svc_node_refused 1.0")
            await load.acknowledged(5, READY_S)
        place.rename(old)
        new.rename(place)
        with service("node", settings, log):
            await wait_page(port, "/readyz", 200)
            await load.acknowledged(5, READY_S)
            await load.stop()
            verdict = await load.verify()
    told = [line for line in whole_lines(log) if "refused for ever" in line]
    assert len(told) == 1 and "node_refused" in told[0], told
    return verdict
