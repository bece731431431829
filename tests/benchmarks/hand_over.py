"""How long a node takes to give its leads away: `python -m tests.benchmarks.hand_over`.

Three nodes and a gateway of its own with GROUPS basins, all led by node 1, and WRITERS clients that
append to some of them all the time. Node 1 is then told to give its leads away; prints a JSON
object with the number of groups that it led, how many it still led at the end, the seconds in
between as the node tells them, and what became of the appends meanwhile; with them the machine's
load average before, the processors that the cluster wants without a hand-over, and the processor
time that it took meanwhile, of all its processes. Ends with status 1 when leads were left over,
when it took longer than SECONDS, or when an append failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import aiohttp

from svc_cluster.base.clock import SystemClock
from svc_cluster.lab.own_cluster import OwnCluster
from svc_cluster.lab.proc_stat import cpu_seconds
from tests.log_lines import whole_lines

CREATED_AT_ONCE: Final = 8
CONCENTRATE_S: Final = 300.0
READY_S: Final = 180.0
LEAVING: Final = 1
EVENT: Final = "leaderships_handed_over"


def basin(number: int) -> str:
    return f"hand-over-{number:05}"


async def create(session: aiohttp.ClientSession, count: int) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            while True:
                async with session.post("/v1/basins", json={"basin": basin(number)}) as answer:
                    if answer.status in (201, 409):
                        break
                await asyncio.sleep(0.2)

    await asyncio.gather(*(worker() for _ in range(CREATED_AT_ONCE)))


async def led(cluster: OwnCluster) -> dict[int, int]:
    """How many groups each node leads."""
    groups = await cluster.groups()
    return {node: sum(row["role"] == "leader" for row in rows) for node, rows in groups.items()}


async def concentrate(cluster: OwnCluster) -> int:
    """The others give theirs away until node 1 leads everything; how much that is."""
    clock = SystemClock()
    end = clock.monotonic() + CONCENTRATE_S
    now: dict[int, int] = {}
    while clock.monotonic() < end:
        now = await led(cluster)
        others = [node for node, count in now.items() if node != LEAVING and count]
        if not others:
            return now[LEAVING]
        before = {node: len(said(cluster, node)) for node in others}
        for node in others:
            cluster.kill_node(node, signal.SIGUSR1)
        while (
            any(len(said(cluster, node)) == before[node] for node in others)
            and clock.monotonic() < end
        ):
            await asyncio.sleep(0.1)
    raise AssertionError(f"still led: {now}")


def said(cluster: OwnCluster, node: int = LEAVING) -> list[dict[str, float]]:
    """The numbers that a node has told of its hand-overs."""
    lines = whole_lines(cluster.directory / f"node-{node}.log")
    return [
        {name: float(value) for name, value in re.findall(r"(\w+)=([0-9.]+)", line)}
        for line in lines
        if EVENT in line
    ]


def used_s(cluster: OwnCluster) -> float:
    """Processor time of the gateway and the nodes so far."""
    return sum(cpu_seconds(pid) for pid in cluster.pids())


class Writers:
    """Clients that append one after the other, each to a basin of its own."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self.stopping = False
        self.statuses: dict[int, int] = {}
        self.longest_s = 0.0
        self.failures: list[str] = []

    async def write(self, number: int) -> None:
        clock, headers = SystemClock(), {"svc-basin": basin(number)}
        status = 0
        while status not in (200, 201):
            async with self._session.put("/v1/streams/s", json={}, headers=headers) as answer:
                status = answer.status
        body = {"records": [{"body": "eA=="}]}
        while not self.stopping:
            begun = clock.monotonic()
            path = "/v1/streams/s/records"
            async with self._session.post(path, json=body, headers=headers) as answer:
                text = await answer.text()
            if answer.status != 200:
                self.failures.append(text)
            self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
            self.longest_s = max(self.longest_s, clock.monotonic() - begun)
            await asyncio.sleep(0.05)


async def measure(cluster: OwnCluster, groups: int, clients: int) -> dict[str, Any]:
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(cluster.url, timeout=timeout) as session:
        await create(session, groups)
        count = await concentrate(cluster)
        writers = Writers(session)
        writing = [asyncio.ensure_future(writers.write(number)) for number in range(clients)]
        load, clock = os.getloadavg()[0], SystemClock()
        began, used = clock.monotonic(), used_s(cluster)
        await asyncio.sleep(2.0)
        wanted = (used_s(cluster) - used) / (clock.monotonic() - began)
        before, used = len(said(cluster)), used_s(cluster)
        cluster.kill_node(LEAVING, signal.SIGUSR1)
        while len(said(cluster)) == before:
            await asyncio.sleep(0.1)
        used = used_s(cluster) - used
        row = said(cluster)[-1]
        await asyncio.sleep(2.0)
        writers.stopping = True
        await asyncio.gather(*writing)
    return {
        "led": count,
        "left": round(row["left"]),
        "seconds": row["seconds"],
        "load": round(load, 1),
        "processors_without": round(wanted, 2),
        "processor_seconds": round(used, 2),
        "appends": writers.statuses,
        "failures": sorted(set(writers.failures))[:3],
        "longest_append_s": round(writers.longest_s, 3),
    }


async def main(options: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory() as directory:
        unbounded = {"SVC_CLUSTER_BASINS_MAX": "null"}
        cluster = OwnCluster(Path(directory) / "cluster", environment=unbounded)
        cluster.start()
        try:
            await cluster.wait_ready(READY_S)
            row = await measure(cluster, options.groups, options.writers)
        finally:
            cluster.stop()
    print(json.dumps(row), flush=True)
    return row["left"] == 0 and row["seconds"] <= options.seconds and set(row["appends"]) == {200}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--writers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2.0)
    sys.exit(0 if asyncio.run(main(parser.parse_args())) else 1)
