"""What basins cost that nobody uses: `python -m tests.benchmarks.idle_basins --basins 300`.

Three nodes and a gateway of its own. First with FEW basins, then with BASINS, each of which has had
one append: when nothing has happened for CALM seconds, the processor time of each node over MEASURE
seconds, from /proc, and the resident memory. What is asked is what basins cost for ever: for a
minute or two behind their first appends nodes shorten a log for each. Both are measured in the same
run, because only their ratio says something on a machine that others use. Then one append to
each of WAKES basins, one after the other, which have rested until then. Then the node that leads
most of them dies (`--death kill`; `freeze`: it stays connected and says nothing), ASKED of those
that it led are asked for at once, and after that all basins; how long that took. With `--boot` all
are started again, until they say that they are ready, and then have a leader each: how long the
first took, and how many elections were won for a basin until the second. Prints one JSON object.

With `--targets` it is all of that with 1,000 basins, and behind the object stands a line for each
target of ADR 0054: what is wanted, what was found, and whether that is enough. `--write` puts them
into docs/benchmarks.md, with the load of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp

from svc_cluster.base.clock import SystemClock
from svc_cluster.lab.own_cluster import OwnCluster, leader_in
from svc_cluster.lab.proc_stat import cpu_seconds
from tests.benchmarks.marked_page import write_between
from tests.integration.processes import samples
from tests.own_processes import node_pids, resident_bytes

CREATED_AT_ONCE: Final = 4
ASKED_AT_ONCE: Final = 32
READY_S: Final = 180.0
ANSWER_S: Final = 60.0
TARGETS_CALM_S: Final = 120.0
CLOCK: Final = SystemClock()


def basin(number: int) -> str:
    return f"idle-basin-{number:05}"


class Basins:
    """The basins of one cluster, each with one stream."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self.count = 0

    async def grow(self, count: int) -> float:
        """Until there are so many; returns the seconds it took to make them."""
        numbers, began = iter(range(self.count, count)), CLOCK.monotonic()

        async def worker() -> None:
            for number in numbers:
                await self._until("POST", "/v1/basins", {"basin": basin(number)}, {}, (201, 409))

        await asyncio.gather(*(worker() for _ in range(CREATED_AT_ONCE)))
        took = CLOCK.monotonic() - began
        used = iter(range(self.count, count))

        async def use() -> None:
            for number in used:
                named = {"svc-basin": basin(number)}
                await self._until("PUT", "/v1/streams/s", {}, named, (200, 201))
                await self.append(number)

        await asyncio.gather(*(use() for _ in range(CREATED_AT_ONCE)))
        self.count = count
        return took

    async def append(self, number: int) -> float:
        """One record; returns the seconds until it was acknowledged, with attempts that failed."""
        began = CLOCK.monotonic()
        body = {"records": [{"body": "eA=="}]}
        named = {"svc-basin": basin(number)}
        await self._until("POST", "/v1/streams/s/records", body, named, (200,))
        return CLOCK.monotonic() - began

    async def all_answer(self, numbers: Sequence[int]) -> float:
        """One append to each of them, some at a time; returns the seconds until the last one."""
        began, left = CLOCK.monotonic(), iter(numbers)

        async def worker() -> None:
            for number in left:
                await self.append(number)

        await asyncio.gather(*(worker() for _ in range(ASKED_AT_ONCE)))
        return CLOCK.monotonic() - began

    async def _until(
        self, method: str, path: str, body: Any, headers: dict[str, str], statuses: tuple[int, ...]
    ) -> None:
        end = CLOCK.monotonic() + ANSWER_S
        while True:
            async with self._session.request(method, path, json=body, headers=headers) as answer:
                if answer.status in statuses:
                    return
                text = await answer.text()
            assert CLOCK.monotonic() < end, f"{method} {path}: {text}"
            await asyncio.sleep(0.02)


