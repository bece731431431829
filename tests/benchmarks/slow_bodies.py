"""What slow senders cost: `python -m tests.benchmarks.slow_bodies`.

Three nodes and a gateway of its own. Appends at a fixed rate of bytes, measured first alone and
then beside CONNECTIONS that each send the largest legal body, 8 MiB of JSON, at SLOW_KIB a second,
and begin again when they are refused. Prints a JSON object with the peak of the gateway's memory,
what the normal load got with its latencies, and what became of the slow ones. Exit code 1 when the
memory was over RSS_MIB_MAX, or the normal load got less than SHARE_MIN of what it got alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

from svc_cluster.base.clock import SystemClock
from svc_cluster.http.client import ConnectionLostError, HttpClient
from svc_cluster.lab.api_client import AppendRecord
from svc_cluster.lab.own_cluster import OwnCluster
from svc_cluster.lab.proc_stat import cpu_seconds
from tests.benchmarks.requests import append_request, set_up
from tests.own_processes import resident_bytes

BASIN: Final = "slow-bodies"
STREAMS: Final = 8
BODY_BYTES: Final = 8 * 1024 * 1024
SAMPLE_S: Final = 0.1
TICKS: Final = 20
"""Of a second; each sender has its turn in one of them."""


class Senders:
    """Connections that send a large body little by little, in this process."""

    def __init__(self, port: int, count: int, kib_per_second: float) -> None:
        self._address = ("127.0.0.1", port)
        self._count = count
        self._piece = b"x" * int(kib_per_second * 1024)
        self._sockets: list[socket.socket | None] = [None] * count
        self._unsent: set[int] = set()
        """Connections whose request has not begun: perhaps they are not open yet."""
        self.answers: Counter[str] = Counter()
        self.sent_bytes = 0
        self.opened = 0
        self.held_up = 0
        """Turns in which the gateway took nothing."""

    async def run(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end_at = loop.time() + seconds
        turn = 0
        next_at = loop.time()
        while loop.time() < end_at:
            for number in range(turn % TICKS, self._count, TICKS):
                self._send(loop, number)
            turn += 1
            next_at += 1 / TICKS
            await asyncio.sleep(max(0.0, next_at - loop.time()))
        for number in range(self._count):
            self._close(loop, number, "open to the end")

    def _send(self, loop: asyncio.AbstractEventLoop, number: int) -> None:
        sock = self._sockets[number]
        if sock is None:
            self._open(loop, number)
            return
        try:
            if number in self._unsent:
                sock.send(self._head(number))
                self._unsent.discard(number)
            self.sent_bytes += sock.send(self._piece)
        except BlockingIOError:
            self.held_up += 1
        except OSError:
            self._close(loop, number, "reset")

    def _open(self, loop: asyncio.AbstractEventLoop, number: int) -> None:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 * 1024)
        sock.setblocking(False)
        try:
            sock.connect(self._address)
        except BlockingIOError:
            pass
        except OSError as error:
            self.answers[f"not connected: {error.strerror}"] += 1
            sock.close()
            return
        self._sockets[number] = sock
        self._unsent.add(number)
        self.opened += 1
        loop.add_reader(sock, self._answered, loop, number)

    @staticmethod
    def _head(number: int) -> bytes:
        head = (
            f"POST /v1/streams/s-{number % STREAMS}/records HTTP/1.1\r\nhost: localhost\r\n"
            f"svc-basin: {BASIN}\r\ncontent-type: application/json\r\nsvc-format: utf8\r\n"
            f'content-length: {BODY_BYTES}\r\n\r\n{{"records":[{{"body":"'
        )
        return head.encode()

    def _answered(self, loop: asyncio.AbstractEventLoop, number: int) -> None:
        sock = self._sockets[number]
        assert sock is not None, "it is read while it is open"
        try:
            data = sock.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._close(loop, number, data[9:12].decode("latin-1") if data else "closed")

    def _close(self, loop: asyncio.AbstractEventLoop, number: int, why: str) -> None:
        sock = self._sockets[number]
        if sock is not None:
            self.answers[why] += 1
            loop.remove_reader(sock)
            sock.close()
            self._sockets[number] = None
            self._unsent.discard(number)


class Load:
    """Appends at a rate of bytes over a few connections, never more than it at once."""

    def __init__(self, url: str, mib_per_second: float, connections: int, body_bytes: int) -> None:
        self._url = url
        self._connections = connections
        self._gap = connections * body_bytes / (mib_per_second * 2**20)
        self._records = [AppendRecord(os.urandom(body_bytes))]
        self._body_bytes = body_bytes
        self._clock = SystemClock()
        self.bytes = 0
        self.latencies: list[float] = []
        self.errors: Counter[str] = Counter()

    async def run(self, seconds: float) -> dict[str, Any]:
        self.bytes = 0
        self.latencies = []
        self.errors = Counter()
        end_at = self._clock.monotonic() + seconds
        await asyncio.gather(*(self._worker(n, end_at) for n in range(self._connections)))
        ordered = sorted(self.latencies)

        def quantile_ms(share: float) -> float | None:
            if not ordered:
                return None
            return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000, 1)

        return {
            "mib_per_s": round(self.bytes / seconds / 2**20, 2),
            "appends": len(ordered),
            "p50_ms": quantile_ms(0.5),
            "p99_ms": quantile_ms(0.99),
            "max_ms": quantile_ms(1.0),
            "errors": dict(self.errors),
        }

    async def _worker(self, number: int, end_at: float) -> None:
        client = HttpClient(self._url)
        request = append_request(client, BASIN, f"s-{number % STREAMS}", self._records, "protobuf")
        now = self._clock.monotonic
        due = now() + self._gap * number / self._connections
        while now() < end_at:
            # what is late stays late: the rate is a bound
            due = max(due, now() - self._gap)
            await asyncio.sleep(max(0.0, due - now()))
            due += self._gap
            begun = now()
            try:
                response = await client.exchange(request)
            except ConnectionLostError:
                self.errors["connection lost"] += 1
                continue
            if response.status == 200:
                self.bytes += self._body_bytes
                self.latencies.append(now() - begun)
            else:
                self.errors[str(response.status)] += 1
        client.close()


class Peak:
    """The most memory of a process, looked at again and again."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.bytes = 0

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            self.bytes = max(self.bytes, resident_bytes(self._pid))
            await asyncio.sleep(SAMPLE_S)


