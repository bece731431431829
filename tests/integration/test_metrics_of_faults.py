"""What only faults move, seen on the pages of real processes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable
from pathlib import Path
from typing import Final

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.admin.admin_client import connected, local_target
from svc_cluster.lab.api_client import ApiClient, AppendRecord
from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.cluster import running
from tests.e2e.load import set_up
from tests.integration.processes import in_loop, samples
from tests.integration.test_reload import Pair, in_pair
from tests.integration.test_stopped_groups import with_patch
from tests.service_process import ServiceProcess

BASIN, STREAM = "faulty-basin", "s"
WITHIN_S: Final = 60.0

MUMBLES: Final = """
import itertools, sys
if "node-3.yaml" in " ".join(sys.orig_argv):
    import svc_cluster.replica.peer_conversation as peers
    encode, number = peers.encode_message, itertools.count(1)
    peers.encode_message = lambda *said: b"\\xff" if next(number) % 20 == 0 else encode(*said)
"""
"""Every twentieth thing that node 3 says to its peers is no message."""


async def moved(cluster: OwnCluster, node: int, *names: str) -> None:
    """Until each of these was other than 0 on the node's page. Raises AssertionError."""
    left = set(names)
    end = SystemClock().monotonic() + WITHIN_S
    while left:
        found = await samples(int(cluster.node(node)["admin_port"]))
        left -= {name for name in left if found.get(name)}
        assert not left or SystemClock().monotonic() < end, sorted(left)
        await asyncio.sleep(0.02)


@in_loop
async def test_what_is_said_and_lost_between_nodes_is_counted(tmp_path: Path) -> None:
    """A peer that mumbles; a lead that is handed over by a call of administration; a leader that is
    alone with an append and a read, and leads no more."""
    environment = with_patch(tmp_path / "patch", MUMBLES)
    async with running(tmp_path / "cluster", environment=environment) as cluster:
        await set_up(cluster.url, BASIN, [STREAM])
        leader = await cluster.wait_leader(BASIN)
        await moved(cluster, 1, 'svc_raft_peer_unreadable_total{peer="3"}')
        async with connected(local_target(cluster.directory, leader)) as client:
            done = await client.transfer_leader(
                pb.TransferLeaderRequest(basin=BASIN, to=1 + leader % 3)
            )
        await moved(cluster, leader, 'svc_raft_hand_overs_total{result="done"}')
        await moved(
            cluster, leader, 'svc_admin_calls_total{operation="TransferLeader",outcome="ok"}'
        )
        await _alone(cluster, done.leader)


async def _alone(cluster: OwnCluster, leader: int) -> None:
    others = {1, 2, 3} - {leader}
    api, reading = ApiClient(cluster.url), ApiClient(cluster.url)

    async def quietly(call: Awaitable[object]) -> None:
        with contextlib.suppress(Exception):
            await call

    await api.insist(  # the gateway knows by it who leads
        SystemClock(),
        lambda: api.append(BASIN, STREAM, [AppendRecord(b"before")]),
        accept=frozenset({200}),
        deadline_s=WITHIN_S,
    )
    for node in others:
        cluster.kill_node(node, signal.SIGSTOP)
    asked = [
        asyncio.create_task(quietly(api.append(BASIN, STREAM, [AppendRecord(b"alone")]))),
        asyncio.create_task(quietly(reading.read(BASIN, STREAM, "seq_num=0"))),
    ]
    await moved(
        cluster, leader, "svc_raft_read_index_failures_total", "svc_raft_groups_without_leader"
    )
    for node in others:
        cluster.kill_node(node, signal.SIGCONT)
    await asyncio.gather(*asked)
    api.close()
    reading.close()


@in_loop
async def test_a_line_of_the_audit_log_that_is_not_written_is_counted(tmp_path: Path) -> None:
    """By a node whose audit log is on a device without space, where it reads its settings again."""

    async def body(pair: Pair, node: ServiceProcess, gateway: ServiceProcess) -> None:
        name = "svc_audit_failures_total"
        assert (await samples(pair.admin))[name] == 0.0
        pair.node["basins_max"] = 7
        await pair.reload(node, "node", "settings_reloaded")
        assert (await samples(pair.admin))[name] >= 1.0
        assert pair.lines("node", "settings_reloaded"), "and the settings count all the same"

    await in_pair(body, tmp_path, audit_log="/dev/full")
