"""A node and the gateway's side of a conversation with it in one event loop: all of the product but
the socket, so that a test can say what becomes of single messages."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import NodeId
from svc_cluster.gateway.replica_client import ReplicaClient
from svc_cluster.link.errors import LinkLostError
from svc_cluster.link.session import NodeSession
from svc_cluster.model.stream_config import BasinConfig, NewStream
from svc_cluster.replica.host import HostSettings
from svc_cluster.replica.node import NodeConfig, ReplicaNode, Seams
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.memory_store import MemoryStore
from svc_cluster.storage.wal.settings import WalSettings

ONE = NodeId(1)
DEADLINE_SECONDS = 60.0


class Nobody:
    """There are no peers."""

    def has_room(self, peer: NodeId) -> bool:
        return True

    def send(self, peer: NodeId, group_id: int, message: Any) -> None: ...

    async def call(self, peer: NodeId, chunk: bytes) -> bytes:
        raise ConnectionError

    async def form(self, peer: NodeId, report: bytes) -> bytes:
        raise ConnectionError


class Wire:
    """Carries messages both ways, in order. `held`: answers that a caller that does not read
    leaves where they are."""

    def __init__(self, node: ReplicaNode, events: NodeSession) -> None:
        self._loop = asyncio.get_running_loop()
        self._events = events
        self.service = node.service.session(self._answer)
        self.requests: list[bytes] = []
        self.answers: list[bytes] = []
        self.held: list[bytes] | None = None
        self.is_up = True
        events.attach(self)
        events.link_up()

    def send(self, data: bytes) -> None:
        if not self.is_up:
            raise LinkLostError(sent=False)
        self.requests.append(data)
        self._loop.call_soon(self.service.message, data)

    def _answer(self, data: bytes) -> None:
        self.answers.append(data)
        if self.held is not None:
            self.held.append(data)
        else:
            self._loop.call_soon(self._deliver, data)

    def read_on(self) -> None:
        """The caller takes what was left, and everything from now on."""
        held, self.held = self.held or [], None
        for data in held:
            self._loop.call_soon(self._deliver, data)

    def _deliver(self, data: bytes) -> None:
        self.service.sent(len(data))
        self._events.message(data)

    async def close(self) -> None:
        self.service.close()


class Pair:
    def __init__(self, directory: Path) -> None:
        loop = asyncio.get_running_loop()
        self.disk = RealDisk(directory, loop)
        rng = random.Random(7)
        seams = Seams(
            loop=loop,
            clock=SystemClock(),
            rng=rng,
            disk=self.disk,
            store=MemoryStore(loop, rng),
            peers=Nobody(),
            snapshots=Nobody(),
            formation=Nobody(),
        )
        config = NodeConfig(
            cluster_id="c" * 32,
            node_id=ONE,
            addresses={ONE: "127.0.0.1:1"},
            host=HostSettings((ONE,), 1),
            wal=WalSettings(segment_bytes=8 * 1024 * 1024, reserve_bytes=1024 * 1024),
        )
        self.faults: list[BaseException] = []
        self.node = ReplicaNode(config, seams, on_fatal=self.faults.append)
        self.node.start()
        self.session = NodeSession(loop)
        self.wire = Wire(self.node, self.session)
        self.client = ReplicaClient(
            sessions={ONE: self.session},
            loop=loop,
            clock=SystemClock(),
            rng=rng,
            # a slow machine is not what is tested
            deadline_seconds=DEADLINE_SECONDS,
        )

    async def stream(self, basin: str, stream: str) -> None:
        """A basin with this stream."""
        async with asyncio.timeout(30):
            while self.node.host.catalog is None or not self.node.registered:
                await asyncio.sleep(0.01)
            await self.client.ensure_basin(basin, BasinConfig())
            await self.client.create_stream(basin, stream, NewStream())

    async def close(self) -> None:
        await self.client.close()
        await self.node.stop()
        await self.node.wal.close()
        self.disk.close()


@asynccontextmanager
async def pair(directory: Path) -> AsyncIterator[Pair]:
    made = Pair(directory)
    try:
        yield made
    finally:
        await made.close()
    assert not made.faults
