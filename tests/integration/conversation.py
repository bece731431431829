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
from svc_cluster.base.tasks import Tasks
from svc_cluster.gateway.cluster.replica_client import ReplicaClient
from svc_cluster.link.calls import CallMessage, decode
from svc_cluster.link.conversation import Conversation, Terms
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.link.link_errors import LinkLostError
from svc_cluster.link.session import NodeSession
from svc_cluster.model.stream_config import BasinConfig, NewStream
from svc_cluster.replica.host_settings import HostSettings
from svc_cluster.replica.link_server import caller_of, terms_of
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.replica.node_parts import NodeConfig, Seams
from svc_cluster.replica.service_session import ServiceSession
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.payload.payload_settings import PayloadSettings
from svc_cluster.storage.wal.wal_settings import WalSettings
from tests.memory_store import MemoryStore

ONE = NodeId(1)
DEADLINE_SECONDS = 60.0


class Nobody:
    """There are no peers."""

    held_bytes = 0

    def names(self, feature: str, peer: NodeId) -> bool:
        return False

    def has_room(self, peer: NodeId) -> bool:
        return True

    def send(self, peer: NodeId, group_id: int, message: Any) -> None: ...

    async def call(self, peer: NodeId, chunk: bytes) -> bytes:
        raise ConnectionError

    async def form(self, peer: NodeId, report: bytes) -> bytes:
        raise ConnectionError

    def part(self) -> None: ...


class Wire:
    """A connection between the two, but for its socket: real conversations, whose bytes pass from
    hand to hand in order. `frozen`: the gateway's side reads nothing."""

    def __init__(
        self, node: ReplicaNode, events: NodeSession, features: tuple[str, ...] = ()
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._events = events
        self.requests: list[CallMessage] = []
        self.answers: list[CallMessage] = []
        self.longest: dict[FrameKind, int] = {}
        """Bytes of the longest message that arrived, of either side, by class."""
        self.frozen = False
        self.is_up = True
        self.given_up = ""
        """Why the node wants the conversation to end, if it does."""
        self._pump_scheduled = False
        gateway = Speaker(Identity("c" * 32, "gateway", NodeId(0), "g"), features)
        terms = Terms(b"secret", gateway, lambda _: None)
        self.caller: Any = None
        self.near = Conversation(terms, _Near(self), b"n" * 32, acceptor=False)
        self.far = Conversation(
            terms_of(node, b"secret"), _Far(self, node), b"f" * 32, acceptor=True
        )
        events.attach(self)
        self._pump()
        assert self.near.is_open and self.far.is_open

    @property
    def service(self) -> ServiceSession:
        """What the node keeps of this caller."""
        session: ServiceSession = self.caller.session
        return session

    @property
    def held_bytes(self) -> int:
        """What the two sides keep of each other's messages."""
        return self.near.held_bytes + self.far.held_bytes

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        if not self.is_up:
            raise LinkLostError(sent=False)
        self.near.send(kind, flow, payload)
        self._schedule()

    def knock(self) -> None: ...

    def has_credit(self, kind: FrameKind, size: int) -> bool:
        return self.near.outbox.credits[kind].allows(size)

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        self.near.dealt_with(kind, size)
        self._schedule()

    def read_on(self) -> None:
        """The caller takes what was left, and everything from now on."""
        self.frozen = False
        self._schedule()

    async def close(self) -> None:
        self.is_up = False
        self.caller.link_down()

    # -- what both sides tell

    def heard(self, sent: list[CallMessage], kind: FrameKind, payload: bytes) -> None:
        sent.append(decode(payload))
        self.longest[kind] = max(self.longest.get(kind, 0), len(payload))

    def _schedule(self) -> None:
        if not self._pump_scheduled:
            self._pump_scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_scheduled = False
        moved = True
        while moved and self.is_up:
            moved = False
            if data := b"".join(self.near.take()):
                self.far.receive(data)
                moved = True
            if not self.frozen and (data := b"".join(self.far.take())):
                self.near.receive(data)
                moved = True
        assert self.near.end is None and self.far.end is None


class _Near:
    """What the gateway's conversation tells."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def opened(self, speaker: Speaker) -> None:
        self._wire._events.link_up(speaker)

    def message(self, kind: FrameKind, payload: bytes) -> None:
        self._wire.heard(self._wire.answers, kind, payload)
        self._wire._events.message(kind, payload)

    def room(self, kind: FrameKind, size: int) -> None:
        self._wire._events.room(kind, size)


class _Far:
    """What the node's conversation tells, and its way back."""

    def __init__(self, wire: Wire, node: ReplicaNode) -> None:
        self._wire = wire
        self._node = node
        self._tasks = Tasks()

    def opened(self, speaker: Speaker) -> None:
        self._wire.caller = caller_of(self._node, speaker, self, self._tasks)

    def message(self, kind: FrameKind, payload: bytes) -> None:
        self._wire.heard(self._wire.requests, kind, payload)
        self._wire.caller.message(kind, payload)

    def room(self, kind: FrameKind, size: int) -> None:
        self._wire.caller.room(kind, size)

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        if not self._wire.is_up:
            raise LinkLostError(sent=False)
        self._wire.far.send(kind, flow, payload)
        self._wire._schedule()

    def waiting_bytes(self, kind: FrameKind) -> int:
        credit = self._wire.far.outbox.credits[kind]
        return credit.queued - credit.left

    def give_up(self, reason: str) -> None:
        self._wire.given_up = reason

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        if self._wire.is_up:
            self._wire.far.dealt_with(kind, size)
            self._wire._schedule()


class Pair:
    def __init__(
        self,
        directory: Path,
        features: tuple[str, ...] = (),
        payload: PayloadSettings = PayloadSettings(),
    ) -> None:
        """`features`: what the gateway names in its greeting."""
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
            wal=WalSettings(
                segment_bytes=8 * 1024 * 1024, reserve_bytes=1024 * 1024, payload=payload
            ),
        )
        self.faults: list[BaseException] = []
        self.node = ReplicaNode(config, seams, on_fatal=self.faults.append)
        self.node.start()
        self.session = NodeSession(loop)
        self.wire = Wire(self.node, self.session, features)
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
            while self.node.host.catalog is None or not self.node.registration.is_done:
                await asyncio.sleep(0.01)
            await self.client.ensure_basin(basin, BasinConfig())
            await self.client.create_stream(basin, stream, NewStream())

    async def close(self) -> None:
        await self.client.close()
        await self.node.stop()
        await self.node.wal.close()
        self.disk.close()


@asynccontextmanager
async def pair(
    directory: Path, features: tuple[str, ...] = (), payload: PayloadSettings = PayloadSettings()
) -> AsyncIterator[Pair]:
    made = Pair(directory, features, payload)
    try:
        yield made
    finally:
        await made.close()
    assert not made.faults
