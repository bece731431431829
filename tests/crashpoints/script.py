"""What the node is made to do while it is killed, and how its successor is questioned.

Runs inside forked children of `worker`, under the ledger shim. Every acknowledgement is written to
a file outside the node's directory before the next request is made, so that it outlives SIGKILL.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import NodeId
from svc_cluster.cli.local.embedded import LoopbackLink
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.cli.processes import node_process
from svc_cluster.cli.processes.gateway_process import start_gateway
from svc_cluster.cli.processes.node_config import node_config
from svc_cluster.cli.processes.node_process import RunningNode
from svc_cluster.lab.api_client import ApiClient, AppendRecord, decode_batch
from svc_cluster.link.session import NodeSession
from svc_cluster.replica.node_parts import NodeConfig
from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_errors import SettingsError
from svc_cluster.storage.payload.payload_settings import PayloadSettings

BASIN: Final = "crash-basin"
STREAMS: Final = ("a", "b")
CLUSTER_ID: Final = "c0" * 16
CLOCK: Final = SystemClock()
SETTLE_S: Final = 20.0
EXIT_AGAIN: Final = 4
"""The life ended for a reason outside of it and is to be lived again."""
_LARGE_BYTES: Final = 120_000
_PACE_S: Final = 0.006
"""Between two operations, so that flushes and purges, which go by time, fall among them."""


class LostError(Exception):
    """Something acknowledged is not there, or something is there that may not be."""


class Acks:
    """The outcome of every append, in a file that SIGKILL cannot take back. It may tear the last
    line of a life: that is cut off, as nothing was built on it yet."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, kind: str, stream: str, start: int, bodies: list[str]) -> None:
        line = json.dumps([kind, stream, start, bodies]) + "\n"
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        whole = os.fstat(handle).st_size
        if whole and os.pread(handle, 1, whole - 1) != b"\n":
            whole = os.pread(handle, whole, 0).rfind(b"\n") + 1
            os.ftruncate(handle, whole)
        os.pwrite(handle, line.encode(), whole)
        os.close(handle)

    def rows(self) -> list[tuple[str, str, int, list[str]]]:
        if not self._path.exists():
            return []
        lines = self._path.read_text().split("\n")
        # What follows the last line end is a line that SIGKILL tore: nothing had been built on it.
        return [tuple(json.loads(line)) for line in lines[:-1]]


def keep_payload_apart() -> None:
    """From now on the nodes of this process write small payload files, which get holes as soon as
    something in them is not needed."""
    payload = PayloadSettings(
        writes=True, file_bytes=1024 * 1024, dead_share_max=0.0, dead_files_max=0
    )

    def with_files(settings: NodeSettings) -> NodeConfig:
        config = node_config(settings)
        return replace(config, wal=replace(config.wal, payload=payload))

    node_process.node_config = with_files  # type: ignore[attr-defined]


def settings_of(root: Path, node: int, count: int, rpc: list[int], admin: int) -> NodeSettings:
    return NodeSettings(
        cluster_id=CLUSTER_ID,
        node_id=node,
        data_dir=str(root / f"node-{node}"),
        nodes={str(place + 1): f"127.0.0.1:{port}" for place, port in enumerate(rpc)},
        secret_file=str(root / "secret"),
        admin_address=f"127.0.0.1:{admin}",
        replication_factor=count,
        wal_segment_mib=2,
        wal_retain_mib=2,
        log_retention_mib=1,
        log_retention_seconds=0.2,
        flush_seconds=0.3,
        disk_reserve_mib=1,
    )


class Cluster:
    """Nodes and a gateway in this process; the nodes talk by sockets, the gateway by memory."""

    def __init__(self, root: Path, count: int) -> None:
        self.root = root
        self.nodes: dict[int, RunningNode] = {}
        self._count = count
        self._gateway: Any = None
        self.api: ApiClient

    async def start(self, wanted: list[int]) -> None:
        self._held = HeldPorts(2 * self._count + 1)
        ports = self._held.numbers
        (self.root / "secret").write_text("s" * 64)
        sessions: dict[NodeId, NodeSession] = {}
        rpc, admin = ports[: self._count], ports[self._count :]
        for node in wanted:
            settings = settings_of(self.root, node, self._count, rpc, admin[node - 1])
            running = RunningNode(settings)
            await running.start()
            self.nodes[node] = running
            session = NodeSession(asyncio.get_running_loop())
            LoopbackLink(running.node, session)
            sessions[NodeId(node)] = session
        gateway = GatewaySettings(
            cluster_id=CLUSTER_ID,
            nodes={str(node): f"127.0.0.1:{rpc[node - 1]}" for node in wanted},
            secret_file=str(self.root / "secret"),
            port=ports[-1],
        )
        self._gateway = await start_gateway(gateway, sessions)
        self.api = ApiClient(f"http://127.0.0.1:{ports[-1]}")

    async def stop(self) -> None:
        self.api.close()
        await self._gateway.close()
        for running in self.nodes.values():
            await running.close()

    def rows(self) -> dict[int, list[tuple[int, str, int]]]:
        """Applied index, digest and log base of each replica, by group."""
        found: dict[int, list[tuple[int, str, int]]] = {}
        for running in self.nodes.values():
            for row in running.node.host.probe():
                found.setdefault(row["group_id"], []).append(
                    (row["applied_index"], row["digest"], row["base_index"])
                )
        return found

    async def equal(self, replicas: int) -> None:
        """Until all replicas show the same state. Raises LostError."""
        try:
            async with asyncio.timeout(SETTLE_S):
                while True:
                    rows = self.rows()
                    if len(rows) > 1 and all(
                        len(seen) == replicas and len({row[:2] for row in seen}) == 1
                        for seen in rows.values()
                    ):
                        return
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise LostError(f"the replicas stay different: {self.rows()}") from None


