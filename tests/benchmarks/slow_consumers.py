"""What slow consumers cost: `python -m tests.benchmarks.slow_consumers`.

Three nodes and a gateway of its own. Appends at a fixed rate to a stream with a follower that reads
all at once, measured in turns without and with CONSUMERS beside it, which follow too and read a
little now and then, over HTTP/1.1 as events and as sessions. Prints a JSON object a turn and, at
the end, for both the median of the turns' 99th percentiles (what else the machine does falls into
single turns), the ratio of the two, and what the gateway's memory grew by for each consumer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Final

from svc_cluster.base.clock import SystemClock
from svc_cluster.http.client import HttpClient
from svc_cluster.lab.api_client import AppendRecord
from svc_cluster.lab.own_cluster import OwnCluster
from tests.benchmarks.requests import append_request, set_up
from tests.own_processes import resident_bytes

BASIN: Final = "slow-consumers"
STREAM: Final = "s"
READ_BYTES: Final = 4096
READ_GAP_S: Final = 0.25


class Appends:
    """Appends at a fixed rate over a few connections; late ones are sent late, and their latency
    counts from when they were due."""

    def __init__(self, url: str, rate: float, connections: int, body_bytes: int) -> None:
        self._url = url
        self._gap = connections / rate
        self._connections = connections
        self._records = [AppendRecord(os.urandom(body_bytes))]
        self._clock = SystemClock()

    async def run(self, seconds: float) -> list[float]:
        """Latencies in seconds."""
        found = await asyncio.gather(
            *(self._worker(number, seconds) for number in range(self._connections))
        )
        return [latency for latencies in found for latency in latencies]

    async def _worker(self, number: int, seconds: float) -> list[float]:
        client = HttpClient(self._url)
        request = append_request(client, BASIN, STREAM, self._records, "protobuf")
        latencies = []
        begun = self._clock.monotonic() + self._gap * number / self._connections
        for turn in range(int(seconds / self._gap)):
            due = begun + turn * self._gap
            await asyncio.sleep(max(0.0, due - self._clock.monotonic()))
            response = await client.exchange(request)
            assert response.status == 200, response
            latencies.append(self._clock.monotonic() - due)
        client.close()
        return latencies


async def follow(url: str) -> None:
    """Read events as they come, until cancelled."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(follow_request("accept: text/event-stream"))
        while await reader.read(256 * 1024):
            pass
        raise AssertionError("the follower was cut off")
    finally:
        writer.close()


def follow_request(kind: str) -> bytes:
    head = f"GET /v1/streams/{STREAM}/records?tail_offset=0 HTTP/1.1\r\nhost: localhost\r\n"
    return f"{head}svc-basin: {BASIN}\r\n{kind}\r\n\r\n".encode()


class Consumers:
    """Sockets that are read a little of, now and then."""

    def __init__(self, url: str, count: int) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._address = (host, int(port))
        self._sockets: list[socket.socket] = []
        self._count = count
        self.read_bytes = 0
        self.ended = 0

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        for number in range(self._count):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
            sock.setblocking(False)
            await loop.sock_connect(sock, self._address)
            kind = "accept: text/event-stream" if number % 2 else "content-type: svcs/proto"
            await loop.sock_sendall(sock, follow_request(kind))
            self._sockets.append(sock)

    async def read(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            for sock in list(self._sockets):
                await asyncio.sleep(READ_GAP_S / self._count)
                data = await loop.sock_recv(sock, READ_BYTES)
                self.read_bytes += len(data)
                if not data:
                    self.ended += 1
                    self._sockets.remove(sock)
                    sock.close()

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()
        self._sockets.clear()


def quantile_ms(latencies: list[float], share: float) -> float:
    ordered = sorted(latencies)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000, 3)


async def measure(cluster: OwnCluster, options: argparse.Namespace) -> dict[str, Any]:
    gateway = int(cluster.file()["gateway"]["pid"])
    appends = Appends(cluster.url, options.rate, options.connections, options.body_bytes)
    await appends.run(options.seconds / 2)
    found: dict[bool, list[float]] = {False: [], True: []}
    """The 99th percentile of each turn, in milliseconds."""
    growth = []
    for turn in range(options.turns):
        # A pair in either order by turns, so that what drifts counts for both.
        for slow in (False, True) if turn % 2 == 0 else (True, False):
            before = resident_bytes(gateway)
            consumers = Consumers(cluster.url, options.consumers if slow else 0)
            await consumers.open()
            reading = asyncio.create_task(consumers.read()) if slow else None
            await appends.run(
                options.settle
            )  # until they are slow: what fits their buffers is sent
            latencies = await appends.run(options.seconds)
            after = resident_bytes(gateway)
            if reading is not None:
                reading.cancel()
                await asyncio.wait([reading])
                growth.append((after - before) / options.consumers)
            consumers.close()
            found[slow].append(quantile_ms(latencies, 0.99))
            said = {
                "slow_consumers": options.consumers if slow else 0,
                "appends": len(latencies),
                "p50_ms": quantile_ms(latencies, 0.5),
                "p99_ms": quantile_ms(latencies, 0.99),
                "gateway_rss_mib": round(after / 2**20, 1),
                "read_kib": consumers.read_bytes // 1024,
                "cut_off": consumers.ended,
            }
            print(json.dumps(said), flush=True)
    without, with_slow = (round(median(found[slow]), 3) for slow in (False, True))
    return {
        "p99_ms_without": without,
        "p99_ms_with": with_slow,
        "ratio": round(with_slow / without, 3),
        "gateway_rss_kib_for_each": round(max(growth) / 1024, 1),
    }


async def main(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as directory:
        cluster = OwnCluster(Path(directory), nodes=3)
        cluster.start()
        try:
            await cluster.wait_ready(60.0)
            await set_up(cluster.url, BASIN, [STREAM], SystemClock())
            following = asyncio.create_task(follow(cluster.url))
            result = await measure(cluster, options)
            assert not following.done(), "the follower was cut off"
            following.cancel()
        finally:
            cluster.stop()
    print(json.dumps(result), flush=True)
    return int(result["ratio"] > options.ratio_max)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.slow_consumers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--consumers", type=int, default=100)
    parser.add_argument("--turns", type=int, default=12, help="pairs of turns without and with")
    parser.add_argument("--settle", type=float, default=6.0, help="seconds before each turn")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each turn")
    parser.add_argument("--rate", type=float, default=200.0, help="appends a second")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--body-bytes", type=int, default=1_000)
    parser.add_argument("--ratio-max", type=float, default=1.1, help="above it the exit code is 1")
    sys.exit(asyncio.run(main(parser.parse_args())))
