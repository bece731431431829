"""Unary appends over a session with a node: which of them leave as one request."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import NodeId
from svc_cluster.base.tracing import TraceContext
from svc_cluster.gateway.cluster.replica_client import ReplicaClient
from svc_cluster.link.session import NodeSession
from svc_cluster.model.cipher import StreamIdentity
from svc_cluster.model.leader_stages import LeaderStages
from svc_cluster.model.record import AppendAck, CommandKind, CommandRecord, StoredBatch
from svc_cluster.model.versions import JOINED_APPENDS, Spoken
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.link.far import SPEAKER, FarNode

LATENCY_S = 0.05


class Node(FarNode):
    """Leads the only basin, and appends in the order of asking."""

    def __init__(self, newest: int = JOINED_APPENDS) -> None:
        self.loop = asyncio.get_running_loop()
        self.appends: list[pb.Request] = []
        self.records = 0
        super().__init__(NodeSession(self.loop), is_up=False)
        self.is_up = True
        self.session.link_up(replace(SPEAKER, versions=Spoken(2, newest)))
        self.client = ReplicaClient(
            sessions={NodeId(1): self.session},
            loop=self.loop,
            clock=SimClock(self.loop),
            rng=random.Random(1),
        )

    def asked(self, number: int, request: pb.Request) -> None:
        self.loop.call_later(LATENCY_S, self._receive, number, request)

    def _receive(self, number: int, request: pb.Request) -> None:
        response = pb.Response()
        if request.WhichOneof("operation") == "resolve_basin":
            response.basin.group_id = 2
            response.basin.replicas.append(1)
            response.basin.name = request.resolve_basin.basin
        else:
            self.appends.append(request)
            ack = response.append
            ack.start.seq_num, ack.start.timestamp_ms = self.records, 5
            self.records += request.append.record_count
            ack.end.seq_num, ack.end.timestamp_ms = self.records, 5
            ack.tail.CopyFrom(ack.end)
            response.stages.queue_us = 7
        self.answer(number, response)

    async def together(self, *asks: Coroutine[Any, Any, AppendAck]) -> list[tuple[int, int]]:
        """What each is acknowledged; they come in one turn of the loop, behind another append."""
        await self.append(StoredBatch(b"0", 1, 9))
        acks = await asyncio.gather(*asks)
        return [(ack.start.seq_num, ack.end.seq_num) for ack in acks]

    def append(self, batch: StoredBatch, **told: Any) -> Coroutine[Any, Any, AppendAck]:
        asked: dict[str, Any] = {"match_seq_num": None, "fencing_token": None, **told}
        return self.client.append("basin-0001", "s", batch, **asked)


class Watch:
    """Is told where the time went."""

    def __init__(self, trace: TraceContext | None = None) -> None:
        self.trace = trace
        self.told: list[LeaderStages] = []

    def led(self, stages: LeaderStages) -> None:
        self.told.append(stages)


def on_loop(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run(lambda _: main())


def test_what_leaves_together_says_how_many_it_stands_for() -> None:
    async def main() -> None:
        node = Node()
        watches = [Watch() for _ in range(3)]
        batches = [StoredBatch(b"a", 1, 9), StoredBatch(b"bb", 2, 20), StoredBatch(b"c", 1, 9)]
        asks = [
            node.append(batch, watch=watch) for batch, watch in zip(batches, watches, strict=True)
        ]
        assert await node.together(*asks) == [(1, 2), (2, 4), (4, 5)]
        alone, joined = (request.append for request in node.appends)
        assert (alone.requests, joined.requests) == (0, 3)
        assert (joined.records, joined.record_count, joined.metered_bytes) == (b"abbc", 4, 38)
        assert not joined.HasField("match_seq_num") and not joined.HasField("timestamp_max_ms")
        assert [watch.told for watch in watches] == [[LeaderStages(queue=7e-6)]] * 3

    on_loop(main)


def test_what_is_set_apart_goes_by_itself() -> None:
    """A condition, a fencing token, a request token, a trace, commands, timestamps, a seal."""

    async def main() -> None:
        node = Node()
        plain = StoredBatch(b"p", 1, 9)
        fence = CommandRecord(0, CommandKind.FENCE, token="t")
        trace = Watch(TraceContext(b"t" * 16, b"s" * 8, ""))
        apart: list[tuple[StoredBatch, dict[str, Any]]] = [
            (plain, {"match_seq_num": 1}),
            (plain, {"fencing_token": "t"}),
            (plain, {"request_key": b"k" * 32}),
            (plain, {"watch": trace}),
            (replace(plain, commands=(fence,)), {}),
            (replace(plain, timestamps_given=1, timestamp_max_ms=3), {}),
            (replace(plain, sealed_for=StreamIdentity(2, 1, None)), {}),
        ]
        # two of each: one that joins has another to join
        asks = [node.append(batch, **told) for batch, told in apart for _ in range(2)]
        found = await node.together(*asks)
        assert sorted(found) == [(n, n + 1) for n in range(1, len(asks) + 1)]
        assert [request.append.requests for request in node.appends] == [0] * (len(asks) + 1)
        assert sum(request.HasField("trace") for request in node.appends) == 2

    on_loop(main)


def test_a_node_that_would_count_them_as_one_is_asked_one_by_one() -> None:
    """So does a release before this one, in a cluster in which releases are mixed."""

    async def main() -> None:
        node = Node(newest=JOINED_APPENDS - 1)
        asks = [node.append(StoredBatch(b"x", 1, 9)) for _ in range(3)]
        assert sorted(await node.together(*asks)) == [(1, 2), (2, 3), (3, 4)]
        assert [request.append.requests for request in node.appends] == [0] * 4

    on_loop(main)
