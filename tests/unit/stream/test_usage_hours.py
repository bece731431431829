"""Use that is too old for its minutes is kept by the hour, once the log has said so."""

from __future__ import annotations

import pytest

from svc_cluster.codec.entry_version import UnknownEntryError
from svc_cluster.codec.log_entry import decode_steps, encode_command, join_commands
from svc_cluster.model.usage import (
    DAY_MINUTES,
    FINE_MINUTES,
    HOUR_MINUTES,
    KEPT_MINUTES,
    aged_minutes,
)
from svc_cluster.stream import keys, usage_requests
from svc_cluster.stream.basin_state import BasinState
from svc_cluster.stream.commands import DeleteStream, KeepUsage, PurgeStream
from svc_cluster.stream.usage_rows import decode_kept
from tests.unit.stream.support import Leader
from tests.unit.stream.test_usage import MINUTE, at, reading_rows

HOUR = MINUTE // HOUR_MINUTES * HOUR_MINUTES + 7 * HOUR_MINUTES
"""Some hour's first minute."""


def keeping(leader: Leader) -> None:
    command = usage_requests.keep_hours(leader.sequencer.view, leader.state.usage)
    assert command == KeepUsage()
    leader.apply([command])


def minutes(leader: Leader) -> dict[int, int]:
    """Bytes appended by the minute that a row is of."""
    rows = leader.state.usage.table.rows(0, 2**40, 10_000)
    return {
        minute: counts.append_bytes_express + counts.append_bytes_standard
        for minute, counts in rows
    }


def test_minutes_become_hours_and_nothing_is_lost() -> None:
    """All of an hour is in its first minute once the hour is 31 days old, and only then; the sum is
    what it was. A state that is opened anew goes on so."""
    leader = Leader()
    leader.create("s")
    keeping(leader)
    for minute in range(HOUR, HOUR + 70, 7):
        leader.append("s", now_ms=at(minute))
    before = minutes(leader)
    assert set(before.values()) == {9}
    for late in (HOUR + FINE_MINUTES + HOUR_MINUTES - 1, HOUR + FINE_MINUTES + HOUR_MINUTES):
        leader.append("s", now_ms=at(late))
    assert BasinState(leader.store).usage.keeps_hours
    found = minutes(leader)
    assert [m for m in found if m < HOUR + 100] == [HOUR, HOUR + 63]
    assert found[HOUR] == sum(size for m, size in before.items() if m < HOUR + HOUR_MINUTES)
    assert found[HOUR + 63] == before[HOUR + 63]
    assert usage_requests.keep_hours(leader.sequencer.view, leader.state.usage) is None
    leader.append("s", now_ms=at(HOUR + KEPT_MINUTES))
    assert HOUR in minutes(leader)
    leader.append("s", now_ms=at(HOUR + KEPT_MINUTES + 1))
    assert HOUR not in minutes(leader)


def test_the_last_reading_of_each_hour_is_kept() -> None:
    """Of a stream and of the basin, where there is one every minute."""
    leader = Leader()
    leader.create("s")
    keeping(leader)
    lived = 3 * HOUR_MINUTES
    for minute in range(HOUR, HOUR + lived):
        leader.append("s", now_ms=at(minute))
    for minute in range(HOUR + FINE_MINUTES, HOUR + FINE_MINUTES + lived + 1):
        leader.append("s", now_ms=at(minute))
    for stream in (0, 1):
        old = [minute for minute, _ in reading_rows(leader, stream) if 0 <= minute - HOUR < lived]
        assert old == [HOUR + each * HOUR_MINUTES + 59 for each in range(3)]


def test_without_the_entry_all_goes_after_31_days() -> None:
    """As it was before: replicas that have not met it yet write the same as those of the release
    before."""
    leader = Leader()
    leader.create("s")
    for minute in (HOUR, HOUR + 1):
        leader.append("s", now_ms=at(minute))
    leader.append("s", now_ms=at(HOUR + FINE_MINUTES + 120))
    assert list(minutes(leader)) == [HOUR + FINE_MINUTES + 120]
    assert leader.store.get(keys.USAGE_KEPT_KEY) is None


@pytest.mark.parametrize("is_said", [False, True])
def test_times_with_streams_are_forgotten_by_the_length_that_the_log_has_said(
    is_said: bool,
) -> None:
    """A time that ended 40 days ago is known where hours are kept, and gone where they are not: as
    the release before writes it."""
    leader = Leader()
    if is_said:
        keeping(leader)
    first = leader.create("s", None).stream_id
    leader.apply([DeleteStream(first, at(MINUTE)), PurgeStream(first, at(MINUTE))])
    late = at(MINUTE + 40 * DAY_MINUTES)
    leader.run(leader.sequencer.create_stream("t", None, late))
    assert len(leader.state.usage.presence) == (2 if is_said else 1)


def test_whole_hours_age_and_none_that_goes_anyway() -> None:
    """The range is empty within an hour, and begins with what is kept at all."""
    edge = HOUR + FINE_MINUTES
    assert not aged_minutes(edge, edge + 59)
    assert aged_minutes(edge + 59, edge + 60) == range(HOUR, HOUR + 60)
    late = edge + 2 * KEPT_MINUTES
    assert aged_minutes(edge, late).start >= late - KEPT_MINUTES


def test_a_row_of_a_clock_that_was_ahead_holds_up_nothing() -> None:
    """One append a year ahead; then the time goes on as it should. Hours are made and rows go as if
    that row were not there, and it stays what it was."""
    leader, even = Leader(), Leader()
    ahead = HOUR + 365 * DAY_MINUTES
    for each in (leader, even):
        each.create("s")
        keeping(each)
        each.append("s", now_ms=at(HOUR))
    leader.append("s", now_ms=at(ahead))
    even.append("s", now_ms=at(HOUR))
    for day in range(1, 120):
        for each in (leader, even):
            for minute in (0, 7):
                each.append("s", now_ms=at(HOUR + day * DAY_MINUTES + minute))
    found = minutes(leader)
    assert found.pop(ahead) == 9
    assert found == minutes(even)
    assert min(found) >= HOUR + 119 * DAY_MINUTES + 7 - KEPT_MINUTES
    assert sorted(found.values()) == [9] * 2 * 32 + [18] * 59, "32 days by the minute, 59 by hours"


def test_a_way_of_keeping_that_is_newer_stops_the_reader() -> None:
    """In an entry and in the row."""
    payload = join_commands([encode_command(KeepUsage())])
    assert list(_decoded(payload)) == [KeepUsage()]
    with pytest.raises(UnknownEntryError):
        _decoded(payload[:-1] + b"\x02")
    with pytest.raises(ValueError, match="does not know"):
        decode_kept(b"\x02")


def _decoded(payload: bytes) -> list[object]:
    steps = decode_steps(payload)
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return list(ended.value)
