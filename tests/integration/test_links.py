"""A link to a node that misbehaves: it says why it ended, comes back, and holds little."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.link.acceptor import Acceptor
from svc_cluster.link.calls import Verb, decode, encode
from svc_cluster.link.connector import Connector
from svc_cluster.link.conversation import Terms
from svc_cluster.link.credit import CREDIT_BYTES
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.link.link_errors import LinkBusyError, LinkLostError
from svc_cluster.link.outbox import NoCreditError
from svc_cluster.link.session import REQUEST_BYTES_MAX, NodeSession, RequestTooLongError
from svc_cluster.link.wire import Wire

SECONDS = 60.0
SECRET = b"s" * 32


def terms(role: str, node: int) -> Callable[[], Terms]:
    speaker = Speaker(Identity("c", role, NodeId(node), "i"))
    return lambda: Terms(SECRET, speaker, lambda _: None)


class Talk:
    """The node's side of one conversation. `heard` says what becomes of a message."""

    def __init__(
        self, wire: Wire, number: int, heard: Callable[[Talk, FrameKind, bytes], None]
    ) -> None:
        self.wire = wire
        self.number = number
        """Counts the conversations from 1."""

        self._heard = heard

    def message(self, kind: FrameKind, payload: bytes) -> None:
        self._heard(self, kind, payload)

    def room(self, kind: FrameKind, size: int) -> None: ...

    def link_down(self) -> None: ...


def with_node(
    heard: Callable[[Talk, FrameKind, bytes], None],
    body: Callable[[str, list[Talk]], Awaitable[None]],
    begin: Callable[[Talk], None] = lambda _: None,
) -> None:
    """A node that hears and begins conversations so; `body` gets its address."""

    async def run() -> None:
        talks: list[Talk] = []

        def welcome(_: Speaker, wire: Wire) -> Talk:
            talks.append(Talk(wire, len(talks) + 1, heard))
            # the welcome itself is still to be queued
            asyncio.get_running_loop().call_soon(begin, talks[-1])
            return talks[-1]

        acceptor = Acceptor(asyncio.get_running_loop(), terms("node", 1), welcome)
        port = await acceptor.start("127.0.0.1", 0)
        try:
            async with asyncio.timeout(SECONDS):
                await body(f"127.0.0.1:{port}", talks)
        finally:
            await acceptor.close("the test is over")

    asyncio.run(run())


def link_to(address: str, events: Any) -> Connector:
    connector = Connector(
        loop=asyncio.get_running_loop(),
        address=address,
        terms=terms("gateway", 0),
        events=events,
        rng=random.Random(1),
        tls=None,
        server_name="",
    )
    connector.start()
    return connector


def session_to(address: str) -> NodeSession:
    session = NodeSession(asyncio.get_running_loop())
    session.attach(link_to(address, session))
    return session


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


def ping(request: pb.Request) -> None:
    request.ping.SetInParent()


def done(number: int) -> bytes:
    response = pb.Response(id=number)
    response.done.SetInParent()
    return encode(Verb.ANSWER, number, response.SerializeToString())


@pytest.mark.parametrize(
    ("nonsense", "reason"),
    [
        (b"\xff" * 20, "the unknown verb 255"),
        (b"\x02", "a message of 1 bytes"),
        (encode(Verb.REQUEST, 1), "REQUEST from the side that answers"),
        (encode(Verb.PEER, 0), "PEER from the side that answers"),
    ],
)
def test_what_is_no_answer_ends_the_link_once_and_it_comes_back(
    caplog: pytest.LogCaptureFixture, nonsense: bytes, reason: str
) -> None:
    """The first conversation's answer is no message at all: whoever asked is told that nothing is
    known, the reason is in one warning, and the next conversation serves."""

    def heard(talk: Talk, kind: FrameKind, payload: bytes) -> None:
        talk.wire.dealt_with(kind, len(payload))
        answer = nonsense if talk.number == 1 else done(decode(payload).number)
        talk.wire.send(FrameKind.CALL, 0, answer)

    async def body(address: str, talks: list[Talk]) -> None:
        session = session_to(address)
        await until(lambda: session.is_up)
        with pytest.raises(LinkLostError) as lost:
            await session.call(GroupId(1), 1000, ping)
        assert lost.value.sent
        await until(lambda: session.is_up)
        answer = await session.call(GroupId(1), 1000, ping)
        assert answer.WhichOneof("result") == "done"
        assert session.pending == 0
        await session.close()
        assert len(talks) == 2

    with_node(heard, body)
    (line,) = [
        line
        for line in caplog.records
        if line.message == "link_ended" and "closed" not in line.fields["reason"]  # type: ignore[attr-defined]
    ]
    assert line.levelname == "WARNING"
    assert reason in line.fields["reason"]  # type: ignore[attr-defined]


