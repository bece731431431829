"""Requests to a node over a link that may break, or be full, at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId
from svc_cluster.codec.entry_since import NotActiveYetError
from svc_cluster.link.calls import HEAD, CallError, Verb, encode
from svc_cluster.link.credit import CREDIT_BYTES
from svc_cluster.link.features import TRACES
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.link_errors import LinkBusyError, LinkLostError
from svc_cluster.link.session import REQUEST_BYTES_MAX, NodeSession, RequestTooLongError
from svc_cluster.model.versions import Spoken
from tests.unit.link.far import SPEAKER, FarNode
from tests.unit.link.test_conversation import Side, open_pair

GROUP = GroupId(7)


class Line:
    """A connector's part over one side of a real conversation."""

    is_up = True

    @property
    def held_bytes(self) -> int:
        return self._talk.held_bytes

    def __init__(self, side: Side) -> None:
        self._talk = side.talk

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        self._talk.send(kind, flow, payload)

    def knock(self) -> None: ...

    def has_credit(self, kind: FrameKind, size: int) -> bool:
        return self._talk.outbox.credits[kind].allows(size)

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        self._talk.dealt_with(kind, size)

    async def close(self) -> None: ...


def tail_of(name: str) -> Callable[[pb.Request], None]:
    def fill(request: pb.Request) -> None:
        request.check_tail.stream = name

    return fill


def done() -> pb.Response:
    response = pb.Response()
    response.done.SetInParent()
    return response


def with_node(body: Callable[[NodeSession, FarNode], Coroutine[Any, Any, None]]) -> None:
    """Run `body` with a session whose link is up, and with the other end of it."""

    async def main() -> None:
        session = NodeSession(asyncio.get_running_loop())
        await body(session, FarNode(session))

    asyncio.run(main())


def test_each_call_is_a_message_and_answers_find_their_call_in_any_order() -> None:
    """They leave at once, in their order, under numbers of their own, with the group as the flow;
    an answer that nobody waits for is dropped; each is dealt with."""

    async def body(session: NodeSession, node: FarNode) -> None:
        calls = [session.call(GROUP, 100 + n, tail_of(f"s{n}")) for n in range(3)]
        assert [row[:4] for row in node.sent] == [
            (FrameKind.CALL, GROUP, Verb.REQUEST, number) for number in (1, 2, 3)
        ]
        asked = [pb.Request.FromString(body) for *_, body in node.sent]
        assert [(r.check_tail.stream, r.group_id, r.deadline_ms) for r in asked] == [
            ("s0", GROUP, 100),
            ("s1", GROUP, 101),
            ("s2", GROUP, 102),
        ]
        for number in (3, 999, 1, 2):
            node.answer(number, done())
        assert [(await call).id for call in calls] == [1, 2, 3]
        assert session.pending == 0
        assert len(node.dealt) == 4
        assert session.peer == SPEAKER
        await asyncio.sleep(0)
        assert node.cancelled == []

    with_node(body)


def test_a_call_while_the_link_is_down_was_not_sent() -> None:
    """It had no effect, and says so; it is not the refusal of a node that is busy."""

    async def body() -> None:
        session = NodeSession(asyncio.get_running_loop())
        node = FarNode(session, is_up=False)
        for _ in range(2):
            with pytest.raises(LinkLostError) as lost:
                await session.call(GROUP, 100, tail_of("s"))
            assert not lost.value.sent
            assert not isinstance(lost.value, LinkBusyError)
            session.link_up(SPEAKER)  # the session was told, the connection is gone already
        assert node.sent == [] and session.pending == 0

    asyncio.run(body())


