"""What goes into the WAL comes out of it, and one sync serves many."""

from __future__ import annotations

from functools import partial

import pytest

from svc_cluster.base.ids import Generation, GroupId, LogIndex, Term
from svc_cluster.base.log_ops import DestroyReplica, InstallSnapshot
from svc_cluster.storage.wal import Wal, WalFormatError, WalSettings
from tests.unit.storage.fakes import FakeDisk
from tests.unit.storage.wal_driver import (
    TAG,
    commit,
    create,
    entries,
    hard_state,
    indexes,
    log_of,
    open_wal,
    payload_of,
    put,
    trim,
    truncate,
)


def test_everything_appended_is_recovered() -> None:
    """A restart returns entries, term, vote, commit and generation of each group."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create(3), hard_state(2, 7), entries(1, 1, 3, term=2), commit(2))
    put(wal, disk, 2, create(4), entries(2, 1, 1, size=5000))
    after = open_wal(disk.crash())
    one, two = log_of(after, 1), log_of(after, 2)
    assert (one.generation, one.term, one.voted_for, one.commit_index) == (3, 2, 7, 2)
    assert [e.payload for e in one.entries] == [payload_of(1, i, 2) for i in (1, 2, 3)]
    assert two.entries[0].payload == payload_of(2, 1, 1, 5000)
    assert not one.damaged
    assert not two.damaged
    assert two.voted_for is None


def test_unsynced_appends_are_lost_and_the_log_goes_on() -> None:
    """What no sync covered is not there after a crash, and the next append follows what is."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create(), entries(1, 1, 2))
    wal.append(GroupId(1), [entries(1, 3, 1)], None)
    disk = disk.crash()
    wal = open_wal(disk)
    assert indexes(log_of(wal, 1)) == [1, 2]
    put(wal, disk, 1, entries(1, 3, 1, term=5))
    assert log_of(open_wal(disk.crash()), 1).entries[-1].term == 5


def test_truncation_and_trimming_are_recovered() -> None:
    """The recovered log begins behind the trim point and ends with what was written last."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create(), entries(1, 1, 6), truncate(4), entries(1, 4, 2, term=3))
    put(wal, disk, 1, commit(5), trim(2))
    log = log_of(open_wal(disk.crash()), 1)
    assert [(e.log_index, e.term) for e in log.entries] == [(3, 1), (4, 3), (5, 3)]
    assert (log.base_index, log.base_term, log.commit_index) == (2, 1, 5)


def test_an_installed_snapshot_replaces_the_log() -> None:
    """Behind a snapshot frame the log is empty at its index and the generation is the new one."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create(), hard_state(4, None), entries(1, 1, 6))
    put(wal, disk, 1, InstallSnapshot(LogIndex(40), Term(4), Generation(9)))
    put(wal, disk, 1, entries(1, 41, 1, term=4))
    log = log_of(open_wal(disk.crash()), 1)
    assert (log.base_index, log.base_term, log.generation, log.term) == (40, 4, 9, 4)
    assert indexes(log) == [41]


def test_a_destroyed_replica_is_gone_until_the_group_gets_another() -> None:
    """After DestroyReplica the group is not recovered, and nothing of it is in the next replica."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create(), entries(1, 1, 2))
    put(wal, disk, 1, DestroyReplica())
    disk = disk.crash()
    after = open_wal(disk)
    assert GroupId(1) not in after.recovered
    assert after.destroyed() == {1}
    put(after, disk, 1, create(7), entries(1, 1, 1, term=3))
    assert after.destroyed() == frozenset()
    again = open_wal(disk.crash())
    log = log_of(again, 1)
    assert (log.generation, indexes(log), log.damaged) == (7, [1], False)
    assert log.entries[0].term == 3
    assert again.destroyed() == frozenset()


def test_one_sync_serves_every_append_that_waits() -> None:
    """While a sync runs the next batch accumulates, and one submission is in flight."""
    disk = FakeDisk()
    wal = open_wal(disk)
    for group in range(1, 11):
        put(wal, disk, group, create())
    reached: list[int] = []
    before = disk.sync_count
    for group in range(1, 11):
        wal.append(GroupId(group), [entries(group, 1, 1)], partial(reached.append, group))
        assert len(disk.queue) == 1
    disk.step()
    assert reached == [1]
    disk.step()
    assert reached == list(range(1, 11))
    assert disk.sync_count - before == 2


def test_commit_and_trim_ride_and_an_idle_mark_takes_them_along() -> None:
    """SetCommit and TrimPrefix cause no sync of their own; `mark_idle` bounds their wait."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create(), entries(1, 1, 3))
    wal.append(GroupId(1), [commit(3)], None)
    assert not disk.queue
    assert log_of(open_wal(disk.crash()), 1).commit_index == 0
    wal.mark_idle()
    disk.run()
    assert log_of(open_wal(disk.crash()), 1).commit_index == 3


