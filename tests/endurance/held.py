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
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from svc_cluster.http.client import ConnectionLostError
from svc_cluster.lab.api_client import ApiClient, AppendRecord
from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.cluster import Load, running
from tests.e2e.load import StreamWriter as Writer
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

HEALTH: Final = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
ANSWER_S_MAX: Final = 60.0
"""In which all idle connections answer once more."""
EVENTS_SHARE_MIN: Final = 0.5
"""Of the records that are due, so many must have come in time to the stream that is followed."""

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
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


async def connections(port: int, count: int) -> list[Connection]:
    """Idle ones that have been answered once each, from several addresses of this machine."""
    held = []
    for number in range(count):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, local_addr=(address(number), 0)
        )
        writer.write(HEALTH)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await reader.readexactly(_length(head))
        held.append((reader, writer))
    return held


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    raise AssertionError(f"no length in {head!r}")


@dataclass(slots=True)
class Paced:
    """How many records were acknowledged to the stream that is followed."""

    appended: int = 0


@contextlib.asynccontextmanager
async def paced(url: str) -> AsyncIterator[Paced]:
    """Records come at the pace of the stream that is followed, in time or late."""
    found = Paced()

    async def append() -> None:
        api = ApiClient(url)
        due = time.monotonic()
        try:
            for number in itertools.count():
                body = b"%012d" % number + bytes(88)
                with contextlib.suppress(ConnectionLostError):
                    answer = await api.append(BASIN, FOLLOWED, [AppendRecord(body)])
                    found.appended += answer.status == 200
                due += FOLLOWED_PAUSE_S
                await asyncio.sleep(max(0.0, due - time.monotonic()))
        finally:
            api.close()

    task = asyncio.create_task(append())
    try:
        yield found
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def append_p99_ms(load: Load, seconds: float) -> tuple[float, int]:
    """Of the appends that ended within the next seconds, or were still waited for then, and how
    many they were."""
    begun = time.monotonic()
    await asyncio.sleep(seconds)
    waits = waits_since(load.writers, begun, time.monotonic())
    return round(1000 * quantile(waits, 0.99), 2), len(waits)


def waits_since(writers: Sequence[Writer], begun: float, now: float) -> list[float]:
    """How long appends took, from their first attempt: from the end of the one before, and the
    pause. One that is not settled has waited until now."""
    waits: list[float] = []
    for writer in writers:
        free: float | None = None
        for outcome in writer.outcomes:
            first = outcome.begun if free is None else min(outcome.begun, free)
            if outcome.known >= begun:
                waits.append(outcome.known - first)
            free = outcome.known + writer.pause_s
        if free is not None and writer.pending and now > free:
            waits.append(now - free)
    return waits


async def asked_again(held: Sequence[Connection]) -> int:
    """How many connections do not answer another request. One that the other side has ended in
    order looks whole until it is asked."""
    gone = 0
    end = asyncio.get_running_loop().time() + ANSWER_S_MAX
    for reader, writer in held:
        try:
            writer.write(HEALTH)
            async with asyncio.timeout_at(end):
                head = await reader.readuntil(b"\r\n\r\n")
            gone += not head.startswith(b"HTTP/1.1 200")
        except (OSError, EOFError, TimeoutError):
            gone += 1
        writer.close()
    return gone


async def play(cluster: OwnCluster, scale: float, seconds: float) -> dict[str, Any]:
    load = Load(cluster.url, BASIN, writers=WRITERS)
    for writer in load.writers:
        writer.pause_s = 0.01
    await set_up(cluster.url, BASIN, [FOLLOWED, *(writer.stream for writer in load.writers)])
    load.start()
    await load.acknowledged(20)
    async with paced(cluster.url) as paced_by:
        alone, appends_alone = await append_p99_ms(load, seconds)
        begun = time.monotonic()
        counts, faults = await _fill(cluster, scale)
        idle = await connections(cluster.port, round(CONNECTIONS * scale))
        followers = await Followers.begun(cluster.port, BASIN, FOLLOWED, round(FOLLOWERS * scale))
        await asyncio.sleep(min(5.0, seconds))
        since = paced_by.appended
        beside, appends = await append_p99_ms(load, seconds)
        appended = paced_by.appended - since
        sizes = _sizes(cluster)
        seen = await followers.end()
    await load.stop()
    gone = await asked_again(idle) + seen.gone
    if gone:
        faults.append(f"{gone} connections did not last")
    if appended < EVENTS_SHARE_MIN * seconds / FOLLOWED_PAUSE_S:
        faults.append(f"the stream that is followed got {appended} records in {seconds} s")
    if min(seen.records, default=appended) < appended:
        faults.append(f"a follower saw {min(seen.records)} of {appended} records")
    verdict = await load.verify()
    if not verdict.clean:
        faults.append(str(verdict))
    for name, most in (("node_mib", NODE_MIB_MAX), ("gateway_mib", GATEWAY_MIB_MAX)):
        if sizes[name] > most:
            faults.append(f"{name} {sizes[name]}, at most {most}")
    return {
        "scale": scale,
        "connections": len(idle),
        "followers": len(seen.records),
        "records_of_each": [min(seen.records), max(seen.records)],
        **counts,
        "p99_alone_ms": alone,
        "p99_ms": beside,
        "appends_alone": appends_alone,
        "appends": appends,
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
            try:
                row = await play(cluster, options.scale, options.seconds)
            except Exception as error:
                if options.record:
                    log.add({"scale": options.scale, "faults": [f"broken off: {error!r}"[:500]]})
                raise
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
