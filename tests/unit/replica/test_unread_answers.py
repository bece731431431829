"""What one caller's requests may cost, however it behaves."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.link.calls import CallError
from svc_cluster.link.credit import SendCredit
from svc_cluster.link.frame import FrameError, FrameKind
from svc_cluster.link.outbox import NoCreditError
from svc_cluster.replica import service_session as service_module
from svc_cluster.replica.roles import GATEWAY, CallerRights
from svc_cluster.replica.service import Service
from svc_cluster.replica.service_session import ServiceSession

GATEWAYS = CallerRights(GATEWAY)


class Ponged:
    """A service that answers everything at once, or nothing."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.answers = True

    def dispatch(self, session: ServiceSession, request: pb.Request) -> None:
        if self.answers:
            session.respond(request.id, lambda response: response.done.SetInParent())


class Deaf:
    """A caller that has credit for so many answers."""

    def __init__(self, credit: int) -> None:
        self.credit = credit
        self.sent: list[bytes] = []
        self.dealt_bytes = 0
        self.given_up = ""

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        if not self.credit:
            raise NoCreditError
        self.credit -= 1
        self.sent.append(payload)

    def waiting_bytes(self, kind: FrameKind) -> int:
        return 0

    def give_up(self, reason: str) -> None:
        self.given_up = reason

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        self.dealt_bytes += size


def session_of(caller: Deaf) -> tuple[Ponged, ServiceSession]:
    service = Ponged()
    service.loop.close()
    return service, ServiceSession(cast(Service, cast(Any, service)), caller)


def ask(session: ServiceSession, number: int) -> None:
    request = pb.Request(group_id=1)
    request.ping.SetInParent()
    session.request(FrameKind.CALL, number, request.SerializeToString(), 10, GATEWAYS)


def test_a_request_counts_until_its_answer_is_on_the_way() -> None:
    """Its credit comes back when the answer has left, not when it was made."""
    caller = Deaf(2)
    _, session = session_of(caller)
    for number in range(5):
        ask(session, number)
    assert (len(caller.sent), session.unsent, caller.dealt_bytes) == (2, 3, 20)
    caller.credit = 2
    session.left(FrameKind.CALL, 100)
    assert (len(caller.sent), session.unsent, caller.dealt_bytes) == (4, 1, 40)
    session.close()
    assert session.unsent == 0


def test_who_leaves_too_many_answers_unread_is_listened_to_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The conversation ends at the bound, and nothing of the last request was done."""
    monkeypatch.setattr(service_module, "REQUESTS_MAX", 10)
    caller = Deaf(0)
    _, session = session_of(caller)
    for number in range(10):
        ask(session, number)
    with pytest.raises(CallError, match="10 answers are not read"):
        ask(session, 10)
    assert (session.unsent, session.pending) == (10, 0)


def test_a_number_that_is_not_answered_is_not_asked_for_again() -> None:
    """The first request stays the one that is answered under it."""
    caller = Deaf(10)
    service, session = session_of(caller)
    service.answers = False
    ask(session, 7)
    with pytest.raises(CallError, match="number 7"):
        ask(session, 7)
    assert session.pending == 1
    session.cancel(7)
    with pytest.raises(CallError, match="number 7"):
        ask(session, 7)
    assert caller.dealt_bytes == 0, "nobody can end it, and it goes on"
    session.respond(7, lambda _: None)
    assert caller.dealt_bytes == 10
    ask(session, 7)
    assert session.pending == 1


def test_a_window_tells_of_bytes_that_have_left() -> None:
    """What is queued has a price until it has left, whatever the other side says."""
    credit = SendCredit(100)
    credit.queued, credit.left = 90, 50
    credit.told(50)
    with pytest.raises(FrameError, match="51 bytes dealt with of 50"):
        credit.told(51)
    assert not credit.allows(61)
