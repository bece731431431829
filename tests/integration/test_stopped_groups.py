"""Real processes with a bug planted into them, or of an older release: health page, metrics, log
lines and answers of groups that are stopped or parked, and of those beside them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from svc_cluster.base.clock import SystemClock
from svc_cluster.lab.api_client import ApiClient, AppendRecord
from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.cluster import Load, running
from tests.e2e.load import set_up
from tests.integration.processes import READY_S, page, samples
from tests.log_lines import whole_lines
from tests.own_processes import node_pids

HEALTHY, BROKEN, STREAM = "healthy-basin", "broken-basin", "stream-0"
MARK = b"the record with the bug"

PLANTED = f"""
from svc_cluster.replica.machine import StateMachine
plan = StateMachine.plan
def planted(machine, entry):
    if {MARK!r} in entry.payload:
        raise ZeroDivisionError("planted")
    return plan(machine, entry)
StateMachine.plan = planted
"""

OLDER = """
import svc_cluster.replica.machine as machine
decode = machine.decode_steps
machine.decode_steps = lambda payload, known: decode(payload, known - {"keyed_write"})
import svc_cluster.replica.basin as basin
comes_back = basin.comes_back
basin.comes_back = lambda command, known: comes_back(command, known - {"keyed_write"})
"""


def with_patch(directory: Path, program: str) -> Mapping[str, str]:
    """The environment of processes that run `program` before anything else."""
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(program)
    path = os.pathsep.join(filter(None, (str(directory), os.environ.get("PYTHONPATH", ""))))
    return {"PYTHONPATH": path}


async def one(url: str, basin: str, body: bytes = b"x", **options: Any) -> Any:
    """One append, with whatever answer."""
    api = ApiClient(url)
    try:
        return await api.append(basin, STREAM, [AppendRecord(body)], **options)
    finally:
        api.close()


async def metrics(cluster: OwnCluster, node: int) -> dict[str, float]:
    """Samples by name and labels."""
    return await samples(int(cluster.node(node)["admin_port"]))


def log_lines(cluster: OwnCluster, event: str) -> list[str]:
    """What all processes have logged under this name."""
    return [
        line
        for path in cluster.directory.glob("*.log")
        for line in whole_lines(path)
        if f" error   {event} " in line
    ]


async def stopped_on(cluster: OwnCluster, state: str) -> list[int]:
    """The nodes whose metrics count one group in that state."""
    name = f'svc_raft_groups{{state="{state}"}}'
    return [node for node in (1, 2, 3) if (await metrics(cluster, node))[name] == 1.0]


async def told_on(cluster: OwnCluster, state: str, event: str) -> tuple[list[int], list[str]]:
    """The nodes on which one group is in that state, a quorum at least, and the lines about it,
    once there is one for each: the last node may get there while the others are asked."""
    end = SystemClock().monotonic() + READY_S
    while True:
        nodes, lines = await stopped_on(cluster, state), log_lines(cluster, event)
        if len(nodes) >= 2 and len(lines) == len(nodes):
            return nodes, lines
        assert SystemClock().monotonic() < end, (nodes, lines)
        await asyncio.sleep(0.1)


def test_a_bug_in_one_basin_leaves_processes_and_neighbours_alone(tmp_path: Path) -> None:
    """The append that brings the bug about is unknown, later ones are 503 without effect; no
    process ends, the neighbour's load sees no error; page, metric and log name what is stopped; a
    node that is killed comes back with it stopped. Without the bug the record is there."""
    directory = tmp_path / "cluster"

    async def broken() -> None:
        environment = with_patch(tmp_path / "patch", PLANTED)
        async with running(directory, environment=environment) as cluster:
            for basin in (HEALTHY, BROKEN):
                await set_up(cluster.url, basin, [STREAM])
            assert (await one(cluster.url, BROKEN)).status == 200
            load = Load(cluster.url, HEALTHY, writers=1)
            load.start()
            await load.acknowledged(5)
            pids = node_pids(cluster)
            first = await one(cluster.url, BROKEN, MARK)
            assert first.status in (408, 503), first
            second = await one(cluster.url, BROKEN)
            assert second.status == 503, second
            assert json.loads(second.body)["code"] == "unavailable"
            assert second.headers["svc-side-effects"] == "none"
            await load.acknowledged(20)
            assert node_pids(cluster) == pids, "no process ended"
            stopped, lines = await told_on(cluster, "stopped", "group_stopped")
            for node in stopped:
                port = int(cluster.node(node)["admin_port"])
                status, text = await page(port, "/readyz?verbose")
                assert status == 200
                assert "[!]group" in text
                assert "stopped" in text
            assert all(f"basin={BROKEN!r}" in line for line in lines)
            await load.stop()
            assert load.errors() == {}
            assert load.ambiguous == 0
            cluster.kill_node(stopped[0])
            async with asyncio.timeout(60):
                while node_pids(cluster).get(stopped[0], pids[stopped[0]]) == pids[stopped[0]]:
                    await asyncio.sleep(0.1)
            await cluster.wait_ready(60)
            assert (await one(cluster.url, HEALTHY)).status == 200
            assert (await one(cluster.url, BROKEN)).status == 503

    async def mended() -> None:
        async with running(directory) as cluster:
            assert (await one(cluster.url, BROKEN)).status == 200
            api = ApiClient(cluster.url)
            try:
                answer = await api.read(BROKEN, STREAM, "seq_num=0&count=100")
            finally:
                api.close()
            assert base64.b64encode(MARK) in answer.body
            for node in (1, 2, 3):
                found = await metrics(cluster, node)
                assert found['svc_raft_groups{state="stopped"}'] == 0.0
                assert found["svc_wal_held_bytes"] == 0.0

    asyncio.run(broken())
    asyncio.run(mended())


def test_nodes_of_an_older_release_park_and_go_on_after_the_upgrade(
    tmp_path: Path,
) -> None:
    """All three are of the older release and one client's repeatable append reaches their log: all
    park, which page, metric and log say, and requests are refused without effect. All processes
    live. Of the newer release they apply it, and its repetition gets the first one's answer."""
    directory = tmp_path / "cluster"

    async def older() -> None:
        environment = with_patch(tmp_path / "patch", OLDER)
        async with running(directory, environment=environment) as cluster:
            for basin in (HEALTHY, BROKEN):
                await set_up(cluster.url, basin, [STREAM])
            pids = node_pids(cluster)
            first = await one(cluster.url, BROKEN, request_token="token-1")
            assert first.status in (408, 503), first
            second = await one(cluster.url, BROKEN)
            assert second.status == 503, second
            assert second.headers["svc-side-effects"] == "none"
            assert (await one(cluster.url, HEALTHY)).status == 200
            parked, lines = await told_on(cluster, "parked", "replica_parked")
            status, text = await page(int(cluster.node(parked[0])["admin_port"]), "/readyz?verbose")
            assert status == 200
            assert "parked" in text
            assert all("keyed_write" in line for line in lines)
            assert node_pids(cluster) == pids

    async def newer() -> None:
        async with running(directory) as cluster:
            assert (await one(cluster.url, BROKEN, b"y")).status == 200
            assert (await one(cluster.url, BROKEN, request_token="token-1")).status == 200
            assert await stopped_on(cluster, "parked") == []
            api = ApiClient(cluster.url)
            try:
                answer = await api.read(BROKEN, STREAM, "seq_num=0&count=100")
            finally:
                api.close()
            assert len(json.loads(answer.body)["records"]) == 2

    asyncio.run(older())
    asyncio.run(newer())