@asynccontextmanager
async def cluster_of(root: Path, count: int, wanted: list[int]) -> AsyncIterator[Cluster]:
    cluster = Cluster(root, count)
    try:
        await cluster.start(wanted)
    except SettingsError as refusal:
        if "cannot be listened on" in str(refusal):
            os._exit(EXIT_AGAIN)  # somebody else took the port that was free: not the node's fault
        raise
    yield cluster
    await cluster.stop()


async def append(cluster: Cluster, acks: Acks, stream: str, start: int, bodies: list[str]) -> int:
    """Exactly once, whatever happens between; returns the next sequence number."""
    acks.add("tried", stream, start, bodies)
    records = [AppendRecord(body.encode()) for body in bodies]
    answer = await cluster.api.insist(
        CLOCK,
        lambda: cluster.api.append(BASIN, stream, records, match_seq_num=start),
        accept=frozenset({200, 412}),
        deadline_s=SETTLE_S,
    )
    end = start + len(bodies)
    if answer.status == 412 and answer.json().get("seq_num_mismatch") != end:
        raise LostError(f"{stream}: the tail is {answer.json()}, expected {start} or {end}")
    acks.add("acked", stream, start, bodies)
    return end


async def append_keyed(
    cluster: Cluster, acks: Acks, stream: str, start: int, bodies: list[str]
) -> int:
    """As `append`, with nothing but a request token to keep it from being there twice."""
    acks.add("keyed", stream, start, bodies)
    records = [AppendRecord(body.encode()) for body in bodies]
    token = hashlib.md5(bodies[0].encode()).hexdigest()
    answer = await cluster.api.insist(
        CLOCK,
        lambda: cluster.api.append(BASIN, stream, records, request_token=token),
        accept=frozenset({200}),
        deadline_s=SETTLE_S,
    )
    if answer.json()["start"]["seq_num"] != start:
        raise LostError(f"{stream}: {answer.json()}, expected to be at {start}")
    acks.add("acked", stream, start, bodies)
    return start + len(bodies)


async def set_up(cluster: Cluster) -> None:
    await cluster.api.make(CLOCK, BASIN, None, SETTLE_S)
    for stream in STREAMS:
        await cluster.api.make(CLOCK, BASIN, stream, SETTLE_S)


async def work(cluster: Cluster, acks: Acks, operations: int, seed: int, prefix: str) -> None:
    """The scripted run: small appends, large ones that use up segments, reads in between."""
    rng = random.Random(seed)
    tails = {stream: len(known(acks, stream)) for stream in STREAMS}
    for number in range(operations):
        stream = rng.choice(STREAMS)
        if number % 10 == 9:
            await cluster.api.read(BASIN, stream, "seq_num=0&count=5")
            continue
        bodies = [f"{prefix}.{number}.{place}." for place in range(rng.randint(1, 4))]
        if number % 4 == 0:
            bodies[0] += "x" * _LARGE_BYTES
        one = append_keyed if number % 2 else append
        tails[stream] = await one(cluster, acks, stream, tails[stream], bodies)
        await asyncio.sleep(_PACE_S)


def known(acks: Acks, stream: str) -> list[str]:
    """The acknowledged bodies of a stream, in order."""
    found: list[str] = []
    for kind, name, start, bodies in acks.rows():
        if kind == "acked" and name == stream:
            del found[start:]
            found += bodies
    return found


