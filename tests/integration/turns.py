"""A node on a real event loop, a real disk and a real store, full of what it may hold, and the
instrument of production that tells how long a message keeps the loop.

Whoever talks to it stands where the socket would: what is said goes to whoever deals with a proven
caller's messages, and answers are kept unread until the measurement is over.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.metrics import Metrics
from svc_cluster.base.tasks import Tasks
from svc_cluster.cli.processes.loop_turns import LoopTurns
from svc_cluster.codec.formation_report import decode_report, encode_report
from svc_cluster.link.calls import HEAD, Verb, decode, encode
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.raft.messages import PeerMessage
from svc_cluster.replica.host_settings import HostSettings
from svc_cluster.replica.link_server import caller_of
from svc_cluster.replica.machine import EntryPlan
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.replica.node_parts import NodeConfig, Seams
from svc_cluster.replica.peers import RAFT
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.rocks_store import RocksStore
from svc_cluster.storage.wal.wal_settings import WalSettings
from tests.turn_bound import TURN_BOUND_SECONDS

T = TypeVar("T")

CLUSTER: Final = "7" * 32
ME: Final = NodeId(1)
OTHER: Final = NodeId(2)
ANSWER_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.005
"""Twice as often as in production: a turn is told by that much too short."""
LOOKS: Final = 3
"""Looks of the instrument that follow upon an answer: the turn that gave it is in one of them."""


class Turn(NamedTuple):
    """Processor time of one turn, as production tells it, and what it was seen doing."""

    seconds: float
    seen: list[str]


class Peers:
    """The other nodes: they have formed a cluster with this one, and what it tells them is kept."""

    held_bytes = 0

    def __init__(self) -> None:
        self.sent: list[tuple[NodeId, GroupId, PeerMessage]] = []

    def names(self, feature: str, peer: NodeId) -> bool:
        return False

    def has_room(self, peer: NodeId) -> bool:
        return True

    def send(self, peer: NodeId, group_id: GroupId, message: PeerMessage) -> None:
        self.sent.append((peer, group_id, message))

    async def call(self, peer: NodeId, chunk: bytes) -> bytes:
        raise ConnectionError("nobody is there")

    async def form(self, peer: NodeId, report: bytes) -> bytes:
        told = decode_report(report)
        return encode_report(replace(told, node_id=peer, incarnation=incarnation(peer)))

    def part(self) -> None: ...


def incarnation(node: NodeId) -> str:
    return f"{node:032x}"


class Line:
    """A proven caller's conversation."""

    def __init__(self, node: ReplicaNode, speaker: Speaker, tasks: Tasks) -> None:
        self._caller = caller_of(node, speaker, self, tasks)
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._number = 0

    def say(self, verb: Verb, body: bytes, kind: FrameKind) -> asyncio.Future[bytes]:
        """The future has the answer."""
        self._number += 1
        future = self._waiting[self._number] = self._loop.create_future()
        self._caller.message(kind, encode(verb, self._number, body))
        return future

    def tell(self, verb: Verb, body: bytes, kind: FrameKind) -> None:
        """What is not answered."""
        self._caller.message(kind, encode(verb, 0, body))

    # -- the node's way back

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        _, number = HEAD.unpack_from(payload)
        future = self._waiting.pop(number)
        if not future.done():
            future.set_result(payload)
        self._loop.call_soon(self._caller.room, kind, len(payload))

    def waiting_bytes(self, kind: FrameKind) -> int:
        return 0

    def give_up(self, reason: str) -> None:
        raise AssertionError(reason)

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        assert size > 0