def test_a_request_without_credit_is_not_written_down() -> None:
    """What it carries is told beforehand: with one megabyte left, one of two is refused before it
    is filled, on a connection with the real credit; one that fits is filled once and leaves."""

    async def body() -> None:
        near, far = open_pair()
        session = NodeSession(asyncio.get_running_loop())
        session.attach(Line(near))
        session.link_up(far.speaker)
        filled: list[int] = []

        def carrying(size: int) -> asyncio.Future[pb.Response]:
            def fill(request: pb.Request) -> None:
                filled.append(size)
                request.append.records = bytes(size)

            return session.call(GROUP, 100, fill, size=size)

        most = CREDIT_BYTES[FrameKind.CALL]
        waiting = [carrying(most // 4) for _ in range(3)]
        filled.clear()
        for size in (most // 4, most // 3):
            with pytest.raises(LinkBusyError):
                await carrying(size)
        assert filled == [] and session.pending == 3
        waiting.append(carrying(most // 8))
        assert filled == [most // 8] and session.pending == 4
        session.link_down()
        await asyncio.gather(*waiting, return_exceptions=True)
        with pytest.raises(LinkLostError):
            await carrying(1)
        assert filled == [most // 8], "nor for a link that is down"

    asyncio.run(body())


def test_a_call_that_left_before_the_link_broke_may_have_had_an_effect() -> None:
    """All that were under way, and none of them is answered, cancelled or sent again over the next
    connection."""

    async def body(session: NodeSession, node: FarNode) -> None:
        calls = [session.call(GROUP, 100, tail_of("sent")) for _ in range(3)]
        node.reset()
        for call in calls:
            with pytest.raises(LinkLostError) as lost:
                await call
            assert lost.value.sent
        node.answer(1, done())
        assert session.pending == 0 and len(node.sent) == 3
        await asyncio.sleep(0)
        later = session.call(GROUP, 100, tail_of("later"))
        assert node.sent[-1][3] == 4, "numbers are never used again"
        node.answer(4, done())
        assert (await later).id == 4

    with_node(body)


def test_a_node_that_has_too_much_to_deal_with_is_busy_and_nothing_was_sent() -> None:
    """The call fails at once, without a number and without harm to those before and behind it."""

    async def body(session: NodeSession, node: FarNode) -> None:
        first = session.call(GROUP, 100, tail_of("first"))
        node.full = True
        with pytest.raises(LinkBusyError) as busy:
            await session.call(GROUP, 100, tail_of("s"))
        assert not busy.value.sent
        assert session.pending == 1 and session.is_up
        node.full = False
        third = session.call(GROUP, 100, tail_of("third"))
        assert [row[3] for row in node.sent] == [1, 2]
        node.answer(2, done())
        node.answer(1, done())
        assert [(await first).id, (await third).id] == [1, 2]

    with_node(body)


def test_a_request_that_cannot_be_written_leaves_nothing_behind() -> None:
    """Half filled, or longer than a message of its class: the caller hears it, no number is used,
    and the longest one leaves."""

    async def body(session: NodeSession, node: FarNode) -> None:
        def broken(request: pb.Request) -> None:
            request.append.stream = "half"
            request.append.match_seq_num = 2**64

        with pytest.raises(ValueError, match="out of range"):
            _ = session.call(GROUP, 100, broken)

        def filling(count: int) -> Callable[[pb.Request], None]:
            def fill(request: pb.Request) -> None:
                request.append.records = bytes(count)

            return fill

        for kind in (FrameKind.URGENT, FrameKind.CALL):
            most = REQUEST_BYTES_MAX[kind]
            with pytest.raises(RequestTooLongError):
                _ = session.call(GROUP, 0, filling(most), kind)
            assert session.pending == 0 and len(node.sent) == (kind is FrameKind.CALL)
            longest = pb.Request(group_id=GROUP)
            longest.append.records = bytes(most - 20)
            left = most - longest.ByteSize()
            _ = session.call(GROUP, 0, filling(most - 20 + left), kind)
            assert len(node.sent[-1][4]) == most
            assert node.sent[-1][0] is kind
            session.link_down()
            session.link_up(SPEAKER)
        assert [row[3] for row in node.sent] == [1, 2]

    with_node(body)


def test_what_nobody_waits_for_is_cancelled_once_and_its_answer_dropped() -> None:
    """By whoever gives up, or by a timer: ahead of everything else."""

    async def body(session: NodeSession, node: FarNode) -> None:
        call = session.call(GROUP, 100, tail_of("s"))
        call.cancel()
        late = session.call(GROUP, 100, tail_of("late"))
        late.set_exception(TimeoutError())
        await asyncio.sleep(0)
        assert node.cancelled == [1, 2]
        assert [row[0] for row in node.sent if row[2] is Verb.CANCEL] == [FrameKind.URGENT] * 2
        assert session.pending == 0
        node.answer(1, done())
        assert len(node.dealt) == 1
        with pytest.raises(TimeoutError):
            await late
        node.full = True
        unheard = session.call(GROUP, 100, tail_of("s"))
        assert isinstance(unheard.exception(), LinkBusyError)
        await asyncio.sleep(0)
        assert node.cancelled == [1, 2], "what was never asked is not cancelled"

    with_node(body)


def test_an_answer_that_cannot_be_read_is_nobodys() -> None:
    """The conversation goes on, its bytes are dealt with, and its call waits for its deadline; what
    comes behind is read. What is no answer at all ends the conversation."""

    async def body(session: NodeSession, node: FarNode) -> None:
        first = session.call(GROUP, 100, tail_of("a"))
        second = session.call(GROUP, 100, tail_of("b"))
        session.message(FrameKind.CALL, encode(Verb.ANSWER, 1, b"\xff\xff\xff"))
        node.answer(2, done())
        assert (await second).id == 2
        assert not first.done() and session.pending == 1
        assert node.dealt[0] == (FrameKind.CALL, HEAD.size + 3)
        for payload in (encode(Verb.REQUEST, 1), encode(Verb.CANCEL, 1), b"\x02", b"\x63" * 9):
            with pytest.raises(CallError):
                session.message(FrameKind.CALL, payload)
        assert len(node.dealt) == 2 and not first.done()

    with_node(body)


def test_chunks_and_reports_go_their_own_ways() -> None:
    """A chunk of a snapshot is a transfer, a report on the formation a call; their answers are
    bytes as they came."""

    async def body(session: NodeSession, node: FarNode) -> None:
        chunk, report = session.chunk(b"chunk"), session.form(b"report")
        assert node.sent == [
            (FrameKind.TRANSFER, 0, Verb.SNAPSHOT, 1, b"chunk"),
            (FrameKind.CALL, 0, Verb.FORM, 2, b"report"),
        ]
        session.message(FrameKind.CALL, encode(Verb.ANSWER, 2, b"\xff own"))
        session.message(FrameKind.CALL, encode(Verb.ANSWER, 1, b""))
        assert (await chunk, await report) == (b"", b"\xff own")
        node.full = True
        with pytest.raises(LinkBusyError):
            await session.chunk(b"x")

    with_node(body)


def test_a_node_is_not_sent_what_it_would_pass_over() -> None:
    """A member that came with a later version than it speaks; all else is sent."""

    def fill(request: pb.Request) -> None:
        request.create_stream.stream = "s"
        request.create_stream.config.shared_caching = True

    async def main() -> None:
        session = NodeSession(asyncio.get_running_loop())
        node = FarNode(session)
        session.link_up(replace(SPEAKER, versions=Spoken(2, 2)))
        with pytest.raises(NotActiveYetError):
            _ = session.call(GROUP, 100, fill)
        assert not node.sent
        session.link_up(SPEAKER)
        call = session.call(GROUP, 100, fill)
        assert len(node.sent) == 1
        call.cancel()

    asyncio.run(main())


@pytest.mark.parametrize(("features", "is_carried"), [((), False), ((TRACES,), True)])
def test_a_trace_context_goes_only_to_a_node_that_takes_one(
    features: tuple[str, ...], is_carried: bool
) -> None:
    """What another node would skip without a word is not sent; the rest of the request is."""

    def fill(request: pb.Request) -> None:
        request.check_tail.stream = "s"
        request.trace.state = "a=1"

    async def main() -> None:
        session = NodeSession(asyncio.get_running_loop(), traces=True)
        node = FarNode(session)
        session.link_up(replace(SPEAKER, features=features))
        call = session.call(GROUP, 100, fill)
        ((*_, body),) = node.sent
        asked = pb.Request.FromString(body)
        assert asked.check_tail.stream == "s"
        assert asked.HasField("trace") is is_carried
        call.cancel()

    asyncio.run(main())
