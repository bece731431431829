"""The log with large entries apart: two files in one sync, and what a restart makes of either."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from svc_cluster.base.ids import Generation, GroupId, LogIndex, Term
from svc_cluster.base.log_ops import DestroyReplica, InstallSnapshot
from svc_cluster.storage.payload.payload_frame import BLOCK_BYTES, file_name, file_number
from svc_cluster.storage.wal import Wal
from svc_cluster.storage.wal.ledger import Applied
from tests.unit.storage.fakes import FakeDisk
from tests.unit.storage.payload_driver import APART, BULK, open_apart
from tests.unit.storage.wal_driver import (
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

GROUP = GroupId(1)


def begun(disk: FakeDisk, count: int = 3) -> Wal:
    wal = open_apart(disk)
    put(wal, disk, 1, create(), hard_state(1, 2))
    for index in range(1, count + 1):
        put(wal, disk, 1, entries(1, index, 1, size=BULK), commit(index))
    return wal


def check_whole(wal: Wal, last: int, group: int = 1) -> None:
    log = log_of(wal, group)
    assert not log.damaged
    assert indexes(log) == list(range(log.base_index + 1, last + 1))
    for entry in log.entries:
        assert entry.payload == payload_of(group, entry.log_index, entry.term, len(entry.payload))


def test_a_large_entry_stands_once_on_the_disk() -> None:
    """Its bytes are in a payload file and in no segment; a small one's are in the log."""
    disk = FakeDisk()
    wal = begun(disk)
    put(wal, disk, 1, entries(1, 4, 1, size=30))
    for index, where in ((1, "payload-"), (2, "payload-"), (3, "payload-"), (4, "wal-")):
        size = 30 if index == 4 else BULK
        found = [n for n, f in disk.files.items() if payload_of(1, index, 1, size) in f.durable]
        assert [name[: len(where)] for name in found] == [where]
    assert wal.place_of(GROUP, LogIndex(4)) is None
    assert wal.place_of(GROUP, LogIndex(2)) is not None
    check_whole(open_wal(disk.crash()), 4)


def test_one_submission_carries_payload_and_frame_in_this_order() -> None:
    """What waits for one waits for both, and the payload's file is synced first."""
    disk = FakeDisk()
    wal = begun(disk, 1)
    reached: list[bool] = []
    disk.run()
    wal.append(GROUP, [entries(1, 2, 1, size=BULK)], lambda: reached.append(True))
    assert len(disk.queue) == 1
    kinds = [file.name.split("-")[0] for file, _, _ in disk.queue[0][0]]
    assert [kind for kind, _ in itertools.groupby(kinds)] == ["payload", "wal"]
    assert not reached
    disk.run()
    assert reached


def test_each_torn_part_of_the_last_window_ends_the_log_there() -> None:
    """Of an unsynced window any writes may be missing: what is left is a prefix, undamaged, and the
    log goes on."""
    disk = FakeDisk()
    wal = begun(disk)
    disk.run()
    wal.append(GroupId(2), [create()], None)  # in flight alone; the rest makes the next batch
    for index in (4, 5, 6):
        wal.append(GROUP, [entries(1, index, 1, size=BULK if index != 5 else 40)], None)
    disk.step()
    pieces = [bytes(data) for batch, _ in disk.queue for _, _, data in batch]
    assert len(pieces) == 7, "header, payload and zeros of two, and one stretch of the log"
    ends = set()
    for kept in itertools.product((True, False), repeat=len(pieces)):
        after = disk.crash(
            lambda place, _, data, kept=kept: data if kept[place] else None  # type: ignore[misc]
        )
        found = open_apart(after)
        last = log_of(found, 1).last_index
        check_whole(found, last)
        assert last >= 3
        ends.add(last)
        put(found, after, 1, entries(1, last + 1, 1, term=2, size=BULK))
        check_whole(open_apart(after.crash()), last + 1)
    assert ends == {3, 5, 6}