class Full:
    """One of `size` nodes. `turns` has the processor time of each turn since it was emptied, in
    seconds, as production counts it."""

    def __init__(self, directory: Path, size: int, peers: Peers | None = None) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self.disk = RealDisk(directory / "wal", loop)
        self.store = RocksStore(directory / "state", loop)
        self.peers = Peers() if peers is None else peers
        self.faults: list[BaseException] = []
        nodes = tuple(NodeId(number) for number in range(1, size + 1))
        seams = Seams(
            loop=loop,
            clock=SystemClock(),
            rng=random.Random(size),
            disk=self.disk,
            store=self.store,
            peers=self.peers,
            snapshots=self.peers,
            formation=self.peers,
        )
        config = NodeConfig(
            cluster_id=CLUSTER,
            node_id=ME,
            addresses={node: f"127.0.0.1:{node}" for node in nodes},
            host=HostSettings(nodes, size),
            wal=WalSettings(segment_bytes=64 << 20, reserve_bytes=1 << 20),
        )
        self.node = ReplicaNode(config, seams, on_fatal=self.faults.append)
        self.node.start()
        self.tasks = Tasks()
        self.gateway = Line(
            self.node, Speaker(Identity(CLUSTER, "gateway", NodeId(0), "g")), self.tasks
        )
        node = Identity(CLUSTER, "node", OTHER, incarnation(OTHER))
        self.own = Line(
            self.node,
            Speaker(Identity(CLUSTER, "node", ME, self.node.identity.incarnation)),
            self.tasks,
        )
        if size > 1:
            self.service = Line(self.node, Speaker(node), self.tasks)
            self.raft = Line(self.node, Speaker(node, (RAFT,)), self.tasks)
        self.turns: list[Turn] = []
        self._watching = loop.create_task(
            LoopTurns(Metrics(), look_seconds=LOOK_SECONDS, tell=self._note).run()
        )

    def _note(self, seconds: float, seen: list[str]) -> None:
        self.turns.append(Turn(seconds, seen))

    async def looked(self) -> None:
        """Until the instrument has told of everything up to here."""
        seen = len(self.turns)
        async with asyncio.timeout(ANSWER_SECONDS):
            while len(self.turns) < seen + LOOKS:
                await asyncio.sleep(LOOK_SECONDS)

    async def longest(self, act: Callable[[], Awaitable[T]]) -> tuple[Turn, T]:
        """The longest turn while `act` is said, from the loop as by a socket, and until what it
        returns is there; and that."""
        await self.looked()
        self.turns.clear()
        said: asyncio.Future[Awaitable[T]] = self._loop.create_future()
        self._loop.call_soon(lambda: said.set_result(act()))
        async with asyncio.timeout(ANSWER_SECONDS):
            brought = await (await said)
        await self.looked()
        return max(self.turns), brought

    async def ask(self, request: pb.Request) -> pb.Response:
        """Of a gateway, outside of any measurement."""
        answer = await self.gateway.say(Verb.REQUEST, request.SerializeToString(), FrameKind.CALL)
        return pb.Response.FromString(decode(answer).body)

    async def open(self) -> None:
        """Until it has a catalog; alone, until it leads that."""
        is_alone = len(self.node.config.addresses) == 1
        async with asyncio.timeout(ANSWER_SECONDS):
            while self.node.host.catalog is None or (
                is_alone and not self.node.registration.is_done
            ):
                await asyncio.sleep(0.01)

    async def flushed(self) -> None:
        """Everything applied so far is in the store's tables."""
        done = asyncio.Event()
        self.store.flush(done.set)
        await done.wait()

    async def close(self) -> None:
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        await self.tasks.cancel_all()
        await self.node.stop()
        await self.node.wal.close()
        self.store.close()
        self.disk.close()
        assert not self.faults


def proposed(full: Full, group_id: GroupId, payload: bytes) -> asyncio.Future[list[Any]]:
    """An entry of the test's own making; the future has the outcomes of its commands."""
    replica = full.node.host.replica(group_id)
    assert replica is not None
    done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    def settled(plan: EntryPlan[Any] | None, error: BaseException | None) -> None:
        assert plan is not None, error
        done.set_result(list(plan.outcomes))

    replica.group.propose(payload, SystemClock().monotonic() + ANSWER_SECONDS, settled)
    return done


async def propose(full: Full, group_id: GroupId, entries: Iterable[bytes]) -> None:
    """Entries of the test's own making, all of them applied."""
    await asyncio.gather(*(proposed(full, group_id, payload) for payload in entries))


ATTEMPTS: Final = 3


def kept_short(attempt: Callable[[int], list[tuple[str, Turn]]]) -> None:
    """One attempt of a few has no long turn in it."""
    told = []
    for number in range(ATTEMPTS):
        turns = attempt(number)
        told.append([(what, round(turn.seconds * 1000, 1), turn.seen) for what, turn in turns])
        if all(turn.seconds <= TURN_BOUND_SECONDS for _, turn in turns):
            return
    pytest.fail(f"turns longer than {TURN_BOUND_SECONDS * 1000} ms of processor: {told}")


@asynccontextmanager
async def full(directory: Path, size: int, peers: Peers | None = None) -> AsyncIterator[Full]:
    made = Full(directory, size, peers)
    try:
        await made.open()
        yield made
    finally:
        await made.close()
