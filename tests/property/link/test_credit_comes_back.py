"""Requests are answered, refused, given up at any moment, or too much. Whatever becomes of them,
what they cost is given back on both sides, once."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.ids import GroupId
from svc_cluster.base.tasks import Tasks
from svc_cluster.link.calls import Verb, decode
from svc_cluster.link.conversation import Conversation
from svc_cluster.link.frame import CLASSES, FrameKind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.link_errors import LinkBusyError, LinkLostError
from svc_cluster.link.session import NodeSession
from svc_cluster.replica.roles import GATEWAY, CallerRights
from svc_cluster.replica.service_session import ServiceSession
from tests.unit.link.test_conversation import Side, open_pair

SIZES = (1, 100, 5_000, 300_000, 1_500_000)


class CallerEnd:
    """A gateway: its session on its side of a conversation."""

    def __init__(self, side: Side, acceptor: Speaker) -> None:
        self.talk: Conversation = side.talk
        side.message = self.message  # type: ignore[method-assign]
        self.is_up = True
        self.session = NodeSession(asyncio.get_running_loop())
        self.session.attach(self)
        self.session.link_up(acceptor)

    @property
    def held_bytes(self) -> int:
        return self.talk.held_bytes

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        if not self.is_up:
            raise LinkLostError(sent=False)
        self.talk.send(kind, flow, payload)

    def knock(self) -> None: ...

    def has_credit(self, kind: FrameKind, size: int) -> bool:
        return self.talk.outbox.credits[kind].allows(size)

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        self.talk.dealt_with(kind, size)

    def message(self, kind: FrameKind, payload: bytes) -> None:
        self.session.message(kind, payload)

    async def close(self) -> None: ...


class NodeEnd:
    """A node: answers when the test lets it, some in tasks."""

    def __init__(self, side: Side, rng: random.Random) -> None:
        self.talk: Conversation = side.talk
        side.message = self.message  # type: ignore[method-assign]
        side.room = self.room  # type: ignore[method-assign]
        self.loop = asyncio.get_running_loop()
        self.rng = rng
        self.tasks = Tasks()
        self.gates: deque[asyncio.Event] = deque()
        self.asked: list[int] = []
        self.session = ServiceSession(self, self)

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        self.talk.send(kind, flow, payload)

    def waiting_bytes(self, kind: FrameKind) -> int:
        return 0

    def give_up(self, reason: str) -> None:
        raise AssertionError(reason)

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        self.talk.dealt_with(kind, size)

    def message(self, kind: FrameKind, payload: bytes) -> None:
        verb, number, body = decode(payload)
        if verb is Verb.CANCEL:
            self.session.cancel(number)
            self.dealt_with(kind, len(payload))
        else:
            self.session.request(kind, number, body, len(payload), CallerRights(GATEWAY))

    def room(self, kind: FrameKind, size: int) -> None:
        self.session.left(kind, size)

    def dispatch(self, session: ServiceSession, request: pb.Request) -> None:
        what = self.rng.random()
        if what < 0.1:
            raise RuntimeError("a fault of the operation")
        if what < 0.4:
            self.asked.append(request.id)
            return
        gate = asyncio.Event()
        self.gates.append(gate)
        task = self.tasks.spawn_one(self._work(request, gate), "request")
        session.works(request.id, task, self.rng.choice((FrameKind.CALL, FrameKind.BULK)))

    async def _work(self, request: pb.Request, gate: asyncio.Event) -> None:
        await gate.wait()
        self.answer(request.id)

    def answer(self, number: int) -> None:
        if self.rng.random() < 0.2:
            self.session.refuse(number, UnavailableError("not now"))
        else:
            name = "x" * self.rng.choice((*SIZES, 4_000_000))
            self.session.respond(number, lambda out: setattr(out.stream, "name", name))


def move(a: Conversation, b: Conversation, most: int | None = None) -> bool:
    """Pass what waits on, in pieces."""
    data = b"".join(a.take() if most is None else a.outbox.take(most))
    for start in range(0, len(data), 70_000):
        b.receive(data[start : start + 70_000])
    return bool(data)


def all_came_back(sender: Conversation, receiver: Conversation) -> None:
    for kind in CLASSES:
        sent, taken = sender.outbox.credits[kind], receiver._inbox.credits[kind]
        assert sent.queued == sent.left == taken.arrived == taken.dealt_with, kind
    assert sender.held_bytes == 0


@pytest.mark.parametrize("seed", range(16))
def test_credit_comes_back_on_both_sides(seed: int) -> None:
    async def body() -> None:
        rng = random.Random(seed)
        sides = open_pair()
        caller, node = CallerEnd(sides[0], sides[1].speaker), NodeEnd(sides[1], rng)
        waiting: list[asyncio.Future[Any]] = []

        def fill(request: pb.Request) -> None:
            request.check_tail.stream = "s" * rng.choice(SIZES)

        for _ in range(250):
            what = rng.random()
            if what < 0.4:
                kind = rng.choice(
                    (FrameKind.CALL, FrameKind.CALL, FrameKind.CALL, FrameKind.URGENT)
                )
                size = (lambda r: r.ping.SetInParent()) if kind is FrameKind.URGENT else fill
                waiting.append(caller.session.call(GroupId(rng.randrange(3)), 1000, size, kind))
            elif what < 0.5 and waiting:
                rng.choice(waiting).cancel()
            elif what < 0.55 and waiting:
                late = rng.choice(waiting)
                if not late.done():
                    late.set_exception(TimeoutError())
            elif what < 0.65 and node.asked:
                node.answer(node.asked.pop(rng.randrange(len(node.asked))))
            elif what < 0.75 and node.gates:
                node.gates.popleft().set()
            elif what < 0.88:
                move(caller.talk, node.talk, rng.choice((1, 10**6)))
            else:
                move(node.talk, caller.talk, rng.choice((1, 10**6)))
            if rng.random() < 0.3:
                await asyncio.sleep(0)
        is_moving = True
        while is_moving or node.asked or node.gates:
            while node.asked:
                node.answer(node.asked.pop())
            while node.gates:
                node.gates.popleft().set()
            for _ in range(4):
                await asyncio.sleep(0)
            is_moving = move(caller.talk, node.talk) | move(node.talk, caller.talk)
        assert caller.talk.end is None and node.talk.end is None
        assert all(future.done() for future in waiting)
        for future in waiting:
            fault = None if future.cancelled() else future.exception()
            assert fault is None or isinstance(fault, TimeoutError | LinkBusyError)
        session = node.session
        assert (session.asked_bytes, session.pending, session.unsent) == (0, 0, 0)
        assert caller.session.pending == 0
        all_came_back(caller.talk, node.talk)
        all_came_back(node.talk, caller.talk)
        # what the caller has not told yet, because it is less than a quarter of the credit
        assert session.room.taken_bytes == node.talk.outbox.credits[FrameKind.BULK].under_way
        session.close()

    asyncio.run(asyncio.wait_for(body(), 30))