async def cost(cluster: OwnCluster, calm_s: float, measure_s: float) -> dict[str, Any]:
    """What the nodes take when nothing happens."""
    await asyncio.sleep(calm_s)
    pids = node_pids(cluster)
    before, began = {node: cpu_seconds(pid) for node, pid in pids.items()}, CLOCK.monotonic()
    await asyncio.sleep(measure_s)
    passed = CLOCK.monotonic() - began
    return {
        "percent_of_a_core": {
            node: round(100 * (cpu_seconds(pid) - before[node]) / passed, 2)
            for node, pid in pids.items()
        },
        "resident_mib": {node: resident_bytes(pid) >> 20 for node, pid in pids.items()},
    }


async def elections(cluster: OwnCluster, basins: int) -> float:
    """How many were won for a basin, since all nodes were started, until each has a leader."""
    while sum(row["role"] == "leader" for row in await all_groups(cluster)) <= basins:
        await asyncio.sleep(0.2)
    ports = [int(cluster.node(node)["admin_port"]) for node in (1, 2, 3)]
    won = [(await samples(port))['svc_raft_elections_total{result="won"}'] for port in ports]
    return round(sum(won) / basins, 2)


async def all_groups(cluster: OwnCluster) -> list[dict[str, Any]]:
    return [row for rows in (await cluster.groups()).values() for row in rows]


def mean(row: dict[str, Any]) -> float:
    return statistics.fmean(row["percent_of_a_core"].values())


