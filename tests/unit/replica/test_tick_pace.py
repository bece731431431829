"""A group is ticked as often as something may come of it."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from svc_cluster.raft.group import Role
from svc_cluster.replica.tick_pace import CALM_TICK_SECONDS, SILENCE_SECONDS, TickPace

USUAL = 0.02


def group(**changed: Any) -> Any:
    """One that hears its peers, and in which nobody waits for anything."""
    engine = SimpleNamespace(members=(1, 2, 3), role=Role.FOLLOWER)
    made = SimpleNamespace(engine=engine, is_settled=True, stirs=0)
    for name, value in changed.items():
        setattr(engine if hasattr(engine, name) else made, name, value)
    return made


@pytest.mark.parametrize("role", [Role.LEADER, Role.FOLLOWER])
def test_a_calm_group_has_one_tick_in_some(role: Role) -> None:
    pace = TickPace(group(role=role))
    ticks = []
    for number in range(1000):
        now = 10.0 + number * USUAL
        if number % 5 == 0:
            pace._heard_at = now  # what peers send is dealt with in between
        if pace.is_due(now, 3, waits=False):
            ticks.append(now)
    gaps = [later - tick for tick, later in pairwise(ticks)]
    assert min(gaps) == pytest.approx(CALM_TICK_SECONDS, abs=USUAL)
    assert max(gaps) <= CALM_TICK_SECONDS + USUAL + 0.001


@pytest.mark.parametrize(
    "changed",
    [{"is_settled": False}, {"role": Role.CANDIDATE}],
    ids=["something is under way", "it stands for election"],
)
def test_a_group_at_work_has_every_tick(changed: dict[str, Any]) -> None:
    pace = TickPace(group(**changed))
    pace.hears(10.0, USUAL)
    assert all(pace.is_due(10.0 + number * USUAL, 3, waits=False) for number in range(5))


def test_what_is_asked_of_it_and_who_waits_brings_the_next_tick() -> None:
    pace = TickPace(group())
    pace.hears(10.0, USUAL)
    assert pace.is_due(10.0, 3, waits=False)
    assert not pace.is_due(10.0 + USUAL, 3, waits=False)
    assert pace.is_due(10.0 + 2 * USUAL, 4, waits=False), "something was asked"
    assert not pace.is_due(10.0 + 3 * USUAL, 4, waits=False)
    assert pace.is_due(10.0 + 4 * USUAL, 4, waits=True), "somebody waits"


def test_a_group_that_hears_nobody_has_every_tick_again() -> None:
    """Long before its followers may stand for election. Who is alone hears nobody, and is calm."""
    pace = TickPace(group())
    pace.hears(10.0, USUAL)
    ticks = [
        number * USUAL for number in range(50) if pace.is_due(10.0 + number * USUAL, 3, waits=False)
    ]
    late = [at for at in ticks if at >= SILENCE_SECONDS]
    assert len(late) == sum(number * USUAL >= SILENCE_SECONDS for number in range(50))
    assert len(ticks) - len(late) <= SILENCE_SECONDS / CALM_TICK_SECONDS + 1
    alone = TickPace(group(members=(1,)))
    assert sum(alone.is_due(10.0 + number * USUAL, 3, waits=False) for number in range(50)) <= 11


def test_a_message_is_heard_at_the_time_it_is() -> None:
    """A group whose time has not passed for a while is ticked ahead of it, once."""
    pace = TickPace(group())
    assert pace.hears(10.0, USUAL), "it was never ticked"
    assert not pace.hears(10.0 + USUAL, USUAL)
    assert pace.hears(10.0 + 2 * USUAL, USUAL)
    assert not pace.hears(10.0 + 2 * USUAL, USUAL)
    assert pace.is_due(10.0 + 3 * USUAL, 3, waits=False), "that was not one of the node's ticks"
    assert not pace.hears(10.0 + 4 * USUAL - 0.001, USUAL), "which count ahead of messages"


@pytest.mark.parametrize("walk", [USUAL, 0.105])
@pytest.mark.parametrize("delay", [0.002, 0.03, 0.06, 0.09])
def test_answers_that_take_a_while_make_no_heartbeat_late(walk: float, delay: float) -> None:
    """A leader whose heartbeats are due 0.1 s behind each other, when it is ticked. Each brings an
    answer `delay` later, ahead of which it is ticked too."""
    pace = TickPace(group(role=Role.LEADER))
    sent: list[float] = []
    answers: list[float] = []
    now, next_walk = 10.0, 10.0

    def tick() -> None:
        if not sent or now - sent[-1] > 0.1:
            sent.append(now)
            answers.append(now + delay)

    while now < 20.0:
        now = min([next_walk, *answers[:1]])
        if answers and now == answers[0]:
            answers.pop(0)
            if pace.hears(now, USUAL):
                tick()
        else:
            next_walk = now + walk * 1.001  # a timer is never early
            if pace.is_due(now, 3, waits=False):
                tick()
    gaps = [later - earlier for earlier, later in pairwise(sent)]
    assert gaps[0] <= 2 * CALM_TICK_SECONDS, "it becomes calm amid it"
    assert max(gaps[1:]) <= max(walk, 0.1) + 0.025


class _Group:
    """One that counts how often it is asked whether it is settled, which is dear."""

    def __init__(self) -> None:
        self.engine = SimpleNamespace(members=(1, 2, 3), role=Role.LEADER)
        self.stirs = 0
        self.settled = True
        self.asked = 0

    @property
    def is_settled(self) -> bool:
        self.asked += 1
        return self.settled


def test_a_calm_group_in_which_nothing_happens_is_asked_once() -> None:
    """It is asked again when something has happened, and each time until it is settled."""
    one: Any = _Group()
    pace = TickPace(one)
    now = 10.0

    def due(beats: int) -> list[bool]:
        nonlocal now
        found = []
        for _ in range(beats):
            now += USUAL / 4
            pace._heard_at = now
            found.append(pace.is_due(now, 3, waits=False))
        return found

    due(1)
    assert not any(due(8)) and one.asked == 1
    one.settled = False
    assert not any(due(2)) and one.asked == 1, "nothing has happened that could unsettle it"
    one.stirs += 1
    assert all(due(3)) and one.asked == 4
    one.settled = True
    due(4)
    assert one.asked == 5
