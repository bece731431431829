"""What a plain request costs the gateway: `python -m tests.benchmarks.plain_requests`.

One gateway's application over a backend in memory listens twice in this process, with the HTTP
library for every request and with plain requests served without it. A client process appends 1 KiB
in JSON to one and to the other by turns. Printed is a JSON object for each number of connections:
the processor microseconds of this process for an append, both ways (medians), and the ratio of the
second to the first, turn by turn: median, least and most.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import random
import sys
import time
from statistics import median
from typing import Final

import uvloop

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.http.server import Server, serve
from svc_cluster.model.stream_config import BasinConfig, NewStream
from tests.contract.memory_backend import MemoryBackend

BASIN: Final = "plain-requests"
STREAM: Final = "s"
BODY_BYTES: Final = 1024


def request() -> bytes:
    body = base64.b64encode(random.Random(0).randbytes(BODY_BYTES)).decode()
    content = json.dumps({"records": [{"body": body}]}).encode()
    lines = [
        f"POST /v1/streams/{STREAM}/records HTTP/1.1",
        "host: localhost:8080",
        "user-agent: benchmark/1",
        "accept: */*",
        f"svc-basin: {BASIN}",
        "content-type: application/json",
        f"content-length: {len(content)}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


class _Sender(asyncio.Protocol):
    """One request after the other, until it is told to stop. The answers are small."""

    done = 0

    def __init__(self, sent: bytes) -> None:
        self._sent = sent
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]  # uvloop's is no subclass
        self._transport.write(self._sent)

    def data_received(self, data: bytes) -> None:
        assert data.startswith(b"HTTP/1.1 200"), data
        _Sender.done += 1
        self._transport.write(self._sent)


async def client(port: int, connections: int, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    sent = request()
    for _ in range(connections):
        await loop.create_connection(lambda: _Sender(sent), "127.0.0.1", port)
    await asyncio.sleep(seconds)
    print(_Sender.done)


async def turn(server: Server, connections: int, seconds: float) -> float:
    """Processor microseconds for an append."""
    begun = time.process_time()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.benchmarks.plain_requests"),
        *("--client", str(server.port), str(connections), str(seconds)),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    return (time.process_time() - begun) * 1e6 / int(output)


async def measure(turns: int, seconds: float) -> None:
    clock = SystemClock()
    backend = MemoryBackend(clock)
    await backend.create_basin(BASIN, BasinConfig())
    await backend.create_stream(BASIN, STREAM, NewStream())
    app = GatewayApp(backend, clock=clock, rng=random.Random(0), metrics=Metrics(process=True))
    app.start()
    library = await serve(app, "127.0.0.1", 0, plain=False)
    plain = await serve(app, "127.0.0.1", 0)
    for connections in (1, 64, 256):
        costs: list[tuple[float, float]] = []
        for number in range(turns):
            pair = [library, plain] if number % 2 else [plain, library]
            found = {each: await turn(each, connections, seconds) for each in pair}
            costs.append((found[library], found[plain]))
        ratios = sorted(after / before for before, after in costs)
        told = {
            "connections": connections,
            "library_us": round(median(before for before, _ in costs), 1),
            "plain_us": round(median(after for _, after in costs), 1),
            "ratio": round(median(ratios), 3),
            "least_and_most": [round(ratios[0], 3), round(ratios[-1], 3)],
        }
        print(json.dumps(told), flush=True)
    await library.close(0.1)
    await plain.close(0.1)
    await app.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each turn")
    parser.add_argument("--client", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        port, connections, seconds = arguments.client
        work = client(int(port), int(connections), float(seconds))
    else:
        work = measure(arguments.turns, arguments.seconds)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


if __name__ == "__main__":
    main()
