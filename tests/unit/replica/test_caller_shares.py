"""What one caller costs a node in all its conversations together, whatever it leaves unread or
sends along, and that others are not refused for it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import HotServerError, InternalError, InvalidError
from svc_cluster.base.ids import NodeId
from svc_cluster.codec.request_bounds import SHORT_BYTES_MAX
from svc_cluster.link.conversation import Conversation, Terms
from svc_cluster.link.credit import CREDIT_BYTES
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.replica import caller_shares, service_session, working
from svc_cluster.replica.answer_room import ROOM_BYTES_MAX
from svc_cluster.replica.caller_shares import (
    CALLER_ROOM_BYTES_MAX,
    WAITING_BYTES_MAX,
    CallerShares,
)
from svc_cluster.replica.operation_rules import UNREFUSED_BYTES_MAX
from svc_cluster.replica.service_session import ServiceSession
from tests.unit.replica.test_service_session import ADMITTED, GROUP, Caller, Rig, with_rig

ANSWER_BYTES = 1000


class Deaf(Caller):
    """Takes no short answer at all."""

    def __init__(self) -> None:
        super().__init__()
        self.credit[FrameKind.CALL] = 0


def talk(rig: Rig, name: str, caller: Caller) -> ServiceSession:
    return rig.service.session(caller, name)


def ask(session: ServiceSession, number: int, *, stream: str = "s", size: int = 100) -> None:
    request = pb.Request(group_id=GROUP, deadline_ms=60_000)
    request.check_tail.stream = stream
    session.request(FrameKind.CALL, number, request.SerializeToString(), size, ADMITTED)


def test_a_caller_that_reads_nothing_is_given_up_at_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In whichever conversation the answer comes that is too much; another caller's are not."""
    monkeypatch.setattr(caller_shares, "CALLER_WAITING_BYTES_MAX", 10 * ANSWER_BYTES)
    monkeypatch.setattr(caller_shares, "FREE_BYTES", 0)
    monkeypatch.setattr(service_session, "FREE_BYTES", 0)

    async def body(rig: Rig) -> None:
        rig.gate.set()
        deaf = [Deaf() for _ in range(3)]
        sessions = [talk(rig, "gateway 10.0.0.9", one) for one in deaf]
        other = Deaf()
        others = talk(rig, "gateway 10.0.0.8", other)
        ask(others, 1, stream="x" * ANSWER_BYTES)
        for number in range(9):
            ask(sessions[number % 3], number, stream="x" * ANSWER_BYTES)
        await rig.settle()
        assert not any(one.given_up for one in deaf)
        held = sum(session.answer_bytes for session in sessions)
        assert 9 * ANSWER_BYTES < held < 10 * ANSWER_BYTES
        ask(sessions[1], 9, stream="x" * ANSWER_BYTES)
        await rig.settle()
        assert [len(one.given_up) for one in deaf] == [0, 1, 0]
        sessions[1].close()
        assert sessions[1].waiting_bytes == 0
        ask(sessions[0], 10, stream="x" * ANSWER_BYTES)
        await rig.settle()
        assert [len(one.given_up) for one in deaf] == [0, 1, 0], "its part is free again"
        assert not other.given_up

    with_rig(body)


