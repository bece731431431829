"""What appends wait beside a snapshot: `python -m tests.benchmarks.beside_snapshot`.

Three nodes and a gateway of its own, and one basin that holds MIB of records. Appends of 100 bytes
come RATE a second whatever the answers do; their latency counts from when each was due. In each of
ROUNDS a node that does not lead the basin is killed and its data directory removed. It is started
again with an empty one, takes its place by itself, and is sent the whole state by the basin's
leader. Appends are measured for SECONDS with three whole nodes, and then from when the new process
listens until it is ready. Prints one JSON object a round, and the ratio of the 99th percentiles;
ends with status 1 where their median is above RATIO_MAX, or an append failed. `--write` puts it
into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import os
import secrets
import shutil
import signal
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp

from svc_cluster.base.clock import SystemClock
from svc_cluster.lab.own_cluster import OwnCluster
from tests.benchmarks.marked_page import write_between
from tests.e2e.cluster import running, whole
from tests.integration.processes import wait_page
from tests.service_process import service

BASIN: Final = "beside-snapshot"
STREAM: Final = "/v1/streams/s/records"
FILLED_AT_ONCE: Final = 4
FILL_RECORDS: Final = 64
FILL_BYTES: Final = 8 * 1024
RATIO_MAX: Final = 2.0
COMMAND_S: Final = 60.0
CLOCK: Final = SystemClock()


async def insist(session: aiohttp.ClientSession, method: str, path: str, body: Any) -> None:
    """Until the request is answered as wanted."""
    deadline = CLOCK.monotonic() + COMMAND_S
    while True:
        async with session.request(method, path, json=body) as answer:
            if answer.status in (200, 201, 409):
                return
            text = await answer.text()
        assert CLOCK.monotonic() < deadline, text
        await asyncio.sleep(0.2)


async def fill(session: aiohttp.ClientSession, mib: int) -> None:
    """So much into the stream, which nothing can compress."""
    left = iter(range(mib * 1024 * 1024 // (FILL_RECORDS * FILL_BYTES)))

    async def worker() -> None:
        for _ in left:
            bodies = [
                base64.b64encode(secrets.token_bytes(FILL_BYTES)) for _ in range(FILL_RECORDS)
            ]
            records = [{"body": body.decode()} for body in bodies]
            await insist(session, "POST", STREAM, {"records": records})

    await asyncio.gather(*(worker() for _ in range(FILLED_AT_ONCE)))


async def finalize(cluster: OwnCluster) -> None:
    """The cluster's version is this one's: a place may be taken."""
    command = [sys.executable, "-m", "svc_cluster", "admin", "upgrade", "finalize", "--yes"]
    command += ["--data-dir", str(cluster.directory), "--node", "1"]
    deadline = CLOCK.monotonic() + COMMAND_S
    while True:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        said, _ = await process.communicate()
        if process.returncode == 0:
            return
        assert CLOCK.monotonic() < deadline, said.decode()
        await asyncio.sleep(0.5)


class Appends:
    """An open loop: one append each so often, until it is stopped."""

    def __init__(self, session: aiohttp.ClientSession, rate: float) -> None:
        self._session = session
        self._gap_s = 1 / rate
        self._ended = asyncio.Event()
        self._waiting: set[asyncio.Task[None]] = set()
        self.took_ms: list[float] = []
        self.failed: list[str] = []

    async def run(self) -> None:
        due = CLOCK.monotonic()
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), max(0.0, due - CLOCK.monotonic()))
                return
            task = asyncio.create_task(self._one(due))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
            due += self._gap_s

    async def _one(self, due: float) -> None:
        body = {"records": [{"body": base64.b64encode(secrets.token_bytes(100)).decode()}]}
        try:
            async with self._session.post(STREAM, json=body) as answer:
                if answer.status != 200:
                    self.failed.append(await answer.text())
        except (OSError, aiohttp.ClientError) as fault:
            self.failed.append(repr(fault))
        self.took_ms.append(1000 * (CLOCK.monotonic() - due))

    async def stop(self) -> dict[str, float]:
        """What they took, all that are under way included."""
        self._ended.set()
        await asyncio.gather(*self._waiting)
        found = sorted(self.took_ms)
        return {
            "appends": len(found),
            "failed": len(self.failed),
            "p50_ms": round(found[len(found) // 2], 1),
            "p99_ms": round(found[len(found) * 99 // 100], 1),
            "max_ms": round(found[-1], 1),
        }


async def measured(
    session: aiohttp.ClientSession, rate: float, until: Awaitable[Any]
) -> dict[str, float]:
    appends, began = Appends(session, rate), CLOCK.monotonic()
    loop = asyncio.create_task(appends.run())
    try:
        await until
    except BaseException:
        loop.cancel()
        raise
    seconds = CLOCK.monotonic() - began
    found = await appends.stop()
    await loop
    return {"seconds": round(seconds, 1), **found}


async def one_round(
    cluster: OwnCluster, session: aiohttp.ClientSession, options: argparse.Namespace
) -> dict[str, Any]:
    """The node that is replaced goes on as a process of its own until the round is over."""
    before = await measured(session, options.rate, asyncio.sleep(options.seconds))
    leader = await cluster.wait_leader(BASIN)
    lost = max(node for node in (1, 2, 3) if node != leader)
    row = cluster.node(lost)
    port = int(row["admin_port"])
    cluster.kill_node(lost, signal.SIGKILL)
    shutil.rmtree(row["data_dir"])
    with service(
        "node", cluster.directory / f"node-{lost}.yaml", cluster.directory / f"replaced-{lost}.log"
    ):
        await wait_page(port, "/livez", 200)
        beside = await measured(session, options.rate, wait_page(port, "/readyz", 200))
        await whole(cluster, BASIN, 3)
    return {"lost": lost, "before": before, "beside": beside}


async def main(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Each round on a cluster of its own: a node that was replaced is no child of it any more."""
    rounds = []
    environment = {"SVC_CLUSTER_REPLACE_LOST_NODES": "true"}
    headers = {"svc-basin": BASIN}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as place:
            directory = Path(place) / "cluster"
            async with (
                running(directory, options=["--no-restart"], environment=environment) as cluster,
                aiohttp.ClientSession(cluster.url, headers=headers) as session,
            ):
                await insist(session, "POST", "/v1/basins", {"basin": BASIN})
                await insist(session, "PUT", "/v1/streams/s", {})
                await whole(cluster, BASIN, 3)
                await finalize(cluster)
                await fill(session, options.mib)
                await asyncio.sleep(options.settle)
                row = await one_round(cluster, session, options)
        row["ratio"] = round(row["beside"]["p99_ms"] / row["before"]["p99_ms"], 2)
        print(json.dumps(row), flush=True)
        rounds.append(row)
    return rounds


def write(rounds: Sequence[dict[str, Any]], options: argparse.Namespace) -> None:
    """Put the rounds into the page."""
    lines = [
        f"On {datetime.now(UTC).date()}, {options.mib} MiB, {options.rate:g} appends a second, "
        f"load average {os.getloadavg()[0]:.1f}:",
        "",
        "| p99 before, ms | beside it | ratio | longest before, ms | beside it | it took, s |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row['before']['p99_ms']} | {row['beside']['p99_ms']} | {row['ratio']} "
            f"| {row['before']['max_ms']} | {row['beside']['max_ms']} "
            f"| {row['beside']['seconds']} |"
            for row in rounds
        ),
    ]
    write_between("beside a snapshot", lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--settle", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    found = asyncio.run(main(chosen))
    ratio = statistics.median(row["ratio"] for row in found)
    print(f"median ratio {ratio}, at most {RATIO_MAX}", flush=True)
    if chosen.write:
        write(found, chosen)
    sys.exit(int(ratio > RATIO_MAX or any(row["beside"]["failed"] for row in found)))
