"""For how long the leader of a group waits for a member that is away before it seals without it,
and for which damaged copy it does not wait at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId, LogIndex, NodeId, Term
from svc_cluster.catalog.group_change import GroupChange
from svc_cluster.raft.readiness import HEARD_SECONDS_MAX, ReplicaWord
from svc_cluster.replica import change_driver
from svc_cluster.replica.change_driver import (
    ABSENT_SECONDS,
    DAMAGED_SECONDS,
    WISHED_SECONDS,
    ChangeDriver,
)


def test_a_node_counts_until_it_was_away_for_long() -> None:
    """Its copy may be whole; and whoever was back in between is waited for anew."""
    up = {NodeId(2)}
    host: Any = SimpleNamespace(
        services=SimpleNamespace(node_id=NodeId(1)), is_peer_up=up.__contains__
    )
    driver = ChangeDriver(host, lambda failure: None)

    def may_be_there(node: int, now: float) -> bool:
        return driver._may_be_there(NodeId(node), now)

    def looks(node: int, begin: float, end: float) -> set[bool]:
        """What it is at each look, one a second."""
        return {may_be_there(node, begin + step) for step in range(int(end - begin))}

    assert looks(1, 0.0, 60.0) == {True}, "the leader itself"
    assert looks(2, 0.0, 60.0) == {True}
    assert looks(3, 0.0, ABSENT_SECONDS) == {True}
    assert not may_be_there(3, ABSENT_SECONDS)
    up.add(NodeId(3))
    assert may_be_there(3, ABSENT_SECONDS + 1)
    up.clear()
    assert looks(3, ABSENT_SECONDS + 2, 2 * ABSENT_SECONDS + 2) == {True}
    assert not may_be_there(3, 2 * ABSENT_SECONDS + 2)
    assert may_be_there(3, 9 * ABSENT_SECONDS), "nobody looked meanwhile: it may have been back"
    assert looks(3, 9 * ABSENT_SECONDS + 1, 10 * ABSENT_SECONDS) == {True}
    assert not may_be_there(3, 10 * ABSENT_SECONDS)


MEMBERS = (NodeId(1), NodeId(2), NodeId(3))
GROUP = GroupId(2)
CHANGE = GroupChange(9, (NodeId(1), NodeId(2), NodeId(5)), (), "a test")
TERM = Term(7)


class Led:
    """A group that is led here while a change is open, the catalog's requests, and the log."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[pb.Request] = []
        self.lines: list[tuple[str, dict[str, Any]]] = []
        services = SimpleNamespace(
            clock=SimpleNamespace(monotonic=lambda: self.now),
            log_of=lambda _: SimpleNamespace(warning=self._line),
        )
        host: Any = SimpleNamespace(services=services, ask_catalog=self._ask)
        self.driver = ChangeDriver(host, lambda failure: None)
        engine = SimpleNamespace(members=MEMBERS, term=TERM)
        self.replica: Any = SimpleNamespace(group=SimpleNamespace(group_id=GROUP, engine=engine))

    def _line(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    async def _ask(self, fill: Callable[[pb.Request], None]) -> None:
        request = pb.Request()
        fill(request)
        self.asked.append(request)

    def says(self, node: int, ago: float = 0.0, *, recovers: bool = True) -> None:
        word = ReplicaWord(LogIndex(0), self.now - ago, recovers)
        self.driver.heard(GROUP, NodeId(node), word)

    def damaged(self, change: GroupChange = CHANGE) -> int | None:
        return self.driver._damaged_newcomer(self.replica, change)


@pytest.mark.parametrize(
    ("node", "ago", "recovers", "damaged"),
    [
        (5, 0.5, True, 5),
        (5, HEARD_SECONDS_MAX, True, 5),
        (5, HEARD_SECONDS_MAX + 0.1, True, None),
        (5, 0.5, False, None),
        (2, 0.5, True, None),
        (6, 0.5, True, None),
    ],
    ids=["now", "just now", "long ago", "whole", "a member", "nobody of the next"],
)
def test_a_copy_that_goes_on_saying_that_it_is_damaged_ends_its_change(
    node: int, ago: float, recovers: bool, damaged: int | None
) -> None:
    """Where it is to be a member; a member that recovers is mended by its leader."""
    led = Led()
    for _ in range(round(DAMAGED_SECONDS / 0.25)):
        led.says(node, ago, recovers=recovers)
        assert led.damaged() is None, "not at once"
        led.now += 0.25
    led.says(node, ago, recovers=recovers)
    assert led.damaged() == damaged


def test_what_the_copy_before_said_ends_no_later_change() -> None:
    """It is of another change, or was answered by silence or by a copy that is whole."""
    led = Led()
    led.says(5)
    assert led.damaged() is None
    led.now += DAMAGED_SECONDS
    led.says(5)
    assert led.damaged(replace(CHANGE, change_id=10)) is None, "it counts from the first look"
    led.now += DAMAGED_SECONDS
    led.says(5, recovers=False)
    assert led.damaged(replace(CHANGE, change_id=10)) is None
    led.says(5)
    assert led.damaged(replace(CHANGE, change_id=10)) is None, "and anew behind a whole one"
    led.now += DAMAGED_SECONDS
    assert led.damaged(replace(CHANGE, change_id=10)) is None, "nothing was heard since"


@pytest.mark.parametrize("leave", [Term(0), TERM])
def test_a_leader_wishes_a_change_given_up_and_does_not_vouch_for_it(
    monkeypatch: pytest.MonkeyPatch, leave: Term
) -> None:
    """By its number, once in a while, with one line in the log and the reason for who asks. Its own
    word, that no seal is made, would be believed beside a leave that it has not heard of."""
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", wait)
    led = Led()
    record: Any = SimpleNamespace(group_id=GROUP, configuration=0)
    change = replace(CHANGE, sealing_term=leave)

    async def give_up() -> None:
        for _ in range(3):
            await led.driver._give_up(led.replica, record, change, NodeId(5))

    asyncio.run(give_up())
    assert waited == [WISHED_SECONDS] * 3
    assert {
        (said.group_id, said.change_id, said.term, said.step)
        for said in (request.report_change for request in led.asked)
    } == {(GROUP, CHANGE.change_id, 0, pb.CHANGE_STEP_GIVEN_UP)}
    assert [event for event, _ in led.lines] == ["change_given_up"]
    reason = "the new replica on node 5 is damaged"
    assert led.driver.ended[GROUP] == f"the move to 1, 2, 5 was given up: {reason}"


def test_a_change_that_went_through_all_the_same_was_not_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The wish came behind the seal: nothing tells of it any more once the next configuration has
    begun, and the catalog hears that it has."""
    led = Led()
    record: Any = SimpleNamespace(group_id=GROUP, configuration=0)
    asyncio.run(led.driver._give_up(led.replica, record, CHANGE, NodeId(5)))
    assert GROUP in led.driver.ended
    led.asked.clear()
    monkeypatch.setattr(change_driver, "number_of", lambda _: 1)
    assert asyncio.run(led.driver._step(led.replica, record, CHANGE))
    assert GROUP not in led.driver.ended
    (asked,) = led.asked
    assert asked.report_change.step == pb.CHANGE_STEP_CONFIGURED
    assert asked.report_change.configuration == 1
