"""What happens around the life of a node that goes or comes: leaderships are given away before it
stops, and one that is not a member yet waits."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.http.client import HttpClient, HttpResponse
from svc_cluster.lab.own_cluster import OwnCluster
from tests.integration.processes import (
    READY_S,
    page,
    ready_cluster,
    wait_page,
)
from tests.service_process import service

BASIN = "stops-basin"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    with ready_cluster(tmp_path_factory.mktemp("stops") / "data") as own:
        yield own


async def make_basin(cluster: OwnCluster) -> None:
    body = b'{"basin":"%s"}' % BASIN.encode()
    end = SystemClock().monotonic() + READY_S
    answer: HttpResponse | None = None
    while SystemClock().monotonic() < end:
        async with HttpClient(cluster.url) as client:
            headers = {"content-type": "application/json"}
            answer = await client.request("POST", "/v1/basins", headers, body, timeout_s=10.0)
        if answer.status in (201, 409):
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"no basin: {answer}")


def hand_over(pid: int, url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "svc_cluster.handover", str(pid), url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_node_gives_its_leaderships_away_before_it_is_stopped(cluster: OwnCluster) -> None:
    """The hook ends when the node leads nothing; the node lives on, is not ready, and somebody else
    leads the basin. After its end and a new start it is ready again."""

    async def play() -> None:
        await make_basin(cluster)
        leader = await cluster.wait_leader(BASIN, READY_S)
        row = cluster.node(leader)
        url = f"http://127.0.0.1:{row['admin_port']}"
        done = await asyncio.to_thread(hand_over, int(row["pid"]), url)
        assert done.returncode == 0, done.stderr
        groups = (await cluster.groups())[leader]
        assert {group["role"] for group in groups}.isdisjoint({"leader"})
        status, text = await page(int(row["admin_port"]), "/readyz?verbose")
        assert status == 503
        assert "[-]not_draining" in text
        assert cluster.node(leader)["pid"] == row["pid"], "it has not ended"
        end = SystemClock().monotonic() + READY_S
        while await cluster.wait_leader(BASIN, READY_S) == leader:
            assert SystemClock().monotonic() < end
        cluster.kill_node(leader, signal.SIGTERM)
        await wait_page(int(row["admin_port"]), "/readyz", 200, "OK")

    asyncio.run(play())


@pytest.mark.parametrize(
    ("arguments", "status"), [([], 2), (["one", "http://127.0.0.1:1"], 2), (["0", "x"], 0)]
)
def test_the_hook_says_what_it_cannot_do(arguments: list[str], status: int) -> None:
    """Wrong arguments are a wrong command line; a process that is gone is a failure."""
    if status == 0:
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        arguments, status = [str(gone.pid), "http://127.0.0.1:1"], 1
    done = subprocess.run(
        [sys.executable, "-m", "svc_cluster.handover", *arguments],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status
    assert done.stderr


def joining(cluster: OwnCluster, directory: Path, rpc: int, admin: int) -> Path:
    """The settings of a fourth node."""
    settings = yaml.safe_load((cluster.directory / "node-1.yaml").read_text())
    settings |= {
        "node_id": 4,
        "nodes": settings["nodes"] | {"4": f"127.0.0.1:{rpc}"},
        "data_dir": str(directory / "node-4"),
        "admin_address": f"127.0.0.1:{admin}",
        "join": True,
    }
    path = directory / "node-4.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def test_a_node_that_is_no_member_waits_and_says_so_once(
    cluster: OwnCluster, tmp_path: Path
) -> None:
    """Alive, scraped, not ready; one line in its log; no log and no store are begun; and it ends
    with 0 when it is told to. The cluster goes on as it was."""
    held = HeldPorts(2)
    rpc, admin = held.numbers
    path = joining(cluster, tmp_path, rpc, admin)
    log = tmp_path / "node-4.log"

    async def play() -> None:
        await wait_page(admin, "/readyz", 503, "[-]member")
        await wait_page(admin, "/livez", 200, "OK")
        await wait_page(admin, "/metrics", 200, "svc_build_info{")
        end = SystemClock().monotonic() + READY_S
        while "not a member of the cluster" not in log.read_text():
            assert SystemClock().monotonic() < end, log.read_text()
            await asyncio.sleep(0.1)
        assert log.read_text().count("waiting_for_membership") == 1
        assert list((tmp_path / "node-4" / "wal").iterdir()) == []
        await cluster.wait_ready(READY_S)

    with service("node", path, log) as process:
        asyncio.run(play())
        assert process.stop() == 0


def test_a_member_that_is_told_to_wait_does_not(cluster: OwnCluster) -> None:
    """With `join` in its settings a node that the others know starts as ever."""
    path = cluster.directory / "node-3.yaml"
    path.write_text(path.read_text() + "join: true\n")
    pid = cluster.kill_node(3)
    admin = int(cluster.node(3)["admin_port"])

    async def play() -> None:
        end = SystemClock().monotonic() + READY_S
        while int(cluster.node(3)["pid"]) in (0, pid):
            assert SystemClock().monotonic() < end, cluster.log_tail()
            await asyncio.sleep(0.1)
        await wait_page(admin, "/readyz", 200, "OK")

    asyncio.run(play())