async def measure(cluster: OwnCluster, options: argparse.Namespace) -> dict[str, Any]:
    gateway = int(cluster.file()["gateway"]["pid"])
    load = Load(cluster.url, options.load_mib, options.load_connections, options.load_body_bytes)
    peak = Peak(gateway)
    watching = asyncio.create_task(peak.watch())
    idle = resident_bytes(gateway)
    await load.run(options.seconds / 4)
    cpu = cpu_seconds(gateway)
    alone = await load.run(options.seconds)
    alone["gateway_cpu_cores"] = round((cpu_seconds(gateway) - cpu) / options.seconds, 2)
    peak_alone, peak.bytes = peak.bytes, 0
    senders = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.benchmarks.slow_bodies", "--senders-only"),
        *("--port", str(cluster.port), "--connections", str(options.connections)),
        *("--slow-kib", str(options.slow_kib), "--seconds", str(options.seconds + 10)),
        stdout=subprocess.PIPE,
    )
    await asyncio.sleep(5.0)  # the connections are opened
    cpu = cpu_seconds(gateway)
    beside = await load.run(options.seconds)
    beside["gateway_cpu_cores"] = round((cpu_seconds(gateway) - cpu) / options.seconds, 2)
    said, _ = await senders.communicate()
    watching.cancel()
    return {
        "connections": options.connections,
        "slow_kib_per_s": options.slow_kib,
        "gateway_rss_mib_idle": round(idle / 2**20, 1),
        "gateway_rss_mib_peak_alone": round(peak_alone / 2**20, 1),
        "gateway_rss_mib_peak": round(peak.bytes / 2**20, 1),
        "load_wanted_mib_per_s": options.load_mib,
        "load_alone": alone,
        "load_beside": beside,
        "slow": json.loads(said),
    }


async def send_only(options: argparse.Namespace) -> int:
    senders = Senders(options.port, options.connections, options.slow_kib)
    await senders.run(options.seconds)
    said = {
        "opened": senders.opened,
        "mib_sent": round(senders.sent_bytes / 2**20, 1),
        "turns_held_up": senders.held_up,
        "ended": dict(senders.answers),
    }
    print(json.dumps(said), flush=True)
    return 0


async def main(options: argparse.Namespace) -> int:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if options.senders_only:
        return await send_only(options)
    with tempfile.TemporaryDirectory() as directory:
        cluster = OwnCluster(Path(directory) / "cluster", nodes=3)
        cluster.start()
        try:
            await cluster.wait_ready(60.0)
            names = [f"s-{number}" for number in range(STREAMS)]
            await set_up(cluster.url, BASIN, names, SystemClock())
            result = await measure(cluster, options)
        finally:
            cluster.stop()
    print(json.dumps(result, indent=1), flush=True)
    share = result["load_beside"]["mib_per_s"] / (result["load_alone"]["mib_per_s"] or 1.0)
    return int(result["gateway_rss_mib_peak"] > options.rss_mib_max or share < options.share_min)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.slow_bodies",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--connections", type=int, default=5_000)
    parser.add_argument("--slow-kib", type=float, default=10.0, help="a second, of each")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each of the two phases")
    parser.add_argument("--load-mib", type=float, default=64.0, help="a second, of normal load")
    parser.add_argument("--load-connections", type=int, default=16)
    parser.add_argument("--load-body-bytes", type=int, default=256 * 1024)
    parser.add_argument("--rss-mib-max", type=float, default=512.0)
    parser.add_argument("--share-min", type=float, default=0.5, help="of the load alone")
    parser.add_argument("--senders-only", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    sys.exit(asyncio.run(main(parser.parse_args())))
