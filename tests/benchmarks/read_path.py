"""What reads cost in processor time: `python -m tests.benchmarks.read_path CASE`.

Three nodes and a gateway of its own, as processes; what is told is the user and system time that
the gateway and all nodes together took, from /proc, so that it says something on a busy machine.

`one`: unary JSON reads of one record at random out of batches of `--batch` records, by
`--connections`; what an idle cluster takes in the same time is left out.
`follow`: appends of one record at `--rate`, turns without and with one follower by events.
`followers`: the same with `--followers` of one stream. Told are a follower's costs for each event,
as the difference between both, its delays, and the gateway's memory.
`session`: a session that reads all there is, one client, by processor time and by the clock.

Each case prints a JSON object a turn and at the end the median of the turns. To compare two trees,
run both by turns, each from its own root.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import struct
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from svc_cluster.base.clock import SystemClock
from svc_cluster.http.client import HttpClient
from svc_cluster.lab.api_client import AppendRecord
from svc_cluster.lab.own_cluster import OwnCluster
from svc_cluster.lab.proc_stat import cluster_pids, cpu_seconds
from tests.benchmarks.requests import append_request, set_up
from tests.own_processes import resident_bytes

BASIN: Final = "read-path"
STREAM: Final = "s"
BATCHES: Final = 40
_STAMP: Final = struct.Struct(">d")
_EVENT: Final = b"event: batch\n"
_BODY: Final = b'"body":"'


class Processes:
    """The gateway and the nodes, by the processor time that they take."""

    def __init__(self, cluster: OwnCluster) -> None:
        self.gateway = int(cluster.file()["gateway"]["pid"])
        self._pids = cluster_pids(cluster.file())

    def seconds(self) -> tuple[float, float]:
        """The gateway's, and all nodes'."""
        gateway = cpu_seconds(self.gateway)
        return gateway, sum(map(cpu_seconds, self._pids)) - gateway


def _since(before: tuple[float, float], now: tuple[float, float]) -> tuple[float, float]:
    return now[0] - before[0], now[1] - before[1]


class Follower:
    """A connection that takes events as they come; counts them and, where asked, their delays."""

    def __init__(self) -> None:
        self.events = 0
        self.delays: list[float] = []

    async def open(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        self._writer.write(
            f"GET /v1/streams/{STREAM}/records?tail_offset=0 HTTP/1.1\r\nhost: localhost\r\n"
            f"svc-basin: {BASIN}\r\naccept: text/event-stream\r\nsvc-format: raw\r\n\r\n".encode()
        )
        await self._reader.readuntil(b"event: ping")

    async def run(self) -> None:
        """Read until cancelled. A body begins with when it was sent, in digits."""
        while data := await self._reader.read(64 * 1024):
            count = data.count(_BODY)
            self.events += count
            now = time.monotonic()
            at = -1
            for _ in range(count):
                at = data.index(_BODY, at + 1)
                stamp = data[at + len(_BODY) : at + len(_BODY) + 16]
                if len(stamp) == 16:
                    self.delays.append(now - float(stamp))
        raise AssertionError("the follower was cut off")

    def close(self) -> None:
        self._writer.close()


async def append_at(url: str, rate: float, seconds: float) -> int:
    """Appends of one record of 100 bytes, which begins with when it is sent."""
    connections = 1 if rate < 100 else 16
    clients = [HttpClient(url) for _ in range(connections)]
    begun = time.monotonic()
    total = int(rate * seconds)

    async def worker(number: int) -> None:
        for turn in range(number, total, connections):
            await asyncio.sleep(max(0.0, begun + turn / rate - time.monotonic()))
            body = b"%016.6f" % time.monotonic()
            record = AppendRecord(body.ljust(100, b"x"))
            request = append_request(clients[number], BASIN, STREAM, [record], "protobuf")
            response = await clients[number].exchange(request)
            assert response.status == 200, response

    await asyncio.gather(*(worker(number) for number in range(connections)))
    for client in clients:
        client.close()
    return total


def quantile_ms(delays: list[float], share: float) -> float:
    ordered = sorted(delays)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000, 2)


async def follow(cluster: OwnCluster, options: argparse.Namespace) -> list[dict[str, Any]]:
    told = []
    count = options.followers if options.case == "followers" else 1
    rate = options.rate or (10.0 if options.case == "followers" else 1000.0)
    processes = Processes(cluster)
    await append_at(cluster.url, rate, 2.0)
    for _ in range(options.turns):
        cpu: dict[bool, float] = {}
        for with_followers in (False, True):
            followers = [Follower() for _ in range(count * with_followers)]
            for begin in range(0, len(followers), 50):
                await asyncio.gather(*(f.open(cluster.url) for f in followers[begin : begin + 50]))
            tasks = [asyncio.create_task(f.run()) for f in followers]
            await append_at(cluster.url, rate, 1.0)
            for follower in followers:
                follower.delays.clear()
                follower.events = 0
            before = processes.seconds()
            appended = await append_at(cluster.url, rate, options.seconds)
            gateway, nodes = _since(before, processes.seconds())
            await asyncio.sleep(0.3)
            cpu[with_followers] = gateway + nodes
            rss = resident_bytes(processes.gateway)
            assert not any(task.done() for task in tasks), "all follow"
            for task in tasks:
                task.cancel()
            for follower in followers:
                follower.close()
            if not with_followers:
                continue
            events = sum(f.events for f in followers)
            assert events >= appended * count * 0.9, f"all were delivered: {events}"
            delays = [delay for f in followers for delay in f.delays]
            append_us = cpu[False] / appended * 1e6
            extra_us = (cpu[True] - cpu[False]) / events * 1e6
            told.append(
                {
                    "append_us": round(append_us, 1),
                    "event_us": round(extra_us, 2),
                    "of_append": round(extra_us / append_us, 3),
                    "p50_ms": quantile_ms(delays, 0.5),
                    "p99_ms": quantile_ms(delays, 0.99),
                    "gateway_rss_mib": round(rss / 2**20, 1),
                }
            )
            print(json.dumps(told[-1]), flush=True)
    return told


async def _fill(cluster: OwnCluster, batches: int, batch: int, body_bytes: int) -> None:
    client = HttpClient(cluster.url)
    for _ in range(batches):
        records = [AppendRecord(os.urandom(body_bytes)) for _ in range(batch)]
        request = append_request(client, BASIN, STREAM, records, "protobuf")
        response = await client.exchange(request)
        assert response.status == 200, response
    client.close()


async def one(cluster: OwnCluster, options: argparse.Namespace) -> list[dict[str, Any]]:
    await _fill(cluster, BATCHES, options.batch, options.body_bytes)
    processes = Processes(cluster)
    rng = random.Random(1)

    async def worker(end: float) -> int:
        client, reads = HttpClient(cluster.url), 0
        while time.monotonic() < end:
            at = rng.randrange(BATCHES * options.batch)
            path = f"/v1/streams/{STREAM}/records?seq_num={at}&count=1"
            response = await client.request("GET", path, {"svc-basin": BASIN})
            assert response.status == 200, response
            reads += 1
        client.close()
        return reads

    told = []
    for _ in range(options.turns):
        before = processes.seconds()
        await asyncio.sleep(options.seconds)
        idle = _since(before, processes.seconds())
        before, end = processes.seconds(), time.monotonic() + options.seconds
        reads = sum(await asyncio.gather(*(worker(end) for _ in range(options.connections))))
        gateway, nodes = _since(idle, _since(before, processes.seconds()))
        told.append(
            {
                "read_us": round((gateway + nodes) / reads * 1e6, 1),
                "gateway_us": round(gateway / reads * 1e6, 1),
                "nodes_us": round(nodes / reads * 1e6, 1),
            }
        )
        print(json.dumps(told[-1]), flush=True)
    return told


async def session(cluster: OwnCluster, options: argparse.Namespace) -> list[dict[str, Any]]:
    """What is read goes nowhere: the socket's bytes are counted."""
    await _fill(cluster, options.fill_mib, 1000, 1000)
    processes = Processes(cluster)
    host, _, port = cluster.url.removeprefix("http://").partition(":")
    told = []
    for _ in range(options.turns):
        before, begun = processes.seconds(), time.monotonic()
        reader, writer = await asyncio.open_connection(host, int(port), limit=4 * 1024 * 1024)
        path = f"/v1/streams/{STREAM}/records?seq_num=0&count=1000000000"
        writer.write(
            f"GET {path} HTTP/1.1\r\nhost: localhost\r\nsvc-basin: {BASIN}\r\n"
            "connection: close\r\ncontent-type: s2s/proto\r\n\r\n".encode()
        )
        size = 0
        while data := await reader.read(1024 * 1024):
            size += len(data)
        writer.close()
        seconds = time.monotonic() - begun
        gateway, nodes = _since(before, processes.seconds())
        mib = size / 2**20
        assert mib >= options.fill_mib * 0.95, f"all was read: {mib} MiB"
        told.append(
            {
                "mib_per_s": round(mib / seconds, 1),
                "us_per_mib": round((gateway + nodes) / mib * 1e6, 1),
                "gateway_us": round(gateway / mib * 1e6, 1),
                "nodes_us": round(nodes / mib * 1e6, 1),
            }
        )
        print(json.dumps(told[-1]), flush=True)
    return told


CASES: Final = {"one": one, "follow": follow, "followers": follow, "session": session}


async def main(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as directory:
        cluster = OwnCluster(Path(directory), nodes=3)
        cluster.start()
        try:
            await cluster.wait_ready(60.0)
            await set_up(cluster.url, BASIN, [STREAM], SystemClock())
            told = await CASES[options.case](cluster, options)
        finally:
            cluster.stop()
    medians = {name: round(median(one[name] for one in told), 3) for name in told[0]}
    print(json.dumps({"case": options.case, **medians}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.read_path",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each turn")
    parser.add_argument("--rate", type=float, help="appends a second; 10 or, with one, 1,000")
    parser.add_argument("--followers", type=int, default=500)
    parser.add_argument("--connections", type=int, default=16, help="that read, with `one`")
    parser.add_argument("--batch", type=int, default=1000, help="records of a batch")
    parser.add_argument("--body-bytes", type=int, default=100, help="of each record, with `one`")
    parser.add_argument("--fill-mib", type=int, default=100, help="what a session reads")
    asyncio.run(main(parser.parse_args()))
