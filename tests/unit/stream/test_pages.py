"""What a page of streams costs does not depend on how many there are."""

from __future__ import annotations

from svc_cluster.base.ids import StreamId, TimestampMs
from svc_cluster.stream import keys, rows
from svc_cluster.stream.rows import StreamEntry
from tests.unit.stream.support import Leader

MANY = 100_000
LIMIT = 1_000


def test_a_page_of_streams_reads_the_page() -> None:
    """One row more than the page holds, out of 100,000, at the front, in the middle, at the end and
    below a prefix; nothing for a prefix that no name has."""
    leader = Leader()
    store = leader.store
    for number in range(1, MANY + 1):
        name = f"s-{number:06}"
        entry = StreamEntry(name, StreamId(number), TimestampMs(1), None, None)
        store.values[keys.name_key(name)] = rows.encode_entry(entry)
    store._keys = sorted(store.values)
    for prefix, start_after, first, count in (
        ("", "", 1, LIMIT),
        ("s-", "s-050000", 50_001, LIMIT),
        ("s-", "s-099500", 99_501, 500),
        ("s-0770", "", 77_000, 100),
    ):
        scanned, gets = store.scanned, store.gets
        page, more = leader.state.list_streams(prefix, start_after, LIMIT)
        assert page[0].name == f"s-{first:06}"
        assert (len(page), more) == (count, count == LIMIT)
        assert store.scanned - scanned <= LIMIT + 1
        assert store.gets == gets
    scanned = store.scanned
    assert leader.state.list_streams("t", "", LIMIT) == ([], False)
    assert store.scanned == scanned
