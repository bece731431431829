"""One caller's conversation with a node's service: what it costs, who may ask, what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, cast

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.clock import SystemClock
from svc_cluster.base.errors import (
    HotServerError,
    InternalError,
    ServiceError,
    UnavailableError,
)
from svc_cluster.base.ids import GroupId
from svc_cluster.codec import rpc
from svc_cluster.link.calls import HEAD, CallError, Verb, decode
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.outbox import NoCreditError
from svc_cluster.replica import service_session as service_module
from svc_cluster.replica import working
from svc_cluster.replica.memory_budget import MemoryBudget
from svc_cluster.replica.operation_rules import CHANGES
from svc_cluster.replica.repeatable import Fill
from svc_cluster.replica.roles import EVERYDAY, GATEWAY, JOINER, NODE, ROLES, CallerRights
from svc_cluster.replica.service import Service
from svc_cluster.replica.service_session import ANSWER_BYTES_MAX, ServiceSession

GROUP = GroupId(7)
ADMITTED = CallerRights(GATEWAY)


class Host:
    """A host without any group: nothing of the service's own operations is reached here."""

    basins: ClassVar[dict[GroupId, Any]] = {}
    catalog = None
    memory = MemoryBudget(1 << 40, SystemClock())

    class services:
        traces = None
        version = None

        class clock:
            monotonic = staticmethod(lambda: 0.0)


class Caller:
    """Takes as many bytes of answers as the test gives it credit for, by class."""

    def __init__(self) -> None:
        self.credit: dict[FrameKind, int] = {}
        """Bytes that still fit; a class that is not named takes everything."""
        self.answers: list[tuple[FrameKind, int, int, pb.Response]] = []
        """Class, flow, number and answer."""
        self.freed: list[tuple[FrameKind, int]] = []
        self.given_up: list[str] = []

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        if kind in self.credit:
            if self.credit[kind] < len(payload):
                raise NoCreditError
            self.credit[kind] -= len(payload)
        verb, number, body = decode(payload)
        assert verb is Verb.ANSWER
        self.answers.append((kind, flow, number, pb.Response.FromString(body)))

    def waiting_bytes(self, kind: FrameKind) -> int:
        return 0

    def give_up(self, reason: str) -> None:
        self.given_up.append(reason)

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        self.freed.append((kind, size))

    @property
    def numbers(self) -> list[int]:
        return [number for _, _, number, _ in self.answers]

    def refusal(self, number: int) -> ServiceError:
        (found,) = (each for _, _, n, each in self.answers if n == number)
        assert found.id == number
        return rpc.refusal_from_pb(found.refusal)


class Rig:
    """A session of a service whose operation `check_tail` answers when the test lets it, with as
    many bytes as the request's stream has characters."""

    def __init__(self) -> None:
        self.caller = Caller()
        self.service = Service(cast(Any, Host()), asyncio.get_running_loop())
        self.session: ServiceSession = self.service.session(self.caller)
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.gate = asyncio.Event()
        self.service._operations["check_tail"] = self._operation
        self.service._operations["list_streams"] = self._operation

    async def _operation(self, request: pb.Request) -> Fill:
        self.begun.append(request.id)
        try:
            await self.gate.wait()
        finally:
            self.ended.append(request.id)

        def fill(response: pb.Response) -> None:
            response.stream.name = request.check_tail.stream

        return fill

    def ask(
        self,
        number: int,
        *,
        kind: FrameKind = FrameKind.CALL,
        operation: str = "check_tail",
        stream: str = "s",
        size: int = 100,
        admission: CallerRights = ADMITTED,
    ) -> None:
        request = pb.Request(group_id=GROUP, deadline_ms=60_000)
        getattr(request, operation).SetInParent()
        if operation == "check_tail":
            request.check_tail.stream = stream
        self.session.request(kind, number, request.SerializeToString(), size, admission)

    async def settle(self) -> None:
        for _ in range(6):
            await asyncio.sleep(0)