def test_short_answers_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is much by itself, and what was read counts no more."""
    monkeypatch.setattr(caller_shares, "CALLER_WAITING_BYTES_MAX", 6 * ANSWER_BYTES)
    for module in (caller_shares, service_session):
        monkeypatch.setattr(module, "FREE_BYTES", 3 * ANSWER_BYTES)

    async def body(rig: Rig) -> None:
        rig.gate.set()
        deaf = Deaf()
        session = talk(rig, "gateway 10.0.0.9", deaf)
        for number in range(5):
            ask(session, number, stream="x" * ANSWER_BYTES)
        await rig.settle()
        assert not deaf.given_up
        ask(session, 5, stream="x" * ANSWER_BYTES)
        await rig.settle()
        assert len(deaf.given_up) == 1
        reader = Caller()
        other = talk(rig, "gateway 10.0.0.8", reader)
        for number in range(20):
            ask(other, number, stream="x" * ANSWER_BYTES)
        await rig.settle()
        assert not reader.given_up and other.waiting_bytes == 0

    with_rig(body)


class Reading:
    """A caller that deals with everything at once, over a real conversation, and reports it when
    that is due."""

    def __init__(self) -> None:
        gateway = Speaker(Identity("c1", "gateway", NodeId(0), "g"))
        node = Speaker(Identity("c1", "node", NodeId(1), "n"))
        self.session: ServiceSession | None = None
        self.given_up: list[str] = []
        self.taken = 0
        reader = Reader(self)
        self.near = Conversation(
            Terms(b"s", gateway, lambda _: None), reader, b"n" * 32, acceptor=False
        )
        self.far = Conversation(Terms(b"s", node, lambda _: None), self, b"f" * 32, acceptor=True)
        self._pump()
        assert self.near.is_open and self.far.is_open

    def _pump(self) -> None:
        moved = True
        while moved:
            moved = False
            for one, other in ((self.near, self.far), (self.far, self.near)):
                if data := b"".join(one.take()):
                    other.receive(data)
                    moved = True

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        self.far.send(kind, flow, payload)
        self._pump()

    def waiting_bytes(self, kind: FrameKind) -> int:
        credit = self.far.outbox.credits[kind]
        return credit.queued - credit.left

    def give_up(self, reason: str) -> None:
        self.given_up.append(reason)

    def dealt_with(self, kind: FrameKind, size: int) -> None: ...

    # -- what the node's side tells

    def opened(self, speaker: Speaker) -> None: ...

    def message(self, kind: FrameKind, payload: bytes) -> None: ...

    def room(self, kind: FrameKind, size: int) -> None:
        assert self.session is not None
        self.session.left(kind, size)


class Reader:
    """What the caller's side tells."""

    def __init__(self, owner: Reading) -> None:
        self._owner = owner

    def opened(self, speaker: Speaker) -> None: ...

    def message(self, kind: FrameKind, payload: bytes) -> None:
        self._owner.taken += len(payload)
        self._owner.near.dealt_with(kind, len(payload))

    def room(self, kind: FrameKind, size: int) -> None: ...


