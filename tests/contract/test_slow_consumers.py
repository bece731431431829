"""Consumers that read nothing: what each costs the gateway, whatever it asked for and however."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import socket
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
import uvloop

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.metrics import Metrics
from svc_cluster.codec.batch_codec import RecordIn
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.cluster.backend import ReadResult
from svc_cluster.http.server import serve
from svc_cluster.model.record import SequencedBatch
from svc_cluster.model.stream_config import BasinConfig, NewStream
from tests.at_once import build_batch
from tests.contract.h2_client import H2Session
from tests.contract.memory_backend import MemoryBackend

NAMES: Final = ("basin-name", "s")
COST_BYTES_MAX: Final = 1024 * 1024
CONSUMERS: Final = 4
DEADLINE: Final = 60.0
PATH: Final = "/v1/streams/s/records"
KINDS: Final = {
    "events": {"accept": "text/event-stream"},
    "text events": {"accept": "text/event-stream", "svc-format": "utf8"},
    "session": {"content-type": "svcs/proto"},
}
BATCHES: Final[dict[str, Callable[[], list[RecordIn]]]] = {
    "small records": lambda: [(None, [], os.urandom(1000)) for _ in range(1000)],
    "records of 900 KiB": lambda: [(None, [], os.urandom(900 * 1024))],
    "records that text makes six times as long": lambda: [(None, [], b"\1" * 100_000)] * 10,
    "records of many headers": lambda: [(None, [(b"n", b"v")] * 25_000, b"")] * 10,
}


class Copying(MemoryBackend):
    """Gives every reader bytes of its own, as a node's answers are."""

    async def read(self, *args: Any, **kwargs: Any) -> ReadResult:
        found = await super().read(*args, **kwargs)
        return replace(
            found,
            batches=tuple(
                SequencedBatch(batch.placement, bytes(bytearray(batch.records)))
                for batch in found.batches
            ),
        )


class Scene:
    """A gateway on a real socket over a backend in memory, and consumers that never read."""

    def __init__(self) -> None:
        clock = SystemClock()
        self.backend = Copying(clock)
        self.metrics = Metrics()
        self.app = GatewayApp(self.backend, clock=clock, rng=random.Random(1), metrics=self.metrics)
        self.port = 0
        self.open: list[socket.socket | H2Session] = []

    async def put(self, records: list[RecordIn], times: int) -> None:
        batch = build_batch(records)
        for _ in range(times):
            await self.backend.append(*NAMES, batch, None, None)

    async def connect(self, protocol: str, headers: dict[str, str], query: str) -> None:
        """A consumer that has been answered, and of the answer's body reads nothing."""
        self.open.append(await asyncio.to_thread(self._connect, protocol, headers, query))

    def _connect(
        self, protocol: str, headers: dict[str, str], query: str
    ) -> socket.socket | H2Session:
        path = f"{PATH}?{query}"
        if protocol == "HTTP/2":
            session = H2Session("127.0.0.1", self.port, window=65_535)
            response = session.start("GET", path, {"svc-basin": NAMES[0], **headers}, end=True)
            session.pump(lambda: bool(response.status))
            assert response.status == 200
            return session
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        sock.connect(("127.0.0.1", self.port))
        lines = [f"GET {path} HTTP/1.1", "host: localhost", f"svc-basin: {NAMES[0]}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        assert sock.recv(12) == b"HTTP/1.1 200"
        return sock

    async def stalled(self) -> None:
        """Until nothing is given to any consumer any more, nor made for one in steps."""
        turns = self.app._services.turns
        async with asyncio.timeout(DEADLINE):
            quiet, before = 0, -1.0
            while quiet < 10:
                await asyncio.sleep(0.02)
                now = self.metrics.read_bytes._value.get()
                is_quiet = now == before and not turns._is_taken
                quiet = quiet + 1 if is_quiet else 0
                before = now

    def held_bytes(self) -> int:
        """Without what all consumers share, which has bounds of its own."""
        gc.collect()
        tails = self.app._services.tails
        shared = tails.encodings.held_bytes + tails._left.held_bytes
        return tracemalloc.get_traced_memory()[0] - shared


def run(main: Callable[[Scene], Any]) -> Any:
    async def body() -> Any:
        scene = Scene()
        await scene.backend.create_basin(NAMES[0], BasinConfig())
        await scene.backend.create_stream(*NAMES, NewStream())
        server = await serve(scene.app, "127.0.0.1", 0)
        scene.port = server.port
        try:
            async with asyncio.timeout(4 * DEADLINE):
                return await main(scene)
        finally:
            for consumer in scene.open:
                consumer.close()
            await server.close(0.1)
            await scene.app.close()

    tracemalloc.start()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(body())
    finally:
        tracemalloc.stop()


# Each kind of batch, kind of answer and protocol, not all of them together.
@pytest.mark.parametrize(
    ("protocol", "kind", "what"),
    [
        ("HTTP/1.1", "events", "small records"),
        ("HTTP/2", "session", "small records"),
        ("HTTP/1.1", "session", "records of 900 KiB"),
        ("HTTP/2", "events", "records of 900 KiB"),
        ("HTTP/1.1", "text events", "records that text makes six times as long"),
        ("HTTP/2", "events", "records of many headers"),
    ],
)
def test_a_consumer_of_stored_records_that_never_reads_costs_at_most_a_mebibyte(
    protocol: str, kind: str, what: str
) -> None:
    """Measured as what Python holds more for each of several consumers, beside two that were there
    before."""

    async def main(scene: Scene) -> float:
        await scene.put(BATCHES[what](), 1 + CONSUMERS)
        for _ in range(2):
            await scene.connect(protocol, KINDS[kind], "seq_num=0")
        await scene.stalled()
        before = scene.held_bytes()
        for at in range(1, 1 + CONSUMERS):
            # At places of their own, so that they share as little as can be.
            await scene.connect(protocol, KINDS[kind], f"seq_num={at}")
        await scene.stalled()
        return (scene.held_bytes() - before) / CONSUMERS

    cost = run(main)
    print(f"{protocol} {kind}, {what}: {cost / 1024:.0f} KiB")
    assert cost <= COST_BYTES_MAX


@pytest.mark.parametrize(("protocol", "kind"), [("HTTP/1.1", "events"), ("HTTP/2", "session")])
def test_a_follower_that_stops_reading_costs_at_most_a_mebibyte(protocol: str, kind: str) -> None:
    """Beside the shared tail, while 8 MiB more are appended."""

    async def main(scene: Scene) -> float:
        records = BATCHES["small records"]()
        for _ in range(2):
            await scene.connect(protocol, KINDS[kind], "")
        await scene.put(records, 4)
        await scene.stalled()
        before = scene.held_bytes()
        for _ in range(CONSUMERS):
            await scene.connect(protocol, KINDS[kind], "tail_offset=0")
        for _ in range(8):
            await scene.put(records, 1)
            await scene.stalled()
        # The stream itself is in this process too.
        stored = 8 * len(build_batch(records).records)
        return (scene.held_bytes() - before - stored) / CONSUMERS

    cost = run(main)
    print(f"{protocol} {kind}, live: {cost / 1024:.0f} KiB")
    assert cost <= COST_BYTES_MAX
