"""A link to a node that misbehaves: it says why it ended, comes back, and holds little."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from svc_cluster.link.grpc_link import (
    BULK_BYTES_MAX,
    CHANNEL_OPTIONS,
    QUEUE_BYTES_MAX,
    GrpcLink,
)

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId
from svc_cluster.link.errors import LinkLostError
from svc_cluster.link.session import NodeSession

Talk = Callable[[AsyncIterator[bytes], Any], Awaitable[None]]
METHOD = "/svc.cluster.v1.Replica/Session"
SECONDS = 20.0


def with_node(talk: Talk, body: Callable[[str], Awaitable[None]]) -> None:
    """`talk` is the node's side of every conversation; `body` gets its address."""

    async def run() -> None:
        server = grpc.aio.server(options=CHANNEL_OPTIONS)
        handler = grpc.stream_stream_rpc_method_handler(talk)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("svc.cluster.v1.Replica", {"Session": handler}),)
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with asyncio.timeout(SECONDS):
                await body(f"127.0.0.1:{port}")
        finally:
            await server.stop(0)

    asyncio.run(run())


def link_to(address: str, events: Any) -> GrpcLink:
    return GrpcLink(
        address=address,
        method=METHOD,
        metadata=lambda: (),
        events=events,
        rng=random.Random(1),
        tls=None,
        server_name="",
    )


def taken(link: GrpcLink, data: bytes, *, is_bulk: bool) -> bool:
    try:
        link.send(data, is_bulk=is_bulk)
    except LinkLostError:
        return False
    return True


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


def test_what_is_no_answer_ends_the_link_once_and_it_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The first conversation's answer is no message at all: whoever asked is told that nothing is
    known, the reason is in one warning, and the next conversation serves."""
    conversations = 0

    async def talk(requests: AsyncIterator[bytes], context: Any) -> None:
        nonlocal conversations
        conversations += 1
        number = conversations
        await context.send_initial_metadata(())
        async for data in requests:
            answers = pb.ResponseBatch()
            for request in pb.RequestBatch.FromString(data).requests:
                answers.responses.add(id=request.id).done.SetInParent()
            await context.write(b"\xff\xff" if number == 1 else answers.SerializeToString())

    async def body(address: str) -> None:
        session = NodeSession(asyncio.get_running_loop())
        session.attach(link_to(address, session))
        await until(lambda: session.is_up)
        with pytest.raises(LinkLostError) as lost:
            await session.call(GroupId(1), 1000, lambda r: r.ping.SetInParent())
        assert lost.value.sent
        await until(lambda: session.is_up)
        answer = await session.call(GroupId(1), 1000, lambda r: r.ping.SetInParent())
        assert answer.WhichOneof("result") == "done"
        await session.close()

    with_node(talk, body)
    (line,) = [line for line in caplog.records if line.message == "link_ended"]
    assert line.levelname == "WARNING"
    assert "not a batch" in line.fields["reason"]  # type: ignore[attr-defined]
    assert conversations == 2


def test_a_fault_of_ours_in_a_link_does_not_end_it_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever the owner of the link raises when a message comes: it is told of, and the link is
    made again."""
    ups: list[int] = []

    class Faulty:
        def link_up(self) -> None:
            ups.append(1)

        def link_down(self) -> None:
            if len(ups) == 2:
                raise ZeroDivisionError

        def message(self, data: bytes) -> None:
            raise KeyError(data)

    async def talk(requests: AsyncIterator[bytes], context: Any) -> None:
        await context.send_initial_metadata(())
        await context.write(b"hello")
        async for _ in requests:
            pass

    async def body(address: str) -> None:
        link = link_to(address, Faulty())
        await until(lambda: len(ups) >= 4)
        await link.close()

    with_node(talk, body)
    assert {line.levelname for line in caplog.records if line.message == "link_failed"} == {"ERROR"}


def test_what_waits_for_a_node_that_does_not_read_is_bounded() -> None:
    """Entries are refused at a bound of their own, so that there is room for what is small."""

    class Quiet:
        is_up = False

        def link_up(self) -> None:
            self.is_up = True

        def link_down(self) -> None: ...

        def message(self, data: bytes) -> None: ...

    over = asyncio.Event()

    async def talk(requests: AsyncIterator[bytes], context: Any) -> None:
        await context.send_initial_metadata(())
        await over.wait()

    async def body(address: str) -> None:
        events = Quiet()
        link = link_to(address, events)
        await until(lambda: events.is_up)
        bulk = bytes(4 * 1024 * 1024)
        refused = 0
        for _ in range(100):
            refused += not taken(link, bulk, is_bulk=True)
            await asyncio.sleep(0)
        assert refused > 50
        assert link.queued_bytes <= BULK_BYTES_MAX
        heartbeats = 0
        while taken(link, bytes(1024), is_bulk=False):
            heartbeats += 1
        assert heartbeats >= (QUEUE_BYTES_MAX - BULK_BYTES_MAX) // 1024
        assert link.queued_bytes <= QUEUE_BYTES_MAX
        over.set()
        await link.close()

    with_node(talk, body)
