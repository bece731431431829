"""Refusals are told in few lines, however many there are and from however many places."""

from __future__ import annotations

from svc_cluster.base.ids import TimestampMs
from svc_cluster.link.refused_callers import (
    CALLERS_MAX,
    LINE_SECONDS,
    RefusedCallers,
    caller_of,
)


class HandClock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> TimestampMs:
        return TimestampMs(0)


def test_one_line_a_minute_for_each_caller() -> None:
    """The line says how many refusals it stands for; callers do not share lines."""
    clock = HandClock()
    table = RefusedCallers(clock.monotonic)
    lines = []
    for _ in range(960):
        lines.append(table.refused("node 3"))
        clock.now += 0.125
    told = [count for count in lines if count is not None]
    assert told == [1, 480]
    assert table.refused("node 2") == 1
    assert table.refused("node 3") == 480
    clock.now += 3 * LINE_SECONDS
    assert table.refused("node 3") == 1


def test_the_table_is_bounded() -> None:
    """Callers beyond it share one line, and those of long ago are forgotten."""
    clock = HandClock()
    table = RefusedCallers(clock.monotonic)
    lines = [table.refused(f"10.0.{n // 256}.{n % 256}") for n in range(5 * CALLERS_MAX)]
    assert len(table) == CALLERS_MAX + 1
    assert sum(line is not None for line in lines) == CALLERS_MAX + 1
    clock.now += 2 * LINE_SECONDS
    assert table.refused("10.9.9.9") == 1
    assert len(table) == 1


def test_an_address_is_told_without_its_port() -> None:
    """Each connection has another one."""
    assert caller_of("ipv4:10.0.0.1:5000") == "ipv4:10.0.0.1"
    assert caller_of("ipv6:%5B::1%5D:5000") == "ipv6:%5B::1%5D"
    assert caller_of("unix") == "unix"
