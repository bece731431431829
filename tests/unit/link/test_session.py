"""Requests and answers over a link that may break at any moment."""

from __future__ import annotations

import asyncio

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId
from svc_cluster.link.errors import LinkLostError
from svc_cluster.link.session import NodeSession


class Wire:
    """A link whose other end is the test."""

    def __init__(self) -> None:
        self.sent: list[pb.RequestBatch] = []
        self.broken = False

    def send(self, data: bytes) -> None:
        if self.broken:
            raise LinkLostError(sent=False)
        self.sent.append(pb.RequestBatch.FromString(data))

    async def close(self) -> None: ...


def tail_of(name: str):  # type: ignore[no-untyped-def]
    def fill(request: pb.Request) -> None:
        request.check_tail.stream = name

    return fill


def answer(*ids: int) -> bytes:
    batch = pb.ResponseBatch()
    for request_id in ids:
        batch.responses.add(id=request_id).done.SetInParent()
    return batch.SerializeToString()


async def flushed() -> None:
    """The session flushes at the end of a turn of the loop."""
    await asyncio.sleep(0)


def session_on(wire: Wire) -> NodeSession:
    session = NodeSession(asyncio.get_running_loop())
    session.attach(wire)
    session.link_up()
    return session


def test_calls_of_one_turn_leave_in_one_message_and_answers_find_their_call() -> None:
    """Answers may come in any order and in any grouping."""

    async def body() -> None:
        wire = Wire()
        session = session_on(wire)
        calls = [session.call(GroupId(7), 100, tail_of(f"s{n}")) for n in range(3)]
        await flushed()
        assert [len(batch.requests) for batch in wire.sent] == [3]
        assert [r.check_tail.stream for r in wire.sent[0].requests] == ["s0", "s1", "s2"]
        ids = [r.id for r in wire.sent[0].requests]
        session.message(answer(ids[2]))
        session.message(answer(ids[0], ids[1], 999))
        assert [(await call).id for call in calls] == ids
        assert session.pending == 0

    asyncio.run(body())


def test_a_call_while_the_link_is_down_was_not_sent() -> None:
    """It had no effect, and says so."""

    async def body() -> None:
        session = NodeSession(asyncio.get_running_loop())
        with pytest.raises(LinkLostError) as lost:
            await session.call(GroupId(7), 100, tail_of("s"))
        assert not lost.value.sent

    asyncio.run(body())


def test_a_call_that_left_before_the_link_broke_may_have_had_an_effect() -> None:
    """Sent and unsent calls are told apart at the moment of the loss."""

    async def body() -> None:
        wire = Wire()
        session = session_on(wire)
        sent = session.call(GroupId(7), 100, tail_of("sent"))
        await flushed()
        unsent = session.call(GroupId(7), 100, tail_of("unsent"))
        session.link_down()
        with pytest.raises(LinkLostError) as lost:
            await sent
        assert lost.value.sent
        with pytest.raises(LinkLostError) as lost:
            await unsent
        assert not lost.value.sent
        await flushed()
        assert len(wire.sent) == 1

    asyncio.run(body())


def test_a_link_that_refuses_the_bytes_fails_the_calls_of_that_message() -> None:
    """A full queue is the same as no connection: nothing was sent."""

    async def body() -> None:
        wire = Wire()
        session = session_on(wire)
        wire.broken = True
        call = session.call(GroupId(7), 100, tail_of("s"))
        with pytest.raises(LinkLostError) as lost:
            await call
        assert not lost.value.sent

    asyncio.run(body())
