"""The batches of one session between a gateway and nodes that move, refuse and fall silent."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import (
    HotServerError,
    SeqNumMismatchError,
    ServiceError,
)
from svc_cluster.base.ids import NodeId, StreamId
from svc_cluster.codec import rpc
from svc_cluster.gateway.cluster.replica_client import ReplicaClient
from svc_cluster.link.session import NodeSession
from svc_cluster.model.record import StoredBatch
from svc_cluster.stream.journal import Journal
from svc_cluster.stream.sessions import Sessions
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.link.far import FarNode

NODES = (NodeId(1), NodeId(2))
LATENCY_S = 0.05
STREAM = StreamId(1)


class Cluster:
    """Two nodes, one of which leads and appends at once; what it appends is committed. `faults`
    are taken by the number of the arriving append, from 0, wherever it arrives."""

    def __init__(self, faults: dict[int, str] | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.loop = loop
        self.faults = faults or {}
        self.leader = NODES[0]
        self.log: list[bytes] = []
        self.arrived: list[tuple[int, int]] = []
        """(node, number) of each append."""
        self.known = {node: Sessions() for node in NODES}
        self.links = {node: Node(self, node) for node in NODES}
        self.client = ReplicaClient(
            sessions={node: link.session for node, link in self.links.items()},
            loop=loop,
            clock=SimClock(loop),
            rng=random.Random(1),
        )
        self.appends = self.client.open_appends("basin-0001", "s")

    def put(self, *bodies: bytes, match: int | None = None) -> None:
        for body in bodies:
            self.appends.put(StoredBatch(body, 1, 9), match, None)

    async def acks(self, count: int) -> list[int]:
        return [(await self.appends.next_ack()).start.seq_num for _ in range(count)]

    def move(self) -> None:
        self.known[self.leader].clear()
        self.leader = NodeId(3 - self.leader)

    def append(self, node: NodeId, request: pb.Request) -> pb.Response | None:
        """What the node answers; None: nothing."""
        fault = self.faults.get(len(self.arrived))
        sequence = rpc.session_sequence_from_pb(request.append)
        assert sequence is not None, "every batch of a session is numbered"
        self.arrived.append((node, sequence.number))
        if fault == "move":
            self.move()
        if fault == "full":
            return refusal(HotServerError())
        if fault == "lost":
            return None
        if node != self.leader:
            return refusal(rpc.NotLeaderHereError(self.leader))
        try:
            self.known[node].check(sequence, STREAM)
            if request.append.HasField("match_seq_num"):
                raise SeqNumMismatchError(len(self.log))
        except ServiceError as error:
            return refusal(error)
        self.known[node].take(sequence, STREAM, Journal())
        self.log.append(request.append.records)
        if fault == "forgotten":
            self.known[node].clear()
        if fault == "unanswered":
            return None
        response = pb.Response()
        response.append.start.seq_num = len(self.log) - 1
        return response


def refusal(error: ServiceError) -> pb.Response:
    response = pb.Response()
    rpc.refusal_to_pb(response.refusal, error)
    return response


class Node(FarNode):
    """The other end of one session. Messages and answers take a while, in their order."""

    def __init__(self, cluster: Cluster, node: NodeId) -> None:
        self.cluster = cluster
        self.node = node
        super().__init__(NodeSession(cluster.loop))

    def asked(self, number: int, request: pb.Request) -> None:
        self.cluster.loop.call_later(LATENCY_S, self._arrive, number, request)

    def _arrive(self, number: int, request: pb.Request) -> None:
        response: pb.Response | None = pb.Response()
        assert response is not None
        match request.WhichOneof("operation"):
            case "append":
                response = self.cluster.append(self.node, request)
            case "resolve_basin":
                response.basin.name = request.resolve_basin.basin
                response.basin.group_id = 7
                response.basin.replicas.extend(NODES)
            case _:
                response.done.SetInParent()
        if response is not None:
            self.cluster.loop.call_later(LATENCY_S, self.answer, number, response)


def bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def play(main: Callable[[Cluster], Coroutine[Any, Any, Any]], **faults: Any) -> Any:
    async def inside(_: Any) -> Any:
        cluster = Cluster(faults.get("faults"))
        try:
            return await main(cluster)
        finally:
            cluster.appends.close()
            await cluster.client.close()

    return run(inside)


def test_batches_are_on_their_way_together() -> None:
    """Twenty take no longer than the first and one more round trip; acks come in order."""

    async def main(cluster: Cluster) -> None:
        cluster.put(*bodies(20))
        assert await cluster.acks(1) == [0]
        begun = cluster.loop.time()
        assert await cluster.acks(19) == list(range(1, 20))
        assert cluster.loop.time() - begun == pytest.approx(2 * LATENCY_S)
        assert cluster.arrived == [(1, number) for number in range(20)]
        cluster.put(b"20", b"21")
        assert await cluster.acks(2) == [20, 21]
        assert cluster.log == bodies(22)

    play(main)


@pytest.mark.parametrize("fault", ["move", "full", "forgotten"])
@pytest.mark.parametrize("at", [0, 1, 5])
def test_the_session_goes_on_behind_what_had_no_effect(fault: str, at: int) -> None:
    """A leader that moves, refuses one batch or forgets the session: what was refused and all that
    was sent behind it is sent again, in order, and each is appended once."""

    async def main(cluster: Cluster) -> None:
        cluster.put(*bodies(8))
        assert await cluster.acks(8) == list(range(8))
        assert cluster.log == bodies(8)

    play(main, faults={at: fault})


@pytest.mark.parametrize("at", [1, 2, 5])
def test_batches_that_find_no_room_are_sent_again_with_all_behind_them(at: int) -> None:
    """The node takes nothing for a while in the midst of a turn: what it was not asked had no
    effect, what was sent behind it neither, and in the end each is there once, in order."""

    async def main(cluster: Cluster) -> None:
        link = cluster.links[NODES[0]]
        asked, appends = link.asked, [0]

        def counted(number: int, request: pb.Request) -> None:
            asked(number, request)
            if request.WhichOneof("operation") == "append":
                appends[0] += 1
                if appends[0] == at:
                    link.full = True
                    cluster.loop.call_later(0.3, setattr, link, "full", False)

        link.asked = counted  # type: ignore[method-assign]
        cluster.put(*bodies(8))
        assert await cluster.acks(8) == list(range(8))
        assert cluster.log == bodies(8)
        assert cluster.client._directory._leaders.retries["busy"] > 0

    play(main)


def test_behind_a_failed_condition_nothing_is_appended() -> None:
    """The batches behind it, which have none, are there neither then nor later."""

    async def main(cluster: Cluster) -> None:
        cluster.put(b"0", b"1")
        cluster.put(b"refused", match=17)
        cluster.put(b"3", b"4")
        assert await cluster.acks(2) == [0, 1]
        with pytest.raises(SeqNumMismatchError) as refused:
            await cluster.appends.next_ack()
        assert refused.value.tail_seq_num == 2
        await asyncio.sleep(10)
        assert cluster.log == [b"0", b"1"]

    play(main)


@pytest.mark.parametrize(("fault", "there"), [("lost", 2), ("unanswered", 6)])
def test_a_batch_of_unknown_outcome_ends_the_session(fault: str, there: int) -> None:
    """It is not sent again. Those behind it are there if it is, and not if it is not."""

    async def main(cluster: Cluster) -> None:
        cluster.put(*bodies(6))
        assert await cluster.acks(2) == [0, 1]
        with pytest.raises(ServiceError) as unknown:
            await cluster.appends.next_ack()
        assert unknown.value.may_have_taken_effect
        cluster.appends.close()
        await asyncio.sleep(10)
        assert cluster.log == bodies(there)

    play(main, faults={2: fault})


def test_a_connection_that_breaks_leaves_the_sent_unknown() -> None:
    """One broken before anything was sent under it is tried elsewhere."""

    async def main(cluster: Cluster) -> None:
        cluster.put(*bodies(4))
        assert await cluster.acks(1) == [0]
        await asyncio.sleep(1.5 * LATENCY_S)
        cluster.links[NODES[0]].session.link_down()
        with pytest.raises(ServiceError) as unknown:
            await cluster.appends.next_ack()
        assert unknown.value.may_have_taken_effect
        assert cluster.log == bodies(4)

        cluster.appends = cluster.client.open_appends("basin-0001", "s")
        cluster.move()
        cluster.put(b"4", b"5")
        assert await cluster.acks(2) == [4, 5]

    play(main)


def test_a_session_that_nobody_serves_ends_at_its_deadline() -> None:
    """That of its first batch without an acknowledgement, counted from when it was first sent."""

    async def main(cluster: Cluster) -> None:
        cluster.put(*bodies(3))
        assert await cluster.acks(3) == [0, 1, 2]
        cluster.leader = NodeId(3)
        cluster.put(b"3")
        begun = cluster.loop.time()
        with pytest.raises(ServiceError):
            await cluster.appends.next_ack()
        assert cluster.loop.time() - begun == pytest.approx(4, abs=0.2)
        assert cluster.log == bodies(3)

    play(main)


FAULTS = st.dictionaries(
    st.integers(0, 30), st.sampled_from(["move", "full", "forgotten", "lost", "unanswered"])
)


@settings(deadline=None, max_examples=60)
@given(FAULTS, st.integers(1, 12), st.lists(st.floats(0, 0.3), max_size=12))
def test_whatever_happens_the_first_batches_are_there_in_order(
    faults: dict[int, str], count: int, pauses: list[float]
) -> None:
    """All that is acknowledged and nothing with a hole before it; where the session ends without
    an effect exactly what was acknowledged, then and later."""

    async def main(cluster: Cluster) -> None:
        async def send() -> None:
            for number, body in enumerate(bodies(count)):
                if number < len(pauses):
                    await asyncio.sleep(pauses[number])
                cluster.put(body)
                put.set()

        put = asyncio.Event()
        sending = asyncio.ensure_future(send())
        acked = 0
        exact = True
        try:
            while acked < count:
                while not cluster.appends._under_way:
                    put.clear()
                    await put.wait()
                ack = await cluster.appends.next_ack()
                assert ack.start.seq_num == acked
                acked += 1
        except ServiceError as error:
            exact = not error.may_have_taken_effect
        sending.cancel()
        cluster.appends.close()
        await asyncio.sleep(10)
        assert cluster.log == bodies(count)[: len(cluster.log)]
        assert len(cluster.log) == acked if exact else len(cluster.log) >= acked

    play(main, faults=faults)
