"""Requests, answers and cancellations on a link that may refuse or break at any moment."""

from __future__ import annotations

import asyncio

import pytest

from svc_cluster.link.calls import (
    HEAD,
    CallError,
    Calls,
    UnreadableAnswerError,
    Verb,
    decode,
    encode,
)
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.link_errors import LinkBusyError, LinkLostError
from svc_cluster.link.outbox import NoCreditError


class Far:
    """The other side, as a connector shows it: what was sent, and whether it takes more."""

    def __init__(self) -> None:
        self.is_up = True
        self.full = False
        self.sent: list[tuple[FrameKind, int, Verb, int, bytes]] = []

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        if not self.is_up:
            raise LinkLostError(sent=False)
        if self.full:
            raise NoCreditError
        self.sent.append((kind, flow, *decode(payload)))

    def has_credit(self, kind: FrameKind, size: int) -> bool:
        return not self.full

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        raise AssertionError("whoever takes the messages deals with them")


def pair() -> tuple[Calls, Far]:
    calls = Calls(asyncio.get_running_loop())
    far = Far()
    calls.attach(far)
    return calls, far


def test_answers_find_their_requests_in_any_order() -> None:
    """Each request has a number of its own; an answer is given to that one and dealt with."""

    async def body() -> None:
        calls, far = pair()
        futures = [calls.call(FrameKind.CALL, 7, b"ask %d" % n, bytes) for n in range(3)]
        numbers = [number for _, _, _, number, _ in far.sent]
        assert len(set(numbers)) == 3
        assert [row[:3] for row in far.sent] == [(FrameKind.CALL, 7, Verb.REQUEST)] * 3
        for number, text in reversed(list(zip(numbers, (b"a", b"b", b"c"), strict=True))):
            calls.answered(number, text)
        assert [await future for future in futures] == [b"a", b"b", b"c"]
        assert calls.pending == 0
        assert all(verb is not Verb.CANCEL for _, _, verb, _, _ in far.sent)

    asyncio.run(body())


def test_a_request_that_is_refused_here_leaves_no_trace() -> None:
    """Neither a number nor a place in the table is used up, and the next caller's answer is its
    own."""

    async def body() -> None:
        calls, far = pair()
        far.full = True
        with pytest.raises(LinkBusyError):
            _ = calls.call(FrameKind.CALL, 1, b"refused", bytes)
        far.full, far.is_up = False, False
        with pytest.raises(LinkLostError) as lost:
            _ = calls.call(FrameKind.CALL, 1, b"refused too", bytes)
        assert lost.value.sent is False
        far.is_up = True
        assert calls.pending == 0 and far.sent == []
        future = calls.call(FrameKind.CALL, 1, b"taken", bytes)
        assert [(number, body) for _, _, _, number, body in far.sent] == [(1, b"taken")]
        calls.answered(1, b"mine")
        assert await future == b"mine"

    asyncio.run(body())


def test_what_nobody_waits_for_is_cancelled_and_its_late_answer_dropped() -> None:
    """The other side hears it at once, ahead of everything else; once."""

    async def body() -> None:
        calls, far = pair()
        future = calls.call(FrameKind.CALL, 1, b"slow", bytes)
        future.cancel()
        await asyncio.sleep(0)
        assert far.sent[1:] == [(FrameKind.URGENT, 0, Verb.CANCEL, 1, b"")]
        assert calls.pending == 0
        calls.answered(1, b"late")
        late = calls.call(FrameKind.CALL, 1, b"expired", bytes)
        late.set_exception(TimeoutError())
        await asyncio.sleep(0)
        assert far.sent[-1] == (FrameKind.URGENT, 0, Verb.CANCEL, 2, b"")
        with pytest.raises(TimeoutError):
            await late

    asyncio.run(body())


def test_a_lost_connection_fails_all_that_was_asked_as_unknown() -> None:
    """Every request under way fails with sent=True and none of them is cancelled over the new
    connection, whose numbers go on."""

    async def body() -> None:
        calls, far = pair()
        futures = [calls.call(FrameKind.CALL, 1, b"x", bytes) for _ in range(2)]
        calls.lost()
        for future in futures:
            with pytest.raises(LinkLostError) as lost:
                await future
            assert lost.value.sent is True
        assert calls.pending == 0
        await asyncio.sleep(0)
        assert len(far.sent) == 2
        calls.call(FrameKind.CALL, 1, b"y", bytes).cancel()
        assert far.sent[-1][3] == 3

    asyncio.run(body())


def test_before_there_is_a_link_nothing_is_sent() -> None:
    async def body() -> None:
        calls = Calls(asyncio.get_running_loop())
        with pytest.raises(LinkLostError) as lost:
            _ = calls.call(FrameKind.CALL, 1, b"early", bytes)
        assert lost.value.sent is False and calls.pending == 0

    asyncio.run(body())


def test_an_answer_that_cannot_be_read_leaves_its_request_waiting() -> None:
    """Whoever waits goes by its own deadline, and a good answer would still be taken."""

    async def body() -> None:
        def read(data: bytes) -> bytes:
            if data == b"noise":
                raise UnreadableAnswerError
            return data.upper()

        calls, _ = pair()
        future = calls.call(FrameKind.CALL, 1, b"ask", read)
        with pytest.raises(UnreadableAnswerError):
            calls.answered(1, b"noise")
        assert calls.pending == 1 and not future.done()
        calls.answered(1, b"good")
        assert await future == b"GOOD"

    asyncio.run(body())


def test_a_cancellation_that_does_not_fit_is_left_out() -> None:
    """The other side then works in vain; nothing else comes of it."""

    async def body() -> None:
        calls, far = pair()
        future = calls.call(FrameKind.CALL, 1, b"x", bytes)
        far.full = True
        future.cancel()
        await asyncio.sleep(0)
        assert calls.pending == 0 and len(far.sent) == 1

    asyncio.run(body())


@pytest.mark.parametrize("payload", [b"", b"\x02", encode(Verb.ANSWER, 1)[:-1], HEAD.pack(9, 1)])
def test_what_is_no_message_ends_the_conversation(payload: bytes) -> None:
    """It raises, which ends the connection: an unknown verb is never skipped."""
    with pytest.raises(CallError):
        decode(payload)


@pytest.mark.parametrize("verb", list(Verb))
def test_every_verb_survives_the_wire(verb: Verb) -> None:
    """With the greatest number and with any body, none included."""
    for body in (b"", b"\0", b"body" * 1000):
        assert decode(encode(verb, 2**64 - 1, body)) == (verb, 2**64 - 1, body)


def test_the_verbs_of_version_one_keep_their_numbers() -> None:
    """What a process of an earlier release says means the same for ever."""
    assert {verb.name: int(verb) for verb in Verb} == {
        "REQUEST": 1,
        "ANSWER": 2,
        "CANCEL": 3,
        "PEER": 4,
        "SNAPSHOT": 5,
        "FORM": 6,
    }
    assert encode(Verb.REQUEST, 258, b"x") == b"\x01\x02\x01\0\0\0\0\0\0x"