def test_an_answer_that_cannot_be_read_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever waits for it goes by its own deadline; the conversation and the others go on; an
    answer to nothing, or to what was answered, is dropped."""

    def heard(talk: Talk, kind: FrameKind, payload: bytes) -> None:
        talk.wire.dealt_with(kind, len(payload))
        verb, number, _ = decode(payload)
        if verb is Verb.CANCEL:
            return
        if number == 1:
            talk.wire.send(FrameKind.CALL, 0, encode(Verb.ANSWER, number, b"\xff\xff"))
            return
        for each in (number, number, number + 1000):
            talk.wire.send(FrameKind.CALL, 0, done(each))

    async def body(address: str, talks: list[Talk]) -> None:
        session = session_to(address)
        await until(lambda: session.is_up)
        unread = session.call(GroupId(1), 1000, ping)
        for _ in range(3):
            answer = await session.call(GroupId(1), 1000, ping)
            assert answer.WhichOneof("result") == "done"
        assert not unread.done()
        assert session.pending == 1
        unread.cancel()
        await asyncio.sleep(0)
        assert session.pending == 0
        await session.close()
        assert len(talks) == 1

    with_node(heard, body)
    assert [line.message for line in caplog.records].count("answers_unreadable") == 1


def test_a_fault_of_ours_in_a_link_does_not_end_it_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever the owner of the link raises when it comes up, goes down, has a message or room:
    it is told of, and the link is made again."""
    ups: list[int] = []
    links: list[Connector] = []

    class Faulty:
        def link_up(self, speaker: Speaker) -> None:
            ups.append(1)
            if len(ups) == 3:
                raise ZeroDivisionError

        def link_down(self) -> None:
            if len(ups) == 2:
                raise ZeroDivisionError

        def message(self, kind: FrameKind, payload: bytes) -> None:
            link = links[0]
            if len(ups) == 1:
                link.send(
                    FrameKind.CALL, 0, bytes(CREDIT_BYTES[FrameKind.CALL] // 4)
                )  # room is to come
                return
            raise KeyError(payload)

        def room(self, kind: FrameKind, size: int) -> None:
            raise IndexError(size)

    async def body(address: str, _: list[Talk]) -> None:
        links.append(link := link_to(address, Faulty()))
        await until(lambda: len(ups) >= 5)
        await link.close()

    with_node(
        lambda talk, kind, payload: talk.wire.dealt_with(kind, len(payload)),
        body,
        lambda talk: talk.wire.send(FrameKind.CALL, 0, b"hello"),
    )
    failed = [line for line in caplog.records if line.message == "link_failed"]
    assert {line.levelname for line in failed} == {"ERROR"}
    faults = [type(line.exc_info[1]) for line in failed if line.exc_info]
    assert faults[:4] == [IndexError, KeyError, ZeroDivisionError, ZeroDivisionError]


class Quiet:
    """Hears of nothing but the beginning."""

    is_up = False

    def link_up(self, speaker: Speaker) -> None:
        self.is_up = True

    def link_down(self) -> None: ...

    def message(self, kind: FrameKind, payload: bytes) -> None: ...

    def room(self, kind: FrameKind, size: int) -> None: ...


def taken(link: Connector, kind: FrameKind, data: bytes) -> bool:
    try:
        link.send(kind, 0, data)
    except NoCreditError:
        return False
    return True


def test_what_waits_for_a_node_that_does_not_read_is_bounded() -> None:
    """Each class is refused at a bound of its own, so that there is room for what is small however
    many entries wait; and what is urgent arrives before them."""
    order: list[FrameKind] = []

    async def body(address: str, _: list[Talk]) -> None:
        events = Quiet()
        link = link_to(address, events)
        await until(lambda: events.is_up)
        for kind in (FrameKind.TRANSFER, FrameKind.BULK, FrameKind.CALL):
            refused = 0
            for _attempt in range(50):
                refused += not taken(link, kind, bytes(1024 * 1024))
                await asyncio.sleep(0)
            assert refused == 50 - CREDIT_BYTES[kind] // (1024 * 1024)
            assert link.under_way(kind) <= CREDIT_BYTES[kind]
        heartbeats = 0
        while taken(link, FrameKind.URGENT, bytes(1024)):
            heartbeats += 1
        assert heartbeats == CREDIT_BYTES[FrameKind.URGENT] // 1024
        assert link.held_bytes <= sum(CREDIT_BYTES.values())
        await until(lambda: order.count(FrameKind.URGENT) == heartbeats)
        await link.close()

    # the node hears all of it and deals with nothing
    with_node(lambda _talk, kind, _payload: order.append(kind), body)


def test_a_session_with_a_node_that_deals_with_nothing_says_so_at_once() -> None:
    """Requests beyond the credit fail at once, as ones that never left, and leave nothing behind;
    one that no node would take is refused however much credit there is."""

    async def body(address: str, _: list[Talk]) -> None:
        session = session_to(address)
        await until(lambda: session.is_up)

        def large(request: pb.Request) -> None:
            request.append.stream = "x" * (1024 * 1024)

        asked = [session.call(GroupId(1), 1000, large) for _ in range(20)]
        await asyncio.sleep(0)
        busy = [future for future in asked if future.done()]
        assert len(busy) >= 20 - CREDIT_BYTES[FrameKind.CALL] // (1024 * 1024)
        for future in busy:
            fault = future.exception()
            assert isinstance(fault, LinkBusyError) and not fault.sent
        assert session.pending == len(asked) - len(busy)
        assert session.is_up, "the connection is well"
        with pytest.raises(RequestTooLongError):
            _never = session.call(
                GroupId(1),
                1000,
                lambda r: setattr(r.append, "stream", "x" * REQUEST_BYTES_MAX[FrameKind.CALL]),
            )
        await session.close()
        for future in asked:
            if future not in busy:
                with pytest.raises(LinkLostError) as lost:
                    await future
                assert lost.value.sent, "nobody knows what became of it"

    with_node(lambda _talk, _kind, _payload: None, body)
