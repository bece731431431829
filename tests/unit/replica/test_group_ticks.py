"""A node that is behind with its ticks tells its groups so; one that is at ease never does."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from svc_cluster.raft.group import Tick
from svc_cluster.replica.group_ticks import (
    AT_EASE_GROUPS,
    BEHIND_SECONDS,
    GRACE_A_SECOND_BEHIND,
    GRACE_SECONDS_MAX,
    Backlog,
    GroupTicks,
)

TICK_S = 0.02


def test_a_node_in_time_has_no_grace_however_much_is_awake() -> None:
    """Failover with very many basins in use is as fast as with one, as long as it keeps up."""
    backlog = Backlog()
    for number in range(100):
        backlog.ticked(number * TICK_S, number * TICK_S)
    assert backlog.grace(100_000) == 0.0


def test_the_grace_is_bounded_by_what_is_awake_and_by_how_far_the_node_is_behind() -> None:
    backlog = Backlog()
    backlog.ticked(10.0, 10.05)
    assert backlog.grace(AT_EASE_GROUPS) == 0.0
    assert backlog.grace(AT_EASE_GROUPS + 40) == pytest.approx(0.1)
    assert backlog.grace(1000) == pytest.approx(GRACE_A_SECOND_BEHIND * 0.05)
    backlog.ticked(11.0, 12.0)
    assert backlog.grace(1000) == pytest.approx(2.0)
    assert backlog.grace(100_000) == GRACE_SECONDS_MAX == 2.0


def test_a_node_counts_as_behind_for_a_while() -> None:
    """What came then is still dealt with. The worst of a while counts, and is over with it."""
    backlog = Backlog()
    backlog.ticked(10.0, 10.1)
    backlog.ticked(10.5, 10.51)
    assert backlog.grace(1000) == pytest.approx(1.0)
    backlog.ticked(10.6, 10.6 + 0.15)
    assert backlog.grace(1000) == pytest.approx(1.5)
    at = 10.75 + BEHIND_SECONDS + 0.1
    backlog.ticked(at, at)
    assert backlog.grace(1000) == 0.0


def _unguarded(callback: Callable[..., object]) -> Callable[..., None]:
    return cast(Callable[..., None], callback)


class _Node:
    """Groups that are awake, and time; a tick of one of them takes `tick_takes_s`."""

    def __init__(self, groups: int) -> None:
        self.now = 10.0
        self.tick_takes_s = 0.0
        self.given: dict[int, list[Tick]] = {}
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.before = 0
        self.awake = [self._replica(number) for number in range(1, groups + 1)]
        services: Any = SimpleNamespace(
            clock=SimpleNamespace(monotonic=lambda: self.now),
            loop=SimpleNamespace(call_later=self._call_later),
            rest=SimpleNamespace(awake=lambda: self.awake, tick_seconds=lambda usual: usual),
        )
        walks: Any = SimpleNamespace(start=self._walk)
        self.ticks = GroupTicks(services, walks, TICK_S, self._before, _unguarded)

    def _before(self) -> None:
        self.before += 1

    def _replica(self, number: int) -> Any:
        ticks = self.given.setdefault(number, [])

        def step(tick: Tick) -> None:
            ticks.append(tick)
            self.now += self.tick_takes_s

        pace = SimpleNamespace(is_due=lambda now, uses, *, waits: True)
        group = SimpleNamespace(
            group_id=GroupId(number),
            rest=SimpleNamespace(asleep=False, pace=pace, uses=0),
            step=step,
            sweep=lambda now: None,
            fail=lambda fault: None,
        )
        proposer = SimpleNamespace(is_idle=True, sweep=lambda now: None)
        return SimpleNamespace(group=group, proposer=proposer)

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> Any:
        self.timers.append((self.now + seconds, callback))
        return SimpleNamespace(cancel=self.timers.clear)

    def _walk(self, groups: Any, visit: Any, done: Any, *, is_tick: bool) -> None:
        assert is_tick
        for one in groups:
            visit(one)
        done()

    def goes_on(self) -> None:
        ((at, callback),) = self.timers
        self.timers.clear()
        self.now = max(self.now, at)
        callback()


def test_groups_are_told_with_their_ticks_and_ahead_of_messages_how_far_the_node_is_behind() -> (
    None
):
    """All but the catalog, whose elections gateways count on. Who is in time again tells so."""
    node = _Node(600)
    node.ticks.tick()
    assert {tick.grace for ticks in node.given.values() for tick in ticks} == {0.0}
    node.tick_takes_s = 0.001
    node.goes_on()
    node.goes_on()
    told = {number: ticks[-1].grace for number, ticks in node.given.items()}
    assert told.pop(CATALOG_GROUP) == 0.0
    assert set(told.values()) == {node.ticks.grace} and node.ticks.grace == pytest.approx(1.0)
    assert node.ticks.of(GroupId(7), 99.0) == Tick(99.0, node.ticks.grace)
    assert node.ticks.of(CATALOG_GROUP, 99.0) == Tick(99.0, 0.0)
    node.tick_takes_s = 0.0
    for _ in range(int(BEHIND_SECONDS / TICK_S) + 3):
        node.goes_on()
    assert node.ticks.grace == 0.0
    assert {ticks[-1].grace for ticks in node.given.values()} == {0.0}
    assert node.before == len(node.given[1])
    node.ticks.stop()
    assert node.timers == []
