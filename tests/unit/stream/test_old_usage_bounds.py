"""How much of what is too old is dealt with in one entry, and when nothing of it is."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from svc_cluster.base.ids import StreamId
from svc_cluster.base.write_set import WriteSet
from svc_cluster.model.usage import FINE_MINUTES, HOUR_MINUTES
from svc_cluster.model.usage_table import AGED_ROWS_MAX, UsageDraft, UsageTable
from svc_cluster.stream import keys
from svc_cluster.stream.old_readings import AGED_READINGS_MAX, age
from svc_cluster.stream.usage_rows import encode_reading
from tests.unit.stream.support import Leader, MemoryStore
from tests.unit.stream.test_usage import at, reading_rows
from tests.unit.stream.test_usage_hours import HOUR, keeping

STREAM = StreamId(1)
HALF = HOUR_MINUTES // 2


class Table:
    """Counts in a store, which are written as entries write them."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.table = UsageTable(self.store, keys.USAGE_MINUTES_KIND, keys.USAGE_REPORTERS_KIND)

    def entry(self, *minutes: int) -> None:
        """One more read in each of these minutes."""
        draft = UsageDraft(self.table)
        for minute in minutes:
            draft.counts(minute).read_ops_unary += 1
        write_set = WriteSet()
        draft.write(write_set, keeps_hours=True)
        self.store.write(write_set)
        self.table.commit(draft)

    def reads(self) -> dict[int, int]:
        rows = self.table.rows(0, 2**40, 10_000)
        return {minute - HOUR: counts.read_ops_unary for minute, counts in rows}


@pytest.mark.parametrize("beyond", [0, 1])
def test_so_many_minutes_become_hours_with_one_entry(beyond: int) -> None:
    """As many as eight hours have, from the middle of one on; the next one stays by the minute, and
    nothing is lost."""
    table = Table()
    count = AGED_ROWS_MAX + beyond
    for minute in range(HALF, HALF + count):
        table.entry(HOUR + minute)
    late = FINE_MINUTES + 10 * HOUR_MINUTES
    table.entry(HOUR + late)
    hours = {hour * HOUR_MINUTES: HOUR_MINUTES for hour in range(9)}
    hours |= {0: HALF, 8 * HOUR_MINUTES: HALF, late: 1}
    rest = {8 * HOUR_MINUTES + HALF: 1} if beyond else {}
    assert AGED_ROWS_MAX == 8 * HOUR_MINUTES
    assert table.reads() == hours | rest


def test_a_clock_that_went_astray_loses_no_counts() -> None:
    """An entry that writes into what it would add up adds nothing up: each row is as it would be
    without that, and so is the sum."""
    table = Table()
    for minute in (5, 5, 40):
        table.entry(HOUR + minute)
    late = FINE_MINUTES + 2 * HOUR_MINUTES
    table.entry(HOUR + 5, HOUR + late)
    assert table.reads() == {5: 3, 40: 1, late: 1}


def thinned(minutes: Iterable[int]) -> tuple[list[int], int]:
    """The readings of one stream that are left of these once those of two hours have become too
    old, and how many rows were looked at."""
    store = MemoryStore()
    before = WriteSet()
    for minute in minutes:
        before.put(keys.reading_key(STREAM, HOUR + minute), encode_reading(minute))
    store.write(before)
    times = (HOUR + FINE_MINUTES, HOUR + FINE_MINUTES + 2 * HOUR_MINUTES)
    write_set = WriteSet()
    age(write_set, store, STREAM, times, keeps_hours=True)
    store.write(write_set)
    looked_at = store.scanned
    return [
        keys.reading_minute(key) - HOUR for key, _ in store.scan(*keys.readings_range(STREAM))
    ], looked_at


def test_so_many_readings_are_looked_at_with_one_entry() -> None:
    """An hour's worth, from the middle of one to the middle of the next; one more stays by the
    minute."""
    assert AGED_READINGS_MAX == HOUR_MINUTES
    assert thinned(range(HALF, HALF + 60)) == ([59, 89], 60)
    assert thinned(range(HALF, HALF + 61)) == ([59, 89, 90], 60)


@pytest.mark.parametrize("pause", [1, 10, 59, 60])
@pytest.mark.parametrize("offset", [0, 1, 31])
def test_who_appends_once_an_hour_keeps_one_reading_of_each(pause: int, offset: int) -> None:
    """The last one, of the stream and of the basin, where there was one every minute before."""
    leader = Leader()
    leader.create("s")
    keeping(leader)
    lived = 3 * HOUR_MINUTES
    for minute in range(HOUR, HOUR + lived):
        leader.append("s", now_ms=at(minute))
    begin = HOUR + FINE_MINUTES + offset
    for minute in range(begin, begin + lived + pause, pause):
        leader.append("s", now_ms=at(minute))
    for stream in (0, STREAM):
        old = [minute - HOUR for minute, _ in reading_rows(leader, stream)]
        assert [minute for minute in old if 0 <= minute < lived] == [59, 119, 179]
