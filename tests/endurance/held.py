"""`python -m tests.endurance.held --scale 1 [--record]`: very many of everything at once.

At scale 1: 100,000 streams in 1,000 basins and 20,000 access tokens are made, then 5,000 idle
connections and 2,000 followers of server-sent events are held, of a stream that gets ten records a
second. The time of appends to other streams is measured before and beside it. Every process is held
against its budget of memory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from svc_cluster.http.client import ConnectionLostError
from svc_cluster.lab.api_client import ApiClient, AppendRecord
from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.cluster import Load, running
from tests.e2e.load import quantile, set_up
from tests.endurance.followers import Followers, address
from tests.endurance.sampling import sample
from tests.reliability import RunLog

BASIN: Final = "held-basin"
CONNECTIONS: Final = 5000
FOLLOWERS: Final = 2000
STREAMS: Final = 100_000
BASINS: Final = 1000
TOKENS: Final = 20_000
FOLLOWED: Final = "followed"
FOLLOWED_PAUSE_S: Final = 0.1
"""Between records of that stream: 2,000 followers are then sent 20,000 events a second."""
AT_ONCE: Final = 16
"""Requests of whoever makes all this."""
MEASURE_S: Final = 20.0
WRITERS: Final = 4
NODE_MIB_MAX: Final = 1536
"""A node's budget for what it is sent is 320 MiB; the store's cache, tables and the interpreter
with what a hundred thousand streams are, are beside it."""
GATEWAY_MIB_MAX: Final = 1024
"""The anchor for 5,000 connections is a GiB a gateway."""

Make = Callable[[ApiClient, int], Awaitable[bool]]


async def made(url: str, count: int, make: Make) -> int:
    """How many were made of `count`. What is refused for the moment is tried again."""
    numbers = iter(range(count))
    done = 0

    async def one() -> None:
        nonlocal done
        api = ApiClient(url)
        try:
            for number in numbers:
                for wait in itertools.chain((0.05, 0.1, 0.2), itertools.repeat(0.5, 200)):
                    with contextlib.suppress(ConnectionLostError):
                        if await make(api, number):
                            done += 1
                            break
                    await asyncio.sleep(wait)
        finally:
            api.close()

    await asyncio.gather(*(one() for _ in range(AT_ONCE)))
    return done


def basin_of(number: int) -> str:
    return f"held-{number:06}"


def is_made(status: int) -> bool:
    """Whether it is there; what is refused for good, which no repetition heals, ends all."""
    if 400 <= status < 500 and status not in (408, 409, 429):
        raise RuntimeError(f"refused with {status}")
    return status in (200, 201, 409)


async def make_basin(api: ApiClient, number: int) -> bool:
    return is_made((await api.create_basin(basin_of(number))).status)


def stream_maker(basins: int) -> Make:
    async def make(api: ApiClient, number: int) -> bool:
        answer = await api.create_stream(basin_of(number % basins), f"stream-{number:07}")
        return is_made(answer.status)

    return make


async def make_token(api: ApiClient, number: int) -> bool:
    body = {"id": f"held-{number:06}", "scope": {"basins": {"prefix": "held-"}, "ops": ["read"]}}
    answer = await api.http.request(
        "POST",
        "/v1/access-tokens",
        {"content-type": "application/json"},
        json.dumps(body).encode(),
    )
    return is_made(answer.status)


async def connections(port: int, count: int) -> list[asyncio.StreamWriter]:
    """Idle ones that have made a request each, from several addresses of this machine."""
    held = []
    for number in range(count):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, local_addr=(address(number), 0)
        )
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        held.append(writer)
    return held


@contextlib.asynccontextmanager
async def paced(url: str) -> AsyncIterator[None]:
    """Records come at the pace of the stream that is followed, in time or late."""

    async def append() -> None:
        api = ApiClient(url)
        due = time.monotonic()
        try:
            for number in itertools.count():
                body = b"%012d" % number + bytes(88)
                with contextlib.suppress(ConnectionLostError):
                    await api.append(BASIN, FOLLOWED, [AppendRecord(body)])
                due += FOLLOWED_PAUSE_S
                await asyncio.sleep(max(0.0, due - time.monotonic()))
        finally:
            api.close()

    task = asyncio.create_task(append())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def append_p99_ms(load: Load, seconds: float) -> float:
    """Of the appends that were begun within the next seconds."""
    begun = time.monotonic()
    await asyncio.sleep(seconds)
    waits = [
        outcome.known - outcome.begun
        for writer in load.writers
        for outcome in writer.outcomes
        if outcome.begun >= begun
    ]
    return round(1000 * quantile(waits, 0.99), 2)


async def play(cluster: OwnCluster, scale: float, seconds: float) -> dict[str, Any]:
    load = Load(cluster.url, BASIN, writers=WRITERS)
    for writer in load.writers:
        writer.pause_s = 0.01
    await set_up(cluster.url, BASIN, [FOLLOWED, *(writer.stream for writer in load.writers)])
    load.start()
    await load.acknowledged(20)
    async with paced(cluster.url):
        alone = await append_p99_ms(load, seconds)
        begun = time.monotonic()
        counts, faults = await _fill(cluster, scale)
        idle = await connections(cluster.port, round(CONNECTIONS * scale))
        followers = await Followers.begun(cluster.port, BASIN, FOLLOWED, round(FOLLOWERS * scale))
        await asyncio.sleep(min(5.0, seconds))
        beside = await append_p99_ms(load, seconds)
        sizes = _sizes(cluster)
        seen = await followers.end()
    await load.stop()
    gone = sum(held.transport.is_closing() for held in idle) + seen.gone
    for held in idle:
        held.close()
    if gone:
        faults.append(f"{gone} connections did not last")
    if 0 in seen.batches:
        faults.append(f"{seen.batches.count(0)} followers saw nothing")
    verdict = await load.verify()
    if not verdict.clean:
        faults.append(str(verdict))
    for name, most in (("node_mib", NODE_MIB_MAX), ("gateway_mib", GATEWAY_MIB_MAX)):
        if sizes[name] > most:
            faults.append(f"{name} {sizes[name]}, at most {most}")
    return {
        "scale": scale,
        "connections": len(idle),
        "followers": len(seen.batches),
        "events_of_each": [min(seen.batches), max(seen.batches)],
        **counts,
        "p99_alone_ms": alone,
        "p99_ms": beside,
        **sizes,
        "seconds": round(time.monotonic() - begun),
        "faults": faults,
    }


async def _fill(cluster: OwnCluster, scale: float) -> tuple[dict[str, int], list[str]]:
    """Make basins, streams and tokens: how many there were to be, and what is missing of them."""
    counts = {
        "basins": max(1, round(BASINS * scale)),
        "streams": round(STREAMS * scale),
        "tokens": round(TOKENS * scale),
    }
    begun = time.monotonic()
    faults = []
    for name, make in (
        ("basins", make_basin),
        ("streams", stream_maker(counts["basins"])),
        ("tokens", make_token),
    ):
        found = await made(cluster.url, counts[name], make)
        print(f"{found:,} {name} after {time.monotonic() - begun:.0f} s", flush=True)
        if found < counts[name]:
            faults.append(f"{found} {name} of {counts[name]}")
    return counts, faults


def _sizes(cluster: OwnCluster) -> dict[str, int]:
    """The most memory that a process of each kind has."""
    found = cluster.file()
    nodes = [sample(int(node["pid"]), None) for node in found["nodes"]]
    gateway = sample(int(found["gateway"]["pid"]), None)
    assert gateway is not None and all(nodes), "nobody was killed"
    return {
        "node_mib": round(max(each.rss_mib for each in nodes if each is not None)),
        "gateway_mib": round(gateway.rss_mib),
    }


async def main(options: argparse.Namespace) -> int:
    log = RunLog("held")
    with tempfile.TemporaryDirectory(prefix="svc-held-") as scratch:
        # the quota of a new cluster is a hundred basins
        unbounded = {"SVC_CLUSTER_BASINS_MAX": "null"}
        async with running(Path(scratch) / "cluster", environment=unbounded) as cluster:
            row = await play(cluster, options.scale, options.seconds)
    print(json.dumps(row, indent=1))
    if options.record:
        log.add(row)
    return 1 if row["faults"] else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.held", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of all the numbers")
    parser.add_argument("--seconds", type=float, default=MEASURE_S, help="of each measurement")
    parser.add_argument("--record", action="store_true", help="append to docs/reliability")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(arguments())))