def with_rig(body: Callable[[Rig], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        rig = Rig()
        await body(rig)
        await rig.service.close()

    asyncio.run(main())


def test_each_request_is_answered_by_itself_and_costs_until_then() -> None:
    """In its class and flow, under its number; what it cost is given back with its answer."""

    async def body(rig: Rig) -> None:
        for number in (3, 1, 2):
            rig.ask(number, size=100 + number)
        rig.ask(9, kind=FrameKind.URGENT, operation="ping", size=20)
        await rig.settle()
        assert rig.caller.numbers == [9], "a ping waits for nothing"
        assert rig.caller.answers[0][:2] == (FrameKind.URGENT, GROUP)
        assert rig.caller.freed == [(FrameKind.URGENT, 20)]
        assert rig.session.pending == 3
        rig.gate.set()
        await rig.settle()
        assert [row[:3] for row in rig.caller.answers[1:]] == [
            (FrameKind.CALL, GROUP, number) for number in (3, 1, 2)
        ]
        assert rig.caller.freed[1:] == [(FrameKind.CALL, 100 + number) for number in (3, 1, 2)]
        assert (rig.session.pending, rig.session.unsent) == (0, 0)

    with_rig(body)


def test_long_answers_are_bulk_and_take_room_until_the_caller_is_done_with_them() -> None:
    """A list leaves in the class of reads; what it takes of the room comes back as the caller
    reports it."""

    async def body(rig: Rig) -> None:
        rig.gate.set()
        rig.ask(1, operation="list_streams")
        await rig.settle()
        ((kind, _, number, response),) = rig.caller.answers
        assert (kind, number) == (FrameKind.BULK, 1)
        size = HEAD.size + response.ByteSize()
        assert rig.session.room.taken_bytes == size
        rig.session.left(FrameKind.CALL, size)
        assert rig.session.room.taken_bytes == size, "another class is no business of the room"
        rig.session.left(FrameKind.BULK, size)
        assert rig.session.room.taken_bytes == 0

    with_rig(body)


def test_answers_without_credit_are_held_back_and_leave_in_order_when_there_is_room() -> None:
    """Of one class; another is not held up. A short answer does not overtake a long one, and what
    is held back goes on costing the caller its request, so that it cannot ask for ever."""

    async def body(rig: Rig) -> None:
        rig.gate.set()
        rig.caller.credit[FrameKind.CALL] = 150
        for number, length in enumerate((60, 500, 1, 1), start=1):
            rig.ask(number, stream="x" * length, size=1000 + number)
        rig.ask(5, kind=FrameKind.URGENT, operation="ping")
        await rig.settle()
        assert sorted(rig.caller.numbers) == [1, 5]
        assert (rig.session.pending, rig.session.unsent) == (0, 3)
        assert (FrameKind.CALL, 1001) in rig.caller.freed and len(rig.caller.freed) == 2
        rig.session.left(FrameKind.BULK, 10_000)
        rig.caller.credit[FrameKind.CALL] = 499
        rig.session.left(FrameKind.CALL, 100)
        assert rig.session.unsent == 3, "not the short ones behind it"
        rig.caller.credit[FrameKind.CALL] = 525
        rig.session.left(FrameKind.CALL, 100)
        assert rig.caller.numbers[2:] == [2]
        assert rig.session.unsent == 2
        rig.caller.credit[FrameKind.CALL] = 1000
        rig.session.left(FrameKind.CALL, 100)
        assert rig.caller.numbers[3:] == [3, 4]
        assert rig.caller.freed[2:] == [
            (FrameKind.CALL, 1002),
            (FrameKind.CALL, 1003),
            (FrameKind.CALL, 1004),
        ]
        assert rig.session.unsent == 0

    with_rig(body)


def test_a_caller_that_takes_no_answers_cannot_go_on_asking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What waits for it is bounded whatever it does: its requests are refused, and where the
    refusals are not taken either, the conversation ends."""
    monkeypatch.setattr(service_module, "REQUESTS_MAX", 8)

    async def body(rig: Rig) -> None:
        rig.caller.credit[FrameKind.CALL] = 0
        rig.gate.set()
        for number in range(1, 9):
            rig.ask(number)
            await rig.settle()
        assert (rig.session.pending, rig.session.unsent) == (0, 8)
        assert rig.caller.freed == []
        for number in range(9, 12):
            with pytest.raises(CallError):
                rig.ask(number)
        assert (rig.session.pending, rig.session.unsent) == (0, 8)
        assert rig.begun == list(range(1, 9))

    with_rig(body)


def test_one_request_too_many_is_refused_without_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not begun, its caller is told to try again, and the others are answered."""
    monkeypatch.setattr(service_module, "REQUESTS_MAX", 3)

    async def body(rig: Rig) -> None:
        for number in range(1, 6):
            rig.ask(number)
        await rig.settle()
        assert rig.caller.numbers == [4, 5] and rig.begun == [1, 2, 3]
        for number in (4, 5):
            refusal = rig.caller.refusal(number)
            assert isinstance(refusal, HotServerError) and not refusal.may_have_taken_effect
        assert rig.caller.freed == [(FrameKind.CALL, 100)] * 2
        rig.session.cancel(1)
        rig.ask(6)
        rig.gate.set()
        await rig.settle()
        assert rig.caller.numbers[:2] == [4, 5] and sorted(rig.caller.numbers[2:]) == [2, 3, 6]

    with_rig(body)


def test_all_callers_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request more than the node works on is refused, whoever asks, and not begun; the renewal
    of a lease is not. What was answered, or is cancelled, makes room."""
    monkeypatch.setattr(working, "WORKING_MAX", 3)
    monkeypatch.setattr(working, "WORKING_SHARE", 3)

    async def body(rig: Rig) -> None:
        rig.service._operations["renew_lease"] = rig._operation
        other = Caller()
        session = rig.service.session(other, "another")
        for number in (1, 2, 3):
            rig.ask(number)
        await rig.settle()
        for operation in ("check_tail", "list_streams", "renew_lease"):
            request = pb.Request(group_id=GROUP, deadline_ms=60_000)
            getattr(request, operation).SetInParent()
            number = 7 + len(other.numbers)
            session.request(FrameKind.CALL, number, request.SerializeToString(), 100, ADMITTED)
            await rig.settle()
        assert other.numbers == [7, 8] and rig.begun == [1, 2, 3, 9]
        for number in (7, 8):
            refusal = other.refusal(number)
            assert isinstance(refusal, HotServerError) and not refusal.may_have_taken_effect
        assert other.freed == [(FrameKind.CALL, 100)] * 2
        for number in (1, 2):
            rig.session.cancel(number)
        await rig.settle()
        rig.ask(4)
        rig.gate.set()
        await rig.settle()
        assert sorted(rig.caller.numbers) == [3, 4] and other.numbers == [7, 8, 9]

    with_rig(body)


def test_no_caller_takes_the_room_of_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all of its conversations together: it has two thirds where it is alone, the next one
    that asks finds room, and so does the one behind that. What has ended is given back."""
    monkeypatch.setattr(working, "WORKING_MAX", 27)

    async def body(rig: Rig) -> None:
        callers: dict[str, list[tuple[Caller, ServiceSession]]] = {}
        for name in ("greedy", "greedy", "next", "last"):
            caller = Caller()
            callers.setdefault(name, []).append((caller, rig.service.session(caller, name)))

        async def most(name: str) -> int:
            """How many are begun where it asks for as many as the node has room for."""
            before = len(rig.begun)
            for number in range(27):
                for _, session in callers[name]:
                    request = pb.Request(group_id=GROUP, deadline_ms=60_000)
                    request.check_tail.SetInParent()
                    session.request(
                        FrameKind.CALL, number, request.SerializeToString(), 100, ADMITTED
                    )
            await rig.settle()
            return len(rig.begun) - before

        assert [await most(name) for name in ("greedy", "next", "last")] == [18, 6, 2]
        refused = [caller for caller, _ in callers["greedy"] for _ in caller.numbers]
        assert len(refused) == 2 * 27 - 18
        rig.gate.set()
        await rig.settle()
        assert (len(rig.service._working), rig.service._working.callers()) == (0, [])
        assert len(rig.begun) == len(rig.ended) == 26

    with_rig(body)


@pytest.mark.parametrize("operation", sorted(CHANGES))
def test_a_change_that_is_given_up_costs_until_it_has_ended(operation: str) -> None:
    """Its command is in a queue: credit, budget and its place among what is worked on come back
    with its outcome, also where the caller is gone."""

    async def body(rig: Rig) -> None:
        rig.service._operations[operation] = rig._operation
        for number in (1, 2):
            rig.ask(number, operation=operation, admission=CallerRights(NODE))
        await rig.settle()
        rig.session.cancel(1)
        rig.session.cancel(1)
        await rig.settle()
        assert (rig.begun, rig.ended, rig.caller.freed) == ([1, 2], [], [])
        assert (rig.session.asked_bytes, rig.session.pending) == (200, 2)
        rig.session.close()
        await rig.settle()
        assert rig.ended == [] and rig.session.asked_bytes == 200
        assert rig.session in rig.service._sessions
        rig.gate.set()
        await rig.settle()
        assert sorted(rig.ended) == [1, 2]
        assert (rig.session.asked_bytes, rig.session.pending) == (0, 0)
        assert (rig.caller.answers, rig.session in rig.service._sessions) == ([], False)

    with_rig(body)


def test_a_change_for_which_there_is_no_memory_is_refused_without_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an append is: it is not begun, and may be tried again. What only reads is begun, and what
    takes away: by that the memory gets room again."""
    monkeypatch.setattr(Host, "memory", MemoryBudget(0, SystemClock()))

    async def body(rig: Rig) -> None:
        rig.service._operations["create_stream"] = rig._operation
        rig.service._operations["revoke_token"] = rig._operation
        rig.ask(1, operation="create_stream")
        rig.ask(2)
        rig.ask(3, operation="revoke_token")
        await rig.settle()
        assert (rig.caller.numbers, rig.begun) == ([1], [2, 3])
        refusal = rig.caller.refusal(1)
        assert isinstance(refusal, UnavailableError) and not refusal.may_have_taken_effect
        assert rig.caller.freed == [(FrameKind.CALL, 100)]

    with_rig(body)


def test_a_cancelled_request_ends_its_work_and_is_not_answered() -> None:
    """What it cost is given back at once, and only once; cancelling what is not there does
    nothing."""

    async def body(rig: Rig) -> None:
        rig.ask(1, size=10)
        rig.ask(2, size=20)
        rig.ask(3, operation="list_streams", size=30)
        await rig.settle()
        room = rig.session.room.taken_bytes
        assert room > 0
        rig.session.cancel(1)
        rig.session.cancel(3)
        await rig.settle()
        assert rig.ended == [1, 3]
        assert rig.session.room.taken_bytes == 0
        assert rig.caller.freed == [(FrameKind.CALL, 10), (FrameKind.CALL, 30)]
        for number in (1, 3, 77):
            rig.session.cancel(number)
        rig.session.respond(1, lambda response: response.done.SetInParent())
        rig.gate.set()
        await rig.settle()
        assert rig.caller.numbers == [2]
        assert rig.caller.freed[2:] == [(FrameKind.CALL, 20)]
        assert rig.session.pending == 0

    with_rig(body)


def test_a_number_that_is_in_use_ends_the_conversation() -> None:
    """Otherwise the answer to one request would be taken for that to another, and what the first
    cost would never be given back."""

    async def body(rig: Rig) -> None:
        rig.ask(1, size=10)
        await rig.settle()
        with pytest.raises(CallError):
            rig.ask(1, size=20)
        rig.gate.set()
        await rig.settle()
        assert rig.caller.numbers == [1] and rig.caller.freed == [(FrameKind.CALL, 10)]
        rig.ask(1, size=30)
        await rig.settle()
        assert rig.caller.numbers == [1, 1], "one that is answered is free again"

    with_rig(body)


def test_a_caller_that_is_gone_leaves_nothing_behind() -> None:
    """Its work ends, and what was held back for it is let go."""

    async def body(rig: Rig) -> None:
        rig.caller.credit[FrameKind.CALL] = 0
        rig.ask(1, kind=FrameKind.CALL, operation="ping")
        rig.ask(2)
        rig.ask(3, operation="list_streams")
        await rig.settle()
        assert (rig.session.pending, rig.session.unsent) == (2, 1)
        rig.session.close()
        await rig.settle()
        assert sorted(rig.ended) == [2, 3]
        assert (rig.session.pending, rig.session.unsent) == (0, 0)
        assert rig.caller.answers == []
        assert len(rig.service._working) == 0

    with_rig(body)


def test_an_answer_that_fits_no_message_becomes_an_internal_error() -> None:
    """Nothing is known of effects then, and the caller hears so at once; the longest that fits is
    sent."""

    async def body(rig: Rig) -> None:
        rig.gate.set()

        def answered_with(number: int, size: int) -> None:
            def fill(response: pb.Response) -> None:
                response.stream.name = "x" * size

            rig.session._asked[number] = service_module._Asked(FrameKind.CALL, 1)
            rig.session.respond(number, fill)

        probe = pb.Response(id=2)
        probe.stream.name = "x" * 2_900_000
        most = 2_900_000 + ANSWER_BYTES_MAX[FrameKind.CALL] - probe.ByteSize()
        answered_with(1, most + 1)
        answered_with(2, most)
        refusal = rig.caller.refusal(1)
        assert isinstance(refusal, InternalError) and refusal.may_have_taken_effect
        assert len(rig.caller.answers[1][3].stream.name) == most
        assert rig.caller.freed == [(FrameKind.CALL, 1)] * 2

    with_rig(body)


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"\x0a\x05abc"])
def test_a_request_that_cannot_be_read_is_refused_and_the_next_is_taken(data: bytes) -> None:
    async def body(rig: Rig) -> None:
        rig.gate.set()
        rig.session.request(FrameKind.CALL, 1, data, 50, ADMITTED)
        rig.ask(2)
        await rig.settle()
        assert rig.caller.numbers == [1, 2]
        refusal = rig.caller.answers[0][3].refusal
        assert (refusal.code, refusal.may_have_taken_effect) == ("bad_proto", False)
        assert rig.caller.freed == [(FrameKind.CALL, 50), (FrameKind.CALL, 100)]

    with_rig(body)


def test_a_fault_of_ours_while_a_request_is_taken_harms_no_other() -> None:
    async def body(rig: Rig) -> None:
        def broken(session: ServiceSession, request: pb.Request) -> None:
            raise ZeroDivisionError

        dispatch = rig.service.dispatch
        rig.service.dispatch = broken  # type: ignore[method-assign]
        rig.ask(1)
        rig.service.dispatch = dispatch  # type: ignore[method-assign]
        rig.gate.set()
        rig.ask(2)
        await rig.settle()
        assert rig.caller.refusal(1).code.value == "other"
        assert rig.caller.numbers == [1, 2]

    with_rig(body)


OPERATIONS = [field.name for field in pb.Request.DESCRIPTOR.oneofs_by_name["operation"].fields]


@pytest.mark.parametrize("role", [NODE, GATEWAY, JOINER, "administrator", "visitor", ""])
def test_each_operation_is_for_its_roles_alone(role: str) -> None:
    """Every operation that there is, asked for by every role: who may is served (here the test
    takes it), who may not is refused with the sentence that says so, without effect."""

    async def body(rig: Rig) -> None:
        served: list[int] = []

        def dispatch(session: ServiceSession, request: pb.Request) -> None:
            served.append(request.id)
            session.respond(request.id, lambda response: response.done.SetInParent())

        rig.service.dispatch = dispatch  # type: ignore[method-assign]
        allowed = []
        for number, operation in enumerate(OPERATIONS, start=1):
            rig.ask(number, operation=operation, admission=CallerRights(role))
            if role in ROLES.get(operation, EVERYDAY):
                allowed.append(number)
                continue
            refusal = rig.caller.refusal(number)
            assert refusal.code.value == "permission_denied"
            assert not refusal.may_have_taken_effect
            assert f"a {role} may not ask for {operation}" in str(refusal)
        assert served == allowed
        assert bool(allowed) == (role in (NODE, GATEWAY, JOINER))
        assert role != JOINER or [OPERATIONS[number - 1] for number in allowed] == ["join_cluster"]
        assert rig.caller.numbers == list(range(1, len(OPERATIONS) + 1))
        assert rig.caller.freed == [(FrameKind.CALL, 100)] * len(OPERATIONS)

    with_rig(body)


def test_what_changes_the_cluster_is_for_nodes_alone() -> None:
    """The table itself: every name in it is an operation, and a gateway may ask for no other than
    the everyday ones."""
    assert set(ROLES) <= set(OPERATIONS)
    assert {name for name in OPERATIONS if GATEWAY not in ROLES.get(name, EVERYDAY)} == {
        "register_node",
        "replace_node",
        "add_member",
        "join_cluster",
        "remove_member",
        "remove_basin",
        "set_root_token",
        "hand_on_leases",
        "get_version",
        "raise_version",
        "view_group",
        "list_led",
        "give_lead",
        "balance_leads",
        "freeze_basin",
        "drain_node",
        "plan_placement",
        "fetch_committed",
        "report_change",
        "change_members",
    }


def test_a_node_that_was_replaced_may_ask_for_nothing() -> None:
    """Each request hears why, as long as its conversation lasts."""

    async def body(rig: Rig) -> None:
        rig.gate.set()
        replaced = CallerRights(NODE, "another data directory has taken its place")
        for number, operation in enumerate(OPERATIONS, start=1):
            rig.ask(number, operation=operation, admission=replaced)
        assert rig.begun == []
        for number in range(1, len(OPERATIONS) + 1):
            refusal = rig.caller.refusal(number)
            assert refusal.code.value == "unavailable" and not refusal.may_have_taken_effect
            assert "another data directory" in str(refusal)

    with_rig(body)


class Queued:
    """A dispatcher whose appends are in the queue until the test says what came of them."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.waiting: list[tuple[ServiceSession, int]] = []
        self.closed: list[ServiceSession] = []

    def dispatch(self, session: ServiceSession, request: pb.Request) -> None:
        self.waiting.append((session, request.id))

    def session(self, caller: Caller) -> ServiceSession:
        return ServiceSession(self, caller, self.closed.append)

    def ask(self, session: ServiceSession, number: int) -> None:
        request = pb.Request(group_id=GROUP)
        request.append.stream = "s"
        session.request(FrameKind.CALL, number, request.SerializeToString(), 100, ADMITTED)

    def end(self) -> None:
        session, number = self.waiting.pop(0)
        session.respond(number, lambda response: response.append.SetInParent())


def test_an_append_that_is_given_up_costs_until_it_has_ended() -> None:
    """Its batch is still in the queue: credit and budget come back with its outcome, once, and
    that outcome is nobody's answer, also not that of another request under its number."""

    async def main() -> None:
        queued, caller = Queued(), Caller()
        session = queued.session(caller)
        for number in range(3):
            queued.ask(session, number)
            session.cancel(number)
            session.cancel(number)
        assert (session.asked_bytes, session.pending, caller.freed) == (300, 3, [])
        with pytest.raises(CallError):
            queued.ask(session, 0)
        queued.end()
        assert (session.asked_bytes, session.pending) == (200, 2)
        assert caller.freed == [(FrameKind.CALL, 100)]
        queued.ask(session, 0)
        while queued.waiting:
            queued.end()
        assert caller.numbers == [0], "that of the second request, which nobody gave up"
        assert (session.asked_bytes, session.pending) == (0, 0)
        assert caller.freed == [(FrameKind.CALL, 100)] * 4
        assert queued.closed == []

    asyncio.run(main())


def test_appends_of_a_caller_that_is_gone_count_until_they_have_ended() -> None:
    """Whoever comes again has new credit, and what it left behind is still in the budget."""

    async def main() -> None:
        queued, caller = Queued(), Caller()
        session, idle = queued.session(caller), queued.session(Caller())
        queued.ask(session, 1)
        queued.ask(session, 2)
        session.close()
        idle.close()
        assert queued.closed == [idle]
        assert session.asked_bytes == 200
        queued.end()
        assert (session.asked_bytes, queued.closed) == (100, [idle])
        queued.end()
        assert (session.asked_bytes, session.pending) == (0, 0)
        assert queued.closed == [idle, session]
        assert (caller.answers, caller.freed) == ([], [])

    asyncio.run(main())
