"""How many rows and bytes the use of a basin comes to that is used all the time."""

from __future__ import annotations

from svc_cluster.base.write_set import WriteSet
from svc_cluster.model.usage import DAY_MINUTES, KEPT_MINUTES
from svc_cluster.model.usage_table import UsageDraft, UsageTable
from svc_cluster.stream import keys
from tests.unit.stream.support import MemoryStore
from tests.unit.stream.test_usage_hours import HOUR

ROWS = 46_139
"""31 days of minutes, 60 days of hours, and of the hour that is next to be added up 59 minutes."""
ROW_BYTES = 30
"""Of a minute in which there were appends and reads of one kind each, its key included."""


def test_91_days_of_a_basin_in_use_are_so_many_rows_and_bytes() -> None:
    """Appends and reads in every minute: 31 days of minutes, and an hour each for the rest."""
    store = MemoryStore()
    table = UsageTable(store, keys.USAGE_MINUTES_KIND, keys.USAGE_REPORTERS_KIND)
    kept: dict[int, int] = {}
    for minute in range(HOUR, HOUR + KEPT_MINUTES + 2 * DAY_MINUTES):
        draft = UsageDraft(table)
        counts = draft.counts(minute)
        counts.append_bytes_express = counts.read_bytes = 3_000_000
        counts.append_ops_express = counts.read_ops_streaming = 600
        write_set = WriteSet()
        draft.write(write_set, keeps_hours=True)
        store.write(write_set)
        table.commit(draft)
    for key, value in store.values.items():
        kept[len(key) + len(value)] = kept.get(len(key) + len(value), 0) + 1
    print(f"{sum(kept.values())} rows, {sum(size * number for size, number in kept.items())} bytes")
    assert kept == {ROW_BYTES: ROWS}
