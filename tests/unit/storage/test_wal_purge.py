"""Segments are freed oldest first and recycled, and nothing needed is lost by it."""

from __future__ import annotations

import dataclasses
from functools import partial

from svc_cluster.base.ids import Generation, GroupId, LogIndex, Term
from svc_cluster.base.log_ops import DestroyReplica, InstallSnapshot
from svc_cluster.storage.wal import Wal
from svc_cluster.storage.wal.segment import Segment, SegmentHeader, segment_name, segment_number
from svc_cluster.storage.wal.supply import SegmentSupply
from tests.unit.storage.fakes import FakeDisk
from tests.unit.storage.wal_driver import (
    SMALL,
    TAG,
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


def fill(wal: Wal, disk: FakeDisk, group: int, first: int, count: int, term: int = 1) -> None:
    for log_index in range(first, first + count, 4):
        size = min(4, first + count - log_index)
        put(wal, disk, group, entries(group, log_index, size, term=term, size=900))


def segments_of(disk: FakeDisk) -> list[str]:
    return [name for name in disk.list_names() if segment_number(name) is not None]


def flushed(wal: Wal, disk: FakeDisk, group: int, log_index: int) -> None:
    wal.set_flushed(GroupId(group), LogIndex(log_index))
    wal.release()
    disk.run()


def test_nothing_is_freed_before_the_state_store_has_flushed() -> None:
    """A segment with an unflushed entry stays, and the WAL says which group it waits for."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    fill(wal, disk, 1, 1, 60)
    used = wal.used_segments
    assert used > 3
    wal.release()
    disk.run()
    assert wal.used_segments == used
    assert wal.pinned_by() == [1]
    assert wal.needs_release(lambda _: LogIndex(0))


def test_flushed_segments_are_freed_and_the_log_base_says_what_is_missing() -> None:
    """After a restart the recovered base covers exactly what stood in the freed segments."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create(5), hard_state(3, 2))
    fill(wal, disk, 1, 1, 60, term=3)
    flushed(wal, disk, 1, 60)
    assert wal.used_segments == 1
    log = log_of(open_wal(disk.crash()), 1)
    assert log.base_index > 0
    assert log.base_term == 3
    assert (log.generation, log.term, log.voted_for) == (5, 3, 2)
    assert log.last_index == 60
    assert indexes(log) == list(range(log.base_index + 1, 61))
    assert not log.damaged


def test_a_partly_flushed_log_keeps_every_unflushed_entry() -> None:
    """Freeing stops at the segment that holds the first unflushed entry."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    fill(wal, disk, 1, 1, 60)
    flushed(wal, disk, 1, 31)
    log = log_of(open_wal(disk.crash()), 1)
    assert 0 < log.base_index <= 31
    assert indexes(log) == list(range(log.base_index + 1, 61))


def test_an_idle_groups_state_is_carried_forward() -> None:
    """A group that wrote once, long ago, keeps its state when its segment is recycled."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 7, create(2), hard_state(9, 4), entries(7, 1, 3))
    put(wal, disk, 1, create())
    fill(wal, disk, 1, 1, 60)
    wal.set_flushed(GroupId(7), LogIndex(3))
    flushed(wal, disk, 1, 60)
    assert wal.used_segments == 1
    log = log_of(open_wal(disk.crash()), 7)
    assert (log.generation, log.term, log.voted_for, log.damaged) == (2, 9, 4, False)
    assert (log.base_index, log.last_index) == (3, 3)


def test_an_idle_unflushed_group_pins_and_is_named() -> None:
    """The owner learns which group to flush so that space can be freed."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 7, create(), entries(7, 1, 1))
    put(wal, disk, 1, create())
    fill(wal, disk, 1, 1, 60)
    flushed(wal, disk, 1, 60)
    assert wal.pinned_by() == [7]
    assert wal.used_segments > 1
    flushed(wal, disk, 7, 1)
    assert wal.used_segments == 1


def test_truncated_trimmed_superseded_and_destroyed_entries_pin_nothing() -> None:
    """Only entries that are still in a log keep a segment."""
    disk = FakeDisk()
    wal = open_wal(disk)
    for group in (1, 2, 3, 4):
        put(wal, disk, group, create())
        fill(wal, disk, group, 1, 8)
    put(wal, disk, 1, truncate(1))
    put(wal, disk, 2, trim(8))
    put(wal, disk, 3, InstallSnapshot(LogIndex(50), Term(2), Generation(2)))
    put(wal, disk, 4, DestroyReplica())
    put(wal, disk, 5, create())
    fill(wal, disk, 5, 1, 20)
    flushed(wal, disk, 5, 20)
    assert wal.used_segments == 1
    after = open_wal(disk.crash())
    assert (log_of(after, 1).last_index, log_of(after, 2).base_index) == (0, 8)
    assert (log_of(after, 3).base_index, log_of(after, 3).generation) == (50, 2)
    assert GroupId(4) not in after.recovered
    assert after.destroyed() == frozenset(), "no older frame of it is left"


def test_recycling_keeps_the_wal_small() -> None:
    """With flushes that keep up, far more is written than the files hold."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    for first in range(1, 601, 12):
        fill(wal, disk, 1, first, 12)
        flushed(wal, disk, 1, first + 11)
    assert wal.size_bytes <= 6 * SMALL.segment_bytes
    log = log_of(open_wal(disk.crash()), 1)
    assert log.last_index == 600


def test_frames_of_an_earlier_life_never_reappear() -> None:
    """Recycled segments are full of valid old frames; recovery takes none of them."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    for round_start in range(1, 241, 12):
        fill(wal, disk, 1, round_start, 12, term=round_start)
        flushed(wal, disk, 1, round_start + 11)
        after = open_wal(disk.crash())
        log = log_of(after, 1)
        assert not log.damaged
        assert log.last_index == round_start + 11
        for entry in log.entries:
            assert entry.payload == payload_of(1, entry.log_index, entry.term, 900)


def test_frames_of_one_size_in_recycled_segments_are_told_apart() -> None:
    """Every place of a recycled segment holds a whole frame of the same length: only the segment's
    number and generation, and the chain of checksums, say which life it is of."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    for log_index in range(1, 600):
        put(wal, disk, 1, entries(1, log_index, 1))
        if log_index % 20 == 0:
            flushed(wal, disk, 1, log_index)
            log = log_of(open_wal(disk.crash()), 1)
            assert (log.damaged, log.last_index) == (False, log_index)
            held = [entry.payload for entry in log.entries]
            assert held == [payload_of(1, entry.log_index, entry.term) for entry in log.entries]


def test_a_crash_after_every_step_of_a_release_loses_nothing() -> None:
    """Each submission of carry, free mark and recycling is cut off once, lost and then torn."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 7, create(3), hard_state(2, 1), entries(7, 1, 2))
    put(wal, disk, 1, create())
    fill(wal, disk, 1, 1, 80)
    wal.set_flushed(GroupId(7), LogIndex(2))
    wal.set_flushed(GroupId(1), LogIndex(70))
    wal.release()
    for _ in range(200):
        for torn in (
            None,
            lambda place, _, data: data,
            lambda place, _, data: data[: len(data) // 2],
        ):
            after = open_wal(disk.crash(torn))
            one, seven = log_of(after, 1), log_of(after, 7)
            assert not one.damaged
            assert not seven.damaged
            assert one.base_index <= 70
            assert indexes(one) == list(range(one.base_index + 1, 81))
            assert (seven.generation, seven.term, seven.voted_for) == (3, 2, 1)
            assert seven.last_index == 2
        if not disk.queue:
            return
        disk.step()
    raise AssertionError("the release never ends")


def test_a_full_disk_stalls_and_goes_on_when_segments_are_freed() -> None:
    """Without room for a segment appends wait; freeing one lets them through in order."""
    disk = FakeDisk(free=SMALL.segment_bytes * 4)
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    reached: list[int] = []
    for log_index in range(1, 81):
        wal.append(
            GroupId(1),
            [entries(1, log_index, 1, size=900)],
            partial(reached.append, log_index),
        )
        disk.run()
    assert wal._pipeline._waiting
    assert 0 < len(reached) < 80
    for _ in range(10):
        flushed(wal, disk, 1, reached[-1])
    assert reached == list(range(1, 81))
    assert log_of(open_wal(disk.crash()), 1).last_index == 80


def test_below_the_reserve_there_is_no_space() -> None:
    """`has_space` is false while free bytes are below the reserve, and true again above it."""
    settings = dataclasses.replace(SMALL, reserve_bytes=1 << 20)
    disk = FakeDisk(free=1 << 21)
    wal = Wal.open(disk, TAG, settings)
    assert wal.has_space()
    disk.free = (1 << 20) - 1
    assert not wal.has_space()


def test_space_is_announced_after_each_freed_segment() -> None:
    """`on_space` runs once a segment is durably free."""
    disk = FakeDisk()
    calls: list[int] = []
    wal = Wal.open(disk, TAG, SMALL, lambda: calls.append(1))
    put(wal, disk, 1, create())
    fill(wal, disk, 1, 1, 60)
    used = wal.used_segments
    flushed(wal, disk, 1, 60)
    assert len(calls) == used - 1


def test_a_quiet_log_gives_back_the_segments_that_it_does_not_use() -> None:
    """After a burst the free segments go, but for the one that is ready next; a log that is busy
    keeps those that it takes and frees all the time."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    fill(wal, disk, 1, 1, 120)
    flushed(wal, disk, 1, 120)
    assert len(wal._supply.segments()) > 4
    for first in range(121, 601, 48):
        fill(wal, disk, 1, first, 48)
        flushed(wal, disk, 1, first + 47)
        wal.shrink()
        disk.run()
    kept = len(wal._supply.segments())
    created = max(segments_of(disk))
    assert kept > 1
    fill(wal, disk, 1, 601, 48)
    flushed(wal, disk, 1, 648)
    assert max(segments_of(disk)) == created, "no file had to be made for what the log always needs"
    for _ in range(2):
        wal.shrink()
        disk.run()
    assert (wal.used_segments, len(wal._supply.segments())) == (1, 1)
    assert wal.size_bytes == sum(disk.files[name].size() for name in segments_of(disk))
    assert len(segments_of(disk)) == 2
    assert log_of(open_wal(disk.crash()), 1).last_index == 648


def test_a_crash_while_the_pool_shrinks_leaves_a_whole_log() -> None:
    """Whichever of the removals had happened."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    fill(wal, disk, 1, 1, 100)
    flushed(wal, disk, 1, 100)
    wal.shrink()
    disk.run()
    wal.shrink()
    steps = 0
    while disk.queue:
        disk.step()
        steps += 1
        log = log_of(open_wal(disk.crash()), 1)
        assert (log.last_index, log.damaged) == (100, False)
    assert steps > 3
    fill(wal, disk, 1, 101, 60)
    assert log_of(open_wal(disk.crash()), 1).last_index == 160


def test_a_restart_keeps_no_more_free_segments_than_a_log_needs_to_begin() -> None:
    """The others are removed behind its back: it does not wait for that."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    fill(wal, disk, 1, 1, 120)
    flushed(wal, disk, 1, 120)
    files = len(segments_of(disk))
    again_on = disk.crash()
    again = open_wal(again_on)
    assert files > 5
    assert len(again._supply.segments()) <= 3
    assert len(segments_of(again_on)) == files
    again_on.run()
    assert len(segments_of(again_on)) == len(again._supply.segments()) + again.used_segments


def test_what_a_stop_left_to_be_removed_is_removed_by_the_next_start() -> None:
    """Also a file that was shortened already, over several starts that come to nothing; no name is
    used again, and the log is whole."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    fill(wal, disk, 1, 1, 120)
    flushed(wal, disk, 1, 120)
    names = set(segments_of(disk))
    for size in (12 * 1024, 8 * 1024 + 1, 4096, 1):
        disk = disk.crash()
        wal = open_wal(disk)
        assert (log_of(wal, 1).last_index, log_of(wal, 1).damaged) == (120, False)
        assert len(disk.removals) > 1
        half_done = disk.files[disk.removals[-1]]
        del half_done.data[size:], half_done.durable[size:]
    disk = disk.crash()
    wal = open_wal(disk)
    removed = set(disk.removals)
    assert removed < names
    disk.run()
    assert not removed & set(segments_of(disk))
    assert len(segments_of(disk)) == len(wal._supply.segments()) + wal.used_segments
    fill(wal, disk, 1, 121, 200)
    made = set(segments_of(disk)) - names
    assert made
    assert min(made) > max(names)
    assert (log_of(open_wal(disk.crash()), 1).last_index) == 320


def test_a_start_on_a_full_disk_waits_for_the_room_that_it_makes() -> None:
    """Segments of another length go before one of this length is made; with room, behind."""
    disk = FakeDisk(free=3 * 16 * 1024)
    segments = [
        Segment(disk.create(segment_name(number), 16 * 1024), SegmentHeader(0, 1, 0), 16 * 1024)
        for number in (1, 2, 3)
    ]
    supply = SegmentSupply(disk, TAG, dataclasses.replace(SMALL, segment_bytes=32 * 1024), 4)
    for segment in segments:
        supply.put_back_now(segment)
    assert segments_of(disk) == [segment_name(3)]
    assert disk.removals == [segment_name(3)]
    supply.take_now(None)
    assert disk.free == 0
    disk.run()
    assert segments_of(disk) == [segment_name(4)]