async def verify(cluster: Cluster, acks: Acks) -> None:
    """Everything acknowledged is there, in its place, once; what was under way is there whole or
    not at all; the last write with a request token can be sent again; and it goes on. Raises
    LostError."""
    if not any(kind == "acked" for kind, *_ in acks.rows()):
        await set_up(cluster)
    for stream in STREAMS:
        await cluster.api.make(CLOCK, BASIN, stream, SETTLE_S)
        await repeat(cluster, acks, stream)
        expected = known(acks, stream)
        pending = [row for row in acks.rows() if row[1] == stream][-1:]
        found = await read_all(cluster, stream)
        tail = found[len(expected) :]
        if found[: len(expected)] != expected:
            at = next(
                (n for n, body in enumerate(expected) if n >= len(found) or found[n] != body), 0
            )
            raise LostError(f"{stream}: {len(found)} records, acknowledged {at} is not there")
        if tail and (not pending or pending[0][0] != "tried" or tail != pending[0][3]):
            raise LostError(f"{stream}: {len(tail)} records behind the end that nobody sent whole")
        if tail:
            acks.add("acked", stream, len(expected), tail)
        await append(cluster, acks, stream, len(found), [f"after.{len(found)}"])


async def repeat(cluster: Cluster, acks: Acks, stream: str) -> None:
    """Send the last write with a request token again if nothing came behind it: whether it was
    answered or not, it has its place, and only that."""
    rows = [row for row in acks.rows() if row[1] == stream]
    last = rows[-1:] if rows and rows[-1][0] == "keyed" else rows[-2:]
    if last and last[0][0] == "keyed":
        _, _, start, bodies = last[0]
        await append_keyed(cluster, acks, stream, start, bodies)


async def read_all(cluster: Cluster, stream: str) -> list[str]:
    found: list[str] = []
    while True:
        query = f"seq_num={len(found)}&count=1000"
        answer = await cluster.api.insist(
            CLOCK,
            lambda query=query: cluster.api.read(BASIN, stream, query),
            accept=frozenset({200, 416}),
            deadline_s=SETTLE_S,
        )
        records = decode_batch(answer.body) if answer.status == 200 else []
        if not records:
            return found
        for record in records:
            if record.seq_num != len(found):
                raise LostError(f"{stream}: a gap at {len(found)}")
            found.append(record.body.decode())


# Scenarios: what is done before (without orders), under orders, and by the successor


async def single_run(root: Path, acks: Acks) -> None:
    """One node from nothing: identity, log, basin, 200 operations with flushes and recycling."""
    async with cluster_of(root, 1, [1]) as cluster:
        await set_up(cluster)
        await work(cluster, acks, 200, 1, "single")


async def single_verify(root: Path, acks: Acks) -> None:
    async with cluster_of(root, 1, [1]) as cluster:
        await verify(cluster, acks)


async def payload_run(root: Path, acks: Acks) -> None:
    """As `single_run`, with large entries in payload files, a restart over them, and holes."""
    keep_payload_apart()
    async with cluster_of(root, 1, [1]) as cluster:
        await set_up(cluster)
        await work(cluster, acks, 120, 1, "apart")
    async with cluster_of(root, 1, [1]) as cluster:
        await work(cluster, acks, 80, 6, "again")
        async with asyncio.timeout(SETTLE_S):
            while not cluster.nodes[1].node.store.holes.hole_bytes:
                await asyncio.sleep(0.05)


async def payload_verify(root: Path, acks: Acks) -> None:
    keep_payload_apart()
    await single_verify(root, acks)


async def restart_run(root: Path, acks: Acks) -> None:
    """One node over what an earlier life left: recovery, then a few operations."""
    async with cluster_of(root, 1, [1]) as cluster:
        await work(cluster, acks, 20, 2, "again")


async def snapshot_prepare(root: Path, acks: Acks) -> None:
    """Three nodes; the third is away until the others' logs no longer reach back to it."""
    cluster = Cluster(root, 3)
    await cluster.start([1, 2, 3])
    await set_up(cluster)
    await work(cluster, acks, 10, 3, "before")
    await cluster.equal(3)
    away = cluster.nodes.pop(3)
    await away.close()
    reached = {group: rows[0][0] for group, rows in cluster.rows().items()}
    await work(cluster, acks, 60, 4, "meanwhile")
    async with asyncio.timeout(SETTLE_S):
        while not any(
            all(base > reached[group] for _, _, base in rows)
            for group, rows in cluster.rows().items()
        ):
            await asyncio.sleep(0.05)
    await cluster.equal(2)
    await cluster.stop()


async def snapshot_run(root: Path, acks: Acks) -> None:
    """The third node comes back and installs a snapshot."""
    async with cluster_of(root, 3, [1, 2, 3]) as cluster:
        await cluster.equal(3)
        if not cluster.nodes[3].node.host.installs.installed:
            raise LostError("no snapshot was installed: nothing was tested")
        await work(cluster, acks, 10, 5, "installed")


async def snapshot_verify(root: Path, acks: Acks) -> None:
    async with cluster_of(root, 3, [1, 2, 3]) as cluster:
        await verify(cluster, acks)
        await cluster.equal(3)