def test_idle_marks_stop_when_there_is_nothing_to_testify() -> None:
    """An idle WAL writes one mark, not one for each tick."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    wal.mark_idle()
    disk.run()
    before = disk.sync_count
    for _ in range(5):
        wal.mark_idle()
        disk.run()
    assert disk.sync_count == before


def test_an_append_without_operations_waits_for_those_before_it() -> None:
    """`done` of an empty append runs after everything appended before it is durable."""
    disk = FakeDisk()
    wal = open_wal(disk)
    order: list[str] = []
    wal.append(GroupId(1), [create()], lambda: order.append("create"))
    wal.append(GroupId(1), [], lambda: order.append("empty"))
    assert order == []
    disk.run()
    assert order == ["create", "empty"]


def test_another_nodes_log_is_refused() -> None:
    """A WAL of another identity is a WalFormatError that says what to do, not a loss."""
    disk = FakeDisk()
    open_wal(disk)
    with pytest.raises(WalFormatError, match="another node identity"):
        open_wal(disk, tag=TAG + 1)


def test_a_newer_format_is_refused() -> None:
    """A segment of a format of the future is never overwritten."""
    from svc_cluster.base.checksum import crc32c

    disk = FakeDisk()
    open_wal(disk)
    data = disk.files[disk.list_names()[0]].data
    data[8] = 99
    data[40:44] = crc32c(bytes(data[:40])).to_bytes(4, "little")
    with pytest.raises(WalFormatError, match="format 99"):
        open_wal(disk)


def test_an_entry_that_fits_no_segment_is_our_bug() -> None:
    """Entries are bounded far below a segment; one that is not must not wait for ever."""
    disk = FakeDisk()
    wal = open_wal(disk)
    with pytest.raises(AssertionError, match="fits a segment"):
        wal.append(GroupId(1), [create(), entries(1, 1, 1, size=20_000)], None)


@pytest.mark.parametrize("size", [1000, 4096 * 3 + 1])
def test_settings_refuse_sizes_that_cannot_work(size: int) -> None:
    """Segments are whole blocks and hold at least a header and a few frames."""
    with pytest.raises(ValueError, match="segment_bytes"):
        WalSettings(segment_bytes=size)


def test_a_batch_is_bounded_and_nothing_is_lost_by_it() -> None:
    """More than `batch_bytes_max` waits for the next sync, in order."""
    settings = WalSettings(segment_bytes=16 * 1024, reserve_bytes=0, batch_bytes_max=2048)
    disk = FakeDisk()
    wal = Wal.open(disk, TAG, settings)
    put(wal, disk, 1, create(), entries(1, 1, 100, size=300))
    reached: list[int] = []
    wal.append(GroupId(1), [entries(1, 101, 50, size=300)], lambda: reached.append(1))
    wal.append(GroupId(1), [entries(1, 151, 50, size=300)], lambda: reached.append(2))
    assert 100 * 300 < wal.unsynced_bytes < 100 * 400, "what waits counts with what is written"
    before = wal.unsynced_bytes
    while disk.queue:
        disk.step()
        assert wal.unsynced_bytes < before + 200, "a batch's header and end are all that is new"
    assert reached == [1, 2] and wal.unsynced_bytes == 0
    assert indexes(log_of(Wal.open(disk.crash(), TAG, settings), 1)) == list(range(1, 201))


def test_whoever_waited_for_a_segment_is_told_behind_the_sync() -> None:
    """The disk is slow to make a segment; what waited for it is durable when it is told so."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    told: list[int] = []
    for log_index in range(1, 61):
        wal.append(
            GroupId(1), [entries(1, log_index, 1, size=900)], partial(told.append, log_index)
        )
    assert wal._pipeline._waiting
    while disk.queue:
        disk.step()
        if told:
            assert log_of(open_wal(disk.crash()), 1).last_index >= told[-1]
    assert told == list(range(1, 61))
