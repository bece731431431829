"""A write that the cluster knows by its key is sent again whatever became of it; others are not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import (
    AlreadyExistsError,
    DeadlineError,
    InternalError,
    RateLimitedError,
    ServiceError,
    StreamNotFoundError,
    UnavailableError,
)
from svc_cluster.base.ids import NodeId
from svc_cluster.codec import rpc
from svc_cluster.gateway.cluster.replica_client import ReplicaClient
from svc_cluster.link.session import NodeSession
from svc_cluster.model.record import AppendAck, StoredBatch
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.link.far import FarNode

KEY = b"k" * 32
BATCH = StoredBatch(b"r", 1, 9)
DEADLINE_S = 4.0
LATENCY_S = 0.05

Step = str | ServiceError
"""`ok`, `repeated`, `reset` (the connection ends), `silent`, or what is refused."""


class Node(FarNode):
    """The only node there is. Appends follow the script, the last step for ever."""

    def __init__(self, *steps: Step) -> None:
        self.loop = asyncio.get_running_loop()
        self.steps = list(steps)
        self.keys: list[bytes] = []
        super().__init__(NodeSession(self.loop))
        self.client = ReplicaClient(
            sessions={NodeId(1): self.session},
            loop=self.loop,
            clock=SimClock(self.loop),
            rng=random.Random(1),
            deadline_seconds=DEADLINE_S,
        )

    def asked(self, number: int, request: pb.Request) -> None:
        self.loop.call_later(LATENCY_S, self._receive, number, request)

    def _receive(self, number: int, request: pb.Request) -> None:
        response = pb.Response()
        if request.WhichOneof("operation") == "resolve_basin":
            response.basin.group_id = 2
            response.basin.replicas.append(1)
            response.basin.name = request.resolve_basin.basin
        elif not self._append(request, response):
            return
        self.answer(number, response)

    def _append(self, request: pb.Request, response: pb.Response) -> bool:
        self.keys.append(request.request_key)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        match step:
            case "silent":
                return False
            case "reset":
                self.reset()
                return False
            case ServiceError():
                rpc.refusal_to_pb(response.refusal, step)
            case _:
                response.append.end.seq_num = 1
                response.is_repeated = step == "repeated"
        return True

    async def append(self, key: bytes = KEY) -> AppendAck:
        return await self.client.append("basin-0001", "s", BATCH, None, None, request_key=key)


def on_loop(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run(lambda _: main())


def test_a_lost_answer_is_asked_for_again_under_the_same_key() -> None:
    """Until it comes, and says that it is a repetition."""

    async def main() -> None:
        node = Node("reset", DeadlineError("stopped"), "reset", "repeated")
        ack = await node.append()
        assert (ack.end.seq_num, ack.is_repeated) == (1, True)
        assert node.keys == [KEY] * 4
        assert node.client._directory._leaders.retries["repeated"] == 3

    on_loop(main)


def test_a_write_without_a_key_is_not_sent_again() -> None:
    """It may have happened, and nobody would know it again."""

    async def main() -> None:
        node = Node("reset", "ok")
        with pytest.raises(DeadlineError):
            await node.append(b"")
        assert node.keys == [b""]

    on_loop(main)


def test_a_key_is_of_one_write() -> None:
    """The client that it was made of has none."""

    async def main() -> None:
        node = Node("ok")
        assert not (await node.append()).is_repeated
        await node.client.append("basin-0001", "s", BATCH, None, None)
        assert node.keys == [KEY, b""]

    on_loop(main)


@pytest.mark.parametrize("steps", [("reset",), ("silent",), ("reset", UnavailableError("no"))])
def test_what_stays_unknown_until_the_deadline_may_have_happened(steps: tuple[Step, ...]) -> None:
    """Also when the last attempt certainly did nothing: the first may be under way."""

    async def main() -> None:
        node = Node(*steps)
        begun = node.loop.time()
        with pytest.raises(DeadlineError) as unknown:
            await node.append()
        assert unknown.value.may_have_taken_effect
        assert node.loop.time() - begun < DEADLINE_S + 1.0

    on_loop(main)


@pytest.mark.parametrize(
    ("refusal", "may_have"),
    [
        (AlreadyExistsError("there"), False),
        (StreamNotFoundError("gone"), True),
        (RateLimitedError("full", 77), True),
    ],
)
@pytest.mark.parametrize("is_second", [False, True])
def test_a_refusal_behind_a_lost_attempt(
    refusal: ServiceError, may_have: bool, is_second: bool
) -> None:
    """One that is kept settles the request; another one says nothing of the attempt before it."""

    async def main() -> None:
        node = Node(*(["reset"] if is_second else []), refusal)
        with pytest.raises(type(refusal)) as raised:
            await node.append()
        assert raised.value.may_have_taken_effect is (may_have and is_second)
        if isinstance(raised.value, RateLimitedError):
            assert raised.value.retry_after_ms == 77

    on_loop(main)


def test_a_fault_of_the_node_is_not_provoked_again() -> None:
    """An internal error would come again."""

    async def main() -> None:
        node = Node(InternalError("fault"))
        with pytest.raises(InternalError):
            await node.append()
        assert len(node.keys) == 1

    on_loop(main)
