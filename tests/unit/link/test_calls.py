"""Requests, answers and cancellations on a link that may refuse or break at any moment."""

from __future__ import annotations

import asyncio

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.link.calls import HEAD, CallError, CallEvents, Calls, Verb, decode, encode
from svc_cluster.link.frame import Kind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.link.outbox import NoCreditError
from svc_cluster.link.errors import LinkLostError

SPEAKER = Speaker(Identity("c1", "node", NodeId(2), "i1"))


class Far:
    """The other side, as a connector shows it: what was sent, and whether it takes more."""

    def __init__(self) -> None:
        self.is_up = True
        self.full = False
        self.sent: list[tuple[Kind, int, Verb, int, bytes]] = []
        self.dealt: list[tuple[Kind, int]] = []

    def send(self, kind: Kind, flow: int, payload: bytes) -> None:
        if not self.is_up:
            raise LinkLostError(sent=False)
        if self.full:
            raise NoCreditError
        self.sent.append((kind, flow, *decode(payload)))

    def dealt_with(self, kind: Kind, size: int) -> None:
        self.dealt.append((kind, size))


def pair() -> tuple[Calls, CallEvents, Far, list[str]]:
    told: list[str] = []
    calls = Calls(asyncio.get_running_loop())
    events = CallEvents(calls, lambda speaker: told.append("up"), lambda: told.append("down"))
    far = Far()
    events.attach(far)
    events.link_up(SPEAKER)
    return calls, events, far, told


def test_answers_find_their_requests_in_any_order() -> None:
    """Each request has a number of its own; an answer is given to that one and dealt with."""

    async def body() -> None:
        calls, events, far, _ = pair()
        futures = [calls.call(Kind.CALL, 7, b"ask %d" % n) for n in range(3)]
        numbers = [number for _, _, _, number, _ in far.sent]
        assert len(set(numbers)) == 3
        assert [row[:3] for row in far.sent] == [(Kind.CALL, 7, Verb.REQUEST)] * 3
        for number, text in reversed(list(zip(numbers, (b"a", b"b", b"c"), strict=True))):
            events.message(Kind.BULK, encode(Verb.ANSWER, number, text))
        assert [await future for future in futures] == [b"a", b"b", b"c"]
        assert far.dealt == [(Kind.BULK, HEAD.size + 1)] * 3
        assert calls.pending == 0
        assert all(verb is not Verb.CANCEL for _, _, verb, _, _ in far.sent)

    asyncio.run(body())


def test_a_request_that_is_refused_here_leaves_no_trace() -> None:
    """Neither a number nor a place in the table is used up, and the next caller's answer is its
    own."""

    async def body() -> None:
        calls, events, far, _ = pair()
        far.full = True
        with pytest.raises(NoCreditError):
            calls.call(Kind.CALL, 1, b"refused")
        far.full, far.is_up = False, False
        with pytest.raises(LinkLostError) as lost:
            calls.call(Kind.CALL, 1, b"refused too")
        assert lost.value.sent is False
        far.is_up = True
        assert calls.pending == 0 and far.sent == []
        future = calls.call(Kind.CALL, 1, b"taken")
        assert [(number, body) for _, _, _, number, body in far.sent] == [(1, b"taken")]
        events.message(Kind.CALL, encode(Verb.ANSWER, 1, b"mine"))
        assert await future == b"mine"

    asyncio.run(body())


def test_what_nobody_waits_for_is_cancelled_and_its_late_answer_dropped() -> None:
    """The other side hears it at once, ahead of everything else; once."""

    async def body() -> None:
        calls, events, far, _ = pair()
        future = calls.call(Kind.CALL, 1, b"slow")
        future.cancel()
        await asyncio.sleep(0)
        assert far.sent[1:] == [(Kind.URGENT, 0, Verb.CANCEL, 1, b"")]
        assert calls.pending == 0
        events.message(Kind.CALL, encode(Verb.ANSWER, 1, b"late"))
        assert far.dealt == [(Kind.CALL, HEAD.size + 4)], "it is dealt with all the same"
        late = calls.call(Kind.CALL, 1, b"expired")
        late.set_exception(TimeoutError())
        await asyncio.sleep(0)
        assert far.sent[-1] == (Kind.URGENT, 0, Verb.CANCEL, 2, b"")
        with pytest.raises(TimeoutError):
            await late

    asyncio.run(body())


def test_a_lost_connection_fails_all_that_was_asked_as_unknown() -> None:
    """Every request under way fails with sent=True and none of them is cancelled over the new
    connection, whose numbers go on."""

    async def body() -> None:
        calls, events, far, told = pair()
        futures = [calls.call(Kind.CALL, 1, b"x") for _ in range(2)]
        events.link_down()
        for future in futures:
            with pytest.raises(LinkLostError) as lost:
                await future
            assert lost.value.sent is True
        assert told == ["up", "down"] and calls.pending == 0
        await asyncio.sleep(0)
        assert len(far.sent) == 2
        calls.call(Kind.CALL, 1, b"y").cancel()
        assert far.sent[-1][3] == 3

    asyncio.run(body())


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x02", encode(Verb.ANSWER, 1)[:-1], HEAD.pack(9, 1), encode(Verb.REQUEST, 1, b"x")],
)
def test_what_is_no_answer_ends_the_conversation(payload: bytes) -> None:
    """It raises, which ends the connection: an unknown verb is never skipped."""

    async def body() -> None:
        _, events, far, _ = pair()
        with pytest.raises(CallError):
            events.message(Kind.CALL, payload)
        assert far.dealt == []

    asyncio.run(body())