def test_a_torn_payload_behind_a_whole_frame_ends_the_log() -> None:
    """Every byte of the payload counts: one that did not arrive is enough."""
    disk = FakeDisk()
    wal = begun(disk)
    disk.run()
    wal.append(GROUP, [entries(1, 4, 1, size=BULK)], None)
    for missing in (0, BULK // 2, BULK - 1):

        def torn(_place: int, _offset: int, data: bytes, missing: int = missing) -> bytes:
            if len(data) == BULK:
                return data[:missing] + b"\0" + data[missing + 1 :]
            return data

        after = open_wal(disk.crash(torn), APART)
        check_whole(after, 3)


@pytest.mark.parametrize("index", [1, 2, 3])
def test_a_bad_payload_that_was_synced_is_damage(index: int) -> None:
    """A byte flips in a payload with a later batch behind it: the replica is damaged, the other is
    not, and the log is not cut as if it were torn."""
    disk = FakeDisk()
    wal = begun(disk)
    put(wal, disk, 2, create(), entries(2, 1, 2, size=BULK))
    put(wal, disk, 1, entries(1, 4, 1, size=30))
    wal.mark_idle()
    disk.run()
    place = wal.place_of(GROUP, LogIndex(index))
    assert place is not None
    after = disk.crash()
    after.flip(file_name(place.number), place.offset + 7)
    again = open_wal(after, APART)
    assert log_of(again, 1).damaged
    assert log_of(again, 1).last_index == index - 1
    check_whole(again, 2, group=2)
    disk = after.crash()
    assert log_of(open_wal(disk, APART), 1).damaged, "it is noted"


def test_a_lost_payload_file_is_damage_only_where_the_log_needs_it() -> None:
    """Entries above the base need their payloads; below it nothing is read."""
    disk = FakeDisk()
    wal = begun(disk)
    put(wal, disk, 1, trim(3))
    put(wal, disk, 2, create(), entries(2, 1, 1, size=30))
    wal.mark_idle()
    disk.run()
    after = disk.crash()
    for name in [one for one in after.files if file_number(one) is not None]:
        del after.files[name]
    again = open_wal(after, APART)
    assert not log_of(again, 1).damaged
    assert (log_of(again, 1).base_index, log_of(again, 1).last_index) == (3, 3)
    disk = FakeDisk()
    wal = begun(disk)
    wal.mark_idle()
    disk.run()
    after = disk.crash()
    for name in [one for one in after.files if file_number(one) is not None]:
        del after.files[name]
    assert log_of(open_wal(after, APART), 1).damaged


def test_places_go_with_their_entries() -> None:
    """Trimmed, truncated and superseded entries, and those of a destroyed replica, need no file."""
    disk = FakeDisk()
    wal = begun(disk, 6)
    numbers = [wal.place_of(GROUP, LogIndex(index)) for index in range(1, 7)]
    assert all(numbers)
    put(wal, disk, 1, trim(2))
    put(wal, disk, 1, truncate(5))
    found = [wal.place_of(GROUP, LogIndex(index)) is not None for index in range(1, 7)]
    assert found == [False, False, True, True, False, False]
    assert wal.placed_numbers()
    put(wal, disk, 1, entries(1, 5, 1, term=2, size=BULK))
    place = wal.place_of(GROUP, LogIndex(5))
    assert place is not None and place != numbers[4]
    check_whole(open_wal(disk.crash(), APART), 5)
    again = open_wal(disk.crash(), APART)
    assert [again.place_of(GROUP, LogIndex(i)) for i in (3, 4, 5)] == [
        numbers[2],
        numbers[3],
        place,
    ]
    put(wal, disk, 1, InstallSnapshot(LogIndex(9), Term(2), Generation(2)))
    assert wal.placed_numbers() == set()
    put(wal, disk, 1, entries(1, 10, 1, term=2, size=BULK))
    assert wal.placed_numbers()
    put(wal, disk, 1, DestroyReplica())
    assert wal.placed_numbers() == set()


def test_payload_that_a_restart_would_apply_again_is_bounded() -> None:
    """The log asks for a flush when payload files hold much that is not in the flushed state."""
    disk = FakeDisk()
    wal = begun(disk, 1)
    for index in range(2, 12):
        put(wal, disk, 1, entries(1, index, 1, size=3000))
    assert not wal.needs_release(applied_all)
    put(wal, disk, 1, entries(1, 12, 1, size=3000))
    assert wal.used_segments == 1
    assert wal.needs_release(applied_all)
    wal.set_flushed(GROUP, LogIndex(6))
    assert not wal.needs_release(applied_all)


def test_payload_that_is_not_applied_asks_for_no_flush() -> None:
    """A flush does nothing for it, however much it is: the log asks once, for what was applied."""
    disk = FakeDisk()
    wal = begun(disk, 1)
    for index in range(2, 32):
        put(wal, disk, 1, entries(1, index, 1, size=3000))
    asks = [wal.needs_release(applied_up_to(at)) for at in range(32)]
    assert asks == [False] * 12 + [True] * 20
    wal.set_flushed(GROUP, LogIndex(15))
    asks = [wal.needs_release(applied_up_to(at)) for at in range(32)]
    assert asks == [False] * 26 + [True] * 6


def applied_up_to(log_index: int) -> Applied:
    return lambda _: LogIndex(log_index)


applied_all = applied_up_to(2**62)


def test_a_program_that_writes_no_payload_files_reads_them() -> None:
    """Turned off, the log is whole, and goes on in its segments alone."""
    disk = FakeDisk()
    begun(disk)
    after = disk.crash()
    off = dataclasses.replace(APART, payload=dataclasses.replace(APART.payload, writes=False))
    wal = open_wal(after, off)
    check_whole(wal, 3)
    wal.payloads.start(wal.placed_numbers())
    put(wal, after, 1, entries(1, 4, 1, size=BULK))
    assert wal.place_of(GROUP, LogIndex(4)) is None
    check_whole(open_wal(after.crash(), off), 4)


def test_a_start_makes_durable_what_it_has_read() -> None:
    """A process that died left bytes that are not on the disk: each file with entries is synced."""
    disk = FakeDisk()
    wal = begun(disk)
    name = file_name(next(iter(wal.placed_numbers())))
    after = disk.crash()
    after.trace.clear()
    open_wal(after, APART)
    assert (name, 0, BLOCK_BYTES) in after.trace