def test_callers_that_read_are_not_given_up_for_what_they_have_not_reported() -> None:
    """A quarter of a credit may go unreported for ever: of many conversations that is more than
    any bound, and none of it is here."""

    async def body(rig: Rig) -> None:
        rig.gate.set()
        callers = [Reading() for _ in range(40)]
        for caller in callers:
            caller.session = rig.service.session(caller, "gateway 10.0.0.9")
        most = CREDIT_BYTES[FrameKind.CALL] // 4 - 4096
        length = 64 * 1024
        for number in range(most // length):
            for caller in callers:
                assert caller.session is not None
                ask(caller.session, number, stream="x" * length)
            await rig.settle()
        unreported = sum(caller.far.outbox.credits[FrameKind.CALL].under_way for caller in callers)
        assert unreported > WAITING_BYTES_MAX
        assert sum(caller.taken for caller in callers) >= unreported
        assert not any(caller.given_up for caller in callers)
        assert rig.service._host.memory.held()["answers"] == 0

    with_rig(body)


@dataclass(eq=False)
class Told:
    """A conversation, as it is seen by the shares."""

    name: str
    waiting_bytes: int = 0


def test_all_callers_together_have_a_bound_that_the_greedy_meet_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(caller_shares, "CALLER_WAITING_BYTES_MAX", 100)
    monkeypatch.setattr(caller_shares, "WAITING_BYTES_MAX", 150)
    monkeypatch.setattr(caller_shares, "FREE_BYTES", 5)
    shares = CallerShares()
    greedy, also, modest, third = Told("greedy"), Told("greedy"), Told("modest"), Told("third")
    for one in (greedy, also, modest, third, Told("silent")):
        shares.begin(one)
    greedy.waiting_bytes, also.waiting_bytes = 60, 30
    modest.waiting_bytes, third.waiting_bytes = 20, 40
    assert not any(map(shares.is_too_much, (greedy, also, modest, third))), "150 in all"
    modest.waiting_bytes += 10
    assert not shares.is_too_much(modest), "beyond the bound, but less than an even share"
    assert shares.is_too_much(greedy) and shares.is_too_much(also), "more, over both of them"
    also.waiting_bytes = 5
    assert not shares.is_too_much(greedy), "within the bound again"
    greedy.waiting_bytes = 96
    assert shares.is_too_much(greedy), "of one caller"
    assert not shares.is_too_much(also), "so little is not looked at"
    shares.end(greedy)
    shares.end(greedy)
    third.waiting_bytes = 100
    assert not shares.is_too_much(third)


def test_the_conversations_of_one_caller_divide_its_room() -> None:
    """As many as it may have get as much as four; one that ends leaves its part to the others."""

    async def body(rig: Rig) -> None:
        room = rig.session.room
        assert room._fits(0) and not room.taken_bytes
        room.put(1)
        assert room._fits(ROOM_BYTES_MAX - 1) and not room._fits(ROOM_BYTES_MAX)
        more = [talk(rig, "", Caller()) for _ in range(63)]
        part = CALLER_ROOM_BYTES_MAX // 64
        assert room._fits(part - 1) and not room._fits(part)
        for session in more:
            session.close()
            session.close()
        assert room._fits(ROOM_BYTES_MAX - 1) and not room._fits(ROOM_BYTES_MAX)

    with_rig(body)


def test_a_request_that_is_padded_is_refused_and_not_kept() -> None:
    """Without effect; it costs nothing when its refusal has left."""

    async def body(rig: Rig) -> None:
        request = pb.Request(group_id=GROUP, deadline_ms=60_000)
        request.check_tail.stream = "s"
        # a field that nobody knows, which the parser would keep
        data = request.SerializeToString() + b"\xc2\xb8\x02" + b"\x80\x80\x40" + bytes(1 << 20)
        assert len(data) > SHORT_BYTES_MAX
        rig.session.request(FrameKind.CALL, 1, data, len(data), ADMITTED)
        await rig.settle()
        refusal = rig.caller.refusal(1)
        assert isinstance(refusal, InvalidError) and not refusal.may_have_taken_effect
        assert (rig.begun, rig.session.asked_bytes, rig.session.pending) == ([], 0, 0)
        assert rig.caller.freed == [(FrameKind.CALL, len(data))]

    with_rig(body)


def test_a_fault_while_a_request_is_read_harms_that_request_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is refused without effect and costs nothing afterwards; the next one of the same caller is
    begun."""
    looked: list[int] = []

    def broken(data: bytes) -> bool:
        looked.append(len(data))
        if len(looked) == 1:
            raise ZeroDivisionError("planted")
        return False

    async def body(rig: Rig) -> None:
        monkeypatch.setattr(service_session, "is_too_long", broken)
        rig.ask(1)
        await rig.settle()
        refusal = rig.caller.refusal(1)
        assert isinstance(refusal, InternalError) and not refusal.may_have_taken_effect
        assert (rig.begun, rig.session.asked_bytes, rig.session.pending) == ([], 0, 0)
        rig.ask(2)
        await rig.settle()
        assert len(rig.begun) == 1 and len(looked) == 2

    with_rig(body)


def test_requests_that_are_worked_on_have_bytes_to_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that sends long ones is refused, definitely, before they fill what all have; one
    that has none yet finds room, and what has ended counts no more."""
    monkeypatch.setattr(working, "WORKING_BYTES_MAX", 9000)

    async def body(rig: Rig) -> None:
        many = [talk(rig, "gateway 10.0.0.9", Caller()) for _ in range(2)]
        callers = [session._caller for session in many]
        for number in range(10):
            ask(many[number % 2], number, size=1000)
        await rig.settle()
        refused = [n for one in callers for n in one.numbers]  # type: ignore[attr-defined]
        assert sorted(refused) == [6, 7, 8, 9], "two thirds of it are one caller's"
        refusal = callers[0].refusal(6)  # type: ignore[attr-defined]
        assert isinstance(refusal, HotServerError) and not refusal.may_have_taken_effect
        rig.ask(1, size=1000)
        await rig.settle()
        assert rig.caller.numbers == [] and len(rig.begun) == 7
        rig.gate.set()
        await rig.settle()
        assert (rig.service._working._bytes, not rig.service._working._bytes_by_caller) == (0, True)
        ask(many[0], 20, size=1000)
        await rig.settle()
        assert callers[0].numbers[-1] == 20  # type: ignore[attr-defined]
        assert not callers[0].answers[-1][3].HasField("refusal")  # type: ignore[attr-defined]

    with_rig(body)


def test_what_is_never_refused_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease is renewed where there is no room for anything else, but not by a long request."""
    monkeypatch.setattr(working, "WORKING_MAX", 0)

    async def body(rig: Rig) -> None:
        rig.service._operations["renew_lease"] = rig._operation
        rig.gate.set()
        rig.ask(1, operation="renew_lease", size=UNREFUSED_BYTES_MAX)
        rig.ask(2, operation="renew_lease", size=UNREFUSED_BYTES_MAX + 1)
        await rig.settle()
        assert rig.begun == [1]
        assert isinstance(rig.caller.refusal(2), HotServerError)

    with_rig(body)


def test_an_append_is_admitted_with_all_that_comes_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is beside its records is in memory as they are."""

    async def body(rig: Rig) -> None:
        asked: list[int] = []
        monkeypatch.setattr(rig.service, "_basin", lambda _: None)
        monkeypatch.setattr(rig.service._host, "check_space", lambda: None, raising=False)
        monkeypatch.setattr(rig.service._host.memory, "admit", asked.append)
        rig.ask(1, operation="append", size=100_000)
        await asyncio.sleep(0)
        assert asked == [100_000]

    with_rig(body)
