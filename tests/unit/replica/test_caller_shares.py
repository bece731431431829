"""What one caller costs a node in all its conversations together, whatever it leaves unread or
sends along, and that others are not refused for it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import HotServerError, InvalidError
from svc_cluster.codec.request_bounds import SHORT_BYTES_MAX
from svc_cluster.link.frame import FrameKind
from svc_cluster.replica import caller_shares, working
from svc_cluster.replica.answer_room import ROOM_BYTES_MAX
from svc_cluster.replica.caller_shares import CALLER_ROOM_BYTES_MAX, CallerShares
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
    monkeypatch.setattr(caller_shares, "CALLER_OWED_BYTES_MAX", 10 * ANSWER_BYTES)

    async def body(rig: Rig) -> None:
        rig.gate.set()
        deaf = [Deaf() for _ in range(3)]
        sessions = [talk(rig, "gateway 10.0.0.9", one) for one in deaf]
        other, others = Deaf(), talk(rig, "gateway 10.0.0.8", Deaf())
        others._caller = other
        ask(others, 1, stream="x" * ANSWER_BYTES)
        for number in range(9):
            ask(sessions[number % 3], number, stream="x" * ANSWER_BYTES)
        await rig.settle()
        assert not any(one.given_up for one in deaf)
        held = rig.service._shares.owed_bytes
        assert 10 * ANSWER_BYTES < held < 11 * ANSWER_BYTES
        ask(sessions[1], 9, stream="x" * ANSWER_BYTES)
        await rig.settle()
        assert [len(one.given_up) for one in deaf] == [0, 1, 0]
        assert not other.given_up
        sessions[1].close()
        assert rig.service._shares.owed_bytes < 8 * ANSWER_BYTES
        for session in (sessions[0], sessions[2], others):
            session.close()
        assert rig.service._shares.owed_bytes == 0

    with_rig(body)


def test_answers_that_have_left_count_until_they_are_dealt_with() -> None:
    """A conversation's credit keeps them elsewhere, and a caller has many conversations."""

    async def body(rig: Rig) -> None:
        rig.gate.set()
        ask(rig.session, 1, stream="x" * ANSWER_BYTES)
        await rig.settle()
        assert len(rig.caller.answers) == 1, "it has left"
        owed = rig.service._shares.owed_bytes
        assert owed > ANSWER_BYTES and rig.session.answer_bytes == owed
        rig.session.left(FrameKind.CALL, owed)
        assert (rig.service._shares.owed_bytes, rig.session.answer_bytes) == (0, 0)
        rig.session.left(FrameKind.CALL, owed)
        assert rig.service._shares.owed_bytes == 0, "nothing is dealt with twice"

    with_rig(body)


def test_all_callers_together_have_a_bound_that_the_greedy_meet_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(caller_shares, "CALLER_OWED_BYTES_MAX", 100)
    monkeypatch.setattr(caller_shares, "OWED_BYTES_MAX", 150)
    shares = CallerShares()
    assert not shares.owe("greedy", 90)
    assert not shares.owe("modest", 20)
    assert not shares.owe("third", 40)
    assert not shares.owe("modest", 10), "beyond the bound, but less than an even share"
    assert shares.owe("greedy", 1), "more than that"
    assert shares.owe("third", 30)
    shares.settle("greedy", 91)
    assert not shares.owe("third", 30)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_owed_is_the_sum_of_what_was_not_settled(seed: int) -> None:
    rng = random.Random(seed)
    shares, owed = CallerShares(), Counter[str]()
    for _ in range(500):
        caller = rng.choice("abcd")
        if owed[caller] and rng.random() < 0.5:
            size = rng.randint(1, owed[caller])
            shares.settle(caller, size)
            owed[caller] -= size
        else:
            size = rng.randint(1, 9)
            shares.owe(caller, size)
            owed[caller] += size
        assert shares.owed_bytes == owed.total()
    for caller, size in owed.items():
        if size:
            shares.settle(caller, size)
    assert shares.owed_bytes == 0 and not shares._owed


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
