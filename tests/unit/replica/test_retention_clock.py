"""Whether a leader's clock may be gone by."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.replica.retention_clock import (
    CLOCK_AWAY_MS_MAX,
    CLOCK_FRESH_SECONDS,
    SAY_SECONDS,
    UNKNOWN_SECONDS,
    ClockWatch,
    PeerClocks,
    RetentionClock,
    away_ms,
)
from tests.unit.raft.harness import Node
from tests.unit.replica.test_keeper import ManualClock

HOUR_MS = 3_600_000
TEN_YEARS_MS = 10 * 365 * 24 * HOUR_MS


@pytest.mark.parametrize(
    ("own", "others", "members", "away"),
    [
        (5, [], 1, 0),
        (5, [], 3, None),
        (5, [7], 3, -2),
        (HOUR_MS, [0], 3, HOUR_MS),
        (0, [HOUR_MS], 3, -HOUR_MS),
        (0, [0, TEN_YEARS_MS], 3, 0),
        (TEN_YEARS_MS, [0, 10], 3, TEN_YEARS_MS - 10),
        (-HOUR_MS, [0, 10], 3, -HOUR_MS),
        (5, [6], 5, None),
        (HOUR_MS, [0, 0], 5, HOUR_MS),
        (0, [0, HOUR_MS, HOUR_MS], 5, -HOUR_MS),
        (0, [0, 0, HOUR_MS, HOUR_MS], 5, 0),
    ],
)
def test_distance_from_the_median(
    own: int, others: Sequence[int], members: int, away: int | None
) -> None:
    """Of three, five or one; with some of them unknown; with two against two."""
    assert away_ms(own, others, members) == away


@given(
    true=st.lists(st.integers(0, CLOCK_AWAY_MS_MAX), min_size=1, max_size=4),
    wrong=st.lists(st.integers(-TEN_YEARS_MS, TEN_YEARS_MS), max_size=4),
)
def test_a_leader_that_is_trusted_is_as_right_as_the_majority(
    true: list[int], wrong: list[int]
) -> None:
    """Whatever a minority of the known clocks shows: one of it that is trusted is within a minute
    of a clock of the majority, and one of a majority that agrees is trusted itself."""
    if len(wrong) >= len(true):
        return
    members = len(true) + len(wrong)
    for place, own in enumerate(wrong):
        others = [*true, *wrong[:place], *wrong[place + 1 :]]
        away = away_ms(own, others, members)
        assert away is not None
        if abs(away) <= CLOCK_AWAY_MS_MAX:
            assert min(true) - CLOCK_AWAY_MS_MAX <= own <= max(true) + CLOCK_AWAY_MS_MAX
    for place, own in enumerate(true):
        away = away_ms(own, [*true[:place], *true[place + 1 :], *wrong], members)
        assert away is not None
        if len(wrong) + 1 < len(true):
            assert abs(away) <= CLOCK_AWAY_MS_MAX


class Rig:
    """Node 1 of three, and what it hears."""

    def __init__(self, members: Sequence[int] = (1, 2, 3)) -> None:
        self.clock = ManualClock()
        self.peers = PeerClocks()
        self.retention = RetentionClock(Node(1, list(members)).group, self.clock, self.peers)
        self.watch = ClockWatch(self.clock, get_logger("test"))

    def hear(self, *offsets_ms: int) -> None:
        """Nodes 2, 3, ... tell clocks that are so far from the own one."""
        for node, offset_ms in enumerate(offsets_ms, start=2):
            wall_ms = self.clock.wall_ms() + offset_ms
            self.peers.heard(NodeId(node), wall_ms, self.clock.monotonic())

    def look(self) -> tuple[int, int]:
        self.watch.look([self.retention.away_ms()])
        return self.watch.stopped, self.watch.away_ms


@pytest.mark.parametrize("away", [CLOCK_AWAY_MS_MAX, -CLOCK_AWAY_MS_MAX])
def test_a_minute_is_near_enough_and_a_millisecond_more_is_not(away: int) -> None:
    """Ahead and behind."""
    rig = Rig()
    rig.hear(-away, -away)
    assert rig.retention.wall_ms() == rig.clock.wall_ms()
    rig.clock.wall_offset_ms += 1 if away > 0 else -1
    assert rig.retention.wall_ms() is None


def test_an_own_clock_that_jumps_is_noticed_before_anybody_is_heard_again() -> None:
    """The others' readings go on by the monotonic clock, which does not jump."""
    rig = Rig()
    rig.hear(0, 0)
    rig.clock.seconds += CLOCK_FRESH_SECONDS
    assert rig.retention.away_ms() == 0
    rig.clock.wall_offset_ms = HOUR_MS
    assert (rig.retention.away_ms(), rig.retention.wall_ms()) == (HOUR_MS, None)


def test_what_was_heard_long_ago_is_not_known() -> None:
    """Silence is no agreement."""
    rig = Rig()
    assert rig.retention.wall_ms() is None
    rig.hear(0, 0)
    rig.clock.seconds += CLOCK_FRESH_SECONDS + 0.1
    assert rig.retention.wall_ms() is None
    rig.hear(0)
    assert rig.retention.wall_ms() == rig.clock.wall_ms()


def test_an_only_replica_has_its_own_clock_and_strangers_have_no_say() -> None:
    rig = Rig(members=(1,))
    assert rig.retention.wall_ms() == rig.clock.wall_ms()
    rig.hear(HOUR_MS, HOUR_MS)
    assert rig.retention.wall_ms() == rig.clock.wall_ms()


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found


def test_a_leader_that_expires_nothing_says_so_at_most_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """At once when its clock is away, again while that lasts, and when it is over."""
    caplog.set_level(logging.INFO, "svc_cluster")
    rig = Rig()
    rig.hear(0, 0)
    assert (rig.look(), events(caplog)) == ((0, 0), [])
    rig.hear(-HOUR_MS, -HOUR_MS)
    assert (rig.look(), events(caplog)) == ((1, HOUR_MS), ["retention_stopped"])
    for _ in range(round(SAY_SECONDS) - 1):
        rig.clock.seconds += 1
        rig.hear(-HOUR_MS, -HOUR_MS)
        rig.look()
    assert events(caplog) == []
    rig.clock.seconds += 1
    rig.hear(-HOUR_MS, -HOUR_MS)
    rig.look()
    assert events(caplog) == ["retention_stopped"]
    rig.clock.seconds += SAY_SECONDS
    rig.hear(0, 0)
    assert (rig.look(), events(caplog)) == ((0, 0), ["retention_resumed"])


def test_clocks_that_stay_unknown_are_said_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """Not those of the moment in which a leader is new."""
    caplog.set_level(logging.INFO, "svc_cluster")
    rig = Rig()
    assert (rig.look(), events(caplog)) == ((1, 0), [])
    rig.clock.seconds += UNKNOWN_SECONDS
    rig.look()
    assert events(caplog) == ["retention_stopped"]