async def measure(cluster: OwnCluster, options: argparse.Namespace) -> dict[str, Any]:
    timeout = aiohttp.ClientTimeout(total=ANSWER_S)
    async with aiohttp.ClientSession(cluster.url, timeout=timeout) as session:
        basins = Basins(session)
        await basins.grow(options.few)
        few = await cost(cluster, options.calm, options.measure)
        created_s = await basins.grow(options.basins)
        many = await cost(cluster, options.calm, options.measure)
        more = options.basins - options.few
        row = {
            "basins": options.basins,
            "load": round(os.getloadavg()[0], 1),
            "created": more,
            "created_s": round(created_s, 1),
            "catalog_leader": leader_in(await cluster.groups(), None),
            "few": few,
            "many": many,
            "ms_per_basin_and_second": round(10 * (mean(many) - mean(few)) / max(1, more), 3),
            "ratio": round(mean(many) / max(0.01, mean(few)), 1),
        }
        if options.wakes:
            count = min(options.wakes, options.basins)
            took = sorted([await basins.append(number) for number in range(count)])
            row["woken"] = count
            row["wake_p50_ms"] = round(1000 * took[count // 2], 1)
            row["wake_p99_ms"] = round(1000 * took[min(count - 1, count * 99 // 100)], 1)
            row["wake_max_ms"] = round(1000 * took[-1], 1)
        if options.death != "none":
            await asyncio.sleep(options.settle)
            row |= await death(cluster, basins, options)
    return row


async def death(
    cluster: OwnCluster, basins: Basins, options: argparse.Namespace
) -> dict[str, float]:
    """The node that leads most groups falls silent; how long its basins are away."""
    leads = Counter(
        node
        for node, rows in (await cluster.groups()).items()
        for one in rows
        if one["role"] == "leader"
    )
    dead, led = leads.most_common(1)[0]
    theirs = [
        int(one["basin"].rpartition("-")[2])
        for one in (await cluster.groups())[dead]
        if one["role"] == "leader" and one["basin"] is not None
    ]
    freezes = options.death == "freeze"
    pid = cluster.kill_node(dead, signal.SIGSTOP if freezes else signal.SIGKILL)
    try:
        asked = await basins.all_answer(theirs[: options.asked])
        rest = await basins.all_answer(range(basins.count))
    finally:
        if freezes:
            os.kill(pid, signal.SIGCONT)
    return {"led": led, "asked_s": round(asked, 2), "all_s": round(asked + rest, 2)}


async def main(options: argparse.Namespace) -> None:
    environment = {"SVC_CLUSTER_BASINS_MAX": "null"}
    environment |= dict(one.split("=", 1) for one in options.set)
    with tempfile.TemporaryDirectory() as directory:
        cluster = OwnCluster(
            Path(directory) / "cluster", environment=environment, options=["--no-restart"]
        )
        cluster.start()
        try:
            await cluster.wait_ready(READY_S)
            row = await measure(cluster, options)
            if options.boot:
                cluster.stop()
                began = CLOCK.monotonic()
                cluster.start()
                await cluster.wait_ready(READY_S)
                row["boot_s"] = round(CLOCK.monotonic() - began, 1)
                row["boot_elections_a_basin"] = await elections(cluster, options.basins)
        finally:
            cluster.stop()
    print(json.dumps(row), flush=True)
    if options.targets:
        found = targets(row)
        for one in found:
            print(one.line(), flush=True)
        if options.write:
            write(found, row["load"])


@dataclass(frozen=True, slots=True)
class Target:
    """One target, and what was found."""

    name: str
    found: float
    most: float
    unit: str

    def line(self) -> str:
        return f"{self.verdict:8}{self.name}: {self.found:g} {self.unit}, at most {self.most:g}"

    def row(self) -> str:
        wanted, found = (f"{one:g} {self.unit}" for one in (self.most, self.found))
        return f"| {self.name} | {wanted} | {found} | {self.verdict} |"

    @property
    def verdict(self) -> str:
        return "met" if self.found <= self.most else "not met"


def write(found: Sequence[Target], load: float) -> None:
    """Put the targets into the page."""
    lines = [
        f"On {datetime.now(UTC).date()}, load average {load} when the thousand were there:",
        "",
        "| | at most | found | |",
        "|---|---|---|---|",
        *(one.row() for one in found),
    ]
    write_between("idle basins", lines)


def targets(row: dict[str, Any]) -> list[Target]:
    """Those of ADR 0054, by what a run with all its parts has found."""
    few, leader = row["few"]["percent_of_a_core"], row["catalog_leader"]
    many, count = row["many"], row["basins"]
    followers = [share for node, share in few.items() if node != leader]
    return [
        Target("share of a core of a node, three idle basins", max(followers), 0.5, "%"),
        Target("of the catalog's leader", few[leader], 1.0, "%"),
        Target(
            f"of a node, {count:,} idle basins",
            max(many["percent_of_a_core"].values()),
            3.0,
            "%",
        ),
        Target(
            f"resident memory of a node, {count:,} idle basins",
            max(many["resident_mib"].values()),
            256,
            "MiB",
        ),
        Target(
            f"{row['created']} basins made by {CREATED_AT_ONCE} clients", row["created_s"], 20, "s"
        ),
        Target(
            f"first append to a basin at rest, p99 of {row['woken']:,}",
            row["wake_p99_ms"],
            50,
            "ms",
        ),
        Target("those that are asked for after a node's death", row["asked_s"], 2.5, "s"),
        Target(f"all {count:,} after a node's death", row["all_s"], 10, "s"),
        Target(f"boot with {count:,} basins", row["boot_s"], 10, "s"),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--basins", type=int, default=300)
    parser.add_argument("--few", type=int, default=3)
    parser.add_argument("--calm", type=float, default=15.0)
    parser.add_argument("--settle", type=float, default=15.0)
    parser.add_argument("--measure", type=float, default=20.0)
    parser.add_argument("--wakes", type=int, default=100)
    parser.add_argument("--asked", type=int, default=20)
    parser.add_argument("--death", choices=("kill", "freeze", "none"), default="kill")
    parser.add_argument("--boot", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--targets", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    chosen = parser.parse_args()
    if chosen.targets:
        chosen.basins = chosen.wakes = 1000
        chosen.few, chosen.death, chosen.boot = 3, "kill", True
        chosen.calm = TARGETS_CALM_S
    asyncio.run(main(chosen))
    sys.exit(0)
