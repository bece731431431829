"""A torn tail is cut off; damage to what was synced is found, named and never served."""

from __future__ import annotations

from svc_cluster.base.ids import Generation, GroupId, LogIndex, Term
from svc_cluster.base.log_ops import InstallSnapshot
from svc_cluster.storage.wal import Wal
from svc_cluster.storage.wal.segment import DATA_START, SLOT_BYTES
from svc_cluster.storage.wal.wal_frame import MAGIC
from tests.unit.storage.fakes import FakeDisk
from tests.unit.storage.wal_driver import (
    create,
    entries,
    hard_state,
    indexes,
    log_of,
    open_wal,
    put,
)

FIRST = "wal-00000001.segment"


def three_groups() -> tuple[FakeDisk, Wal]:
    """Groups 1-3 with five entries each, one sync for each entry, and a mark behind it all."""
    disk = FakeDisk()
    wal = open_wal(disk)
    for group in (1, 2, 3):
        put(wal, disk, group, create())
    for log_index in range(1, 6):
        for group in (1, 2, 3):
            put(wal, disk, group, entries(group, log_index, 1, size=200))
    wal.mark_idle()
    disk.run()
    return disk, wal


def place_of(disk: FakeDisk, group: int, log_index: int, name: str = FIRST) -> int:
    """Where the payload of an entry starts."""
    return bytes(disk.files[name].data).index(b"%d/%d/" % (group, log_index))


def test_a_damaged_payload_hurts_its_own_group_only() -> None:
    """One flipped bit: that group keeps the prefix and is damaged, the others are whole."""
    disk, _ = three_groups()
    disk.flip(FIRST, place_of(disk, 2, 3) + 50)
    after = open_wal(disk)
    assert indexes(log_of(after, 2)) == [1, 2]
    assert log_of(after, 2).damaged
    for group in (1, 3):
        assert indexes(log_of(after, group)) == [1, 2, 3, 4, 5]
        assert not log_of(after, group).damaged


def test_a_damaged_header_does_not_silence_the_others() -> None:
    """Recovery finds the next frame behind a header that cannot be believed."""
    disk, _ = three_groups()
    disk.flip(FIRST, place_of(disk, 2, 3) - 30)
    after = open_wal(disk)
    assert log_of(after, 2).damaged
    assert indexes(log_of(after, 2)) == [1, 2]
    assert [log_of(after, g).damaged for g in (1, 3)] == [False, False]
    assert [log_of(after, g).last_index for g in (1, 3)] == [5, 5]


def test_a_group_that_wrote_nothing_near_the_damage_is_proven_intact() -> None:
    """Also one without any later frame: the header of the next batch does not name it."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 9, create(), entries(9, 1, 2))
    put(wal, disk, 1, create())
    for log_index in range(1, 101):
        put(wal, disk, 1, entries(1, log_index, 1, size=200))
    wal.mark_idle()
    disk.run()
    name = next(n for n in disk.list_names() if b"1/50/1" in disk.files[n].data)
    disk.flip(name, place_of(disk, 1, 50, name) - 30)
    after = open_wal(disk)
    assert log_of(after, 1).damaged
    assert not log_of(after, 9).damaged


def test_a_lost_last_frame_of_a_group_is_not_overlooked() -> None:
    """A group whose final frame is destroyed has no gap in its own entries, and is damaged."""
    disk, _ = three_groups()
    disk.flip(FIRST, place_of(disk, 1, 5) - 30)
    after = open_wal(disk)
    assert [log_of(after, g).damaged for g in (1, 2, 3)] == [True, False, False]


def test_damage_to_the_last_synced_batch_is_found_when_a_mark_follows() -> None:
    """The idle mark testifies that the batch before it was synced: corruption, not a tear."""
    disk, _ = three_groups()
    disk.flip(FIRST, place_of(disk, 3, 5) + 3)
    assert log_of(open_wal(disk), 3).damaged


def test_damage_to_the_last_unmarked_batch_looks_like_a_tear() -> None:
    """The documented limit: without any later frame nothing says that the batch was synced."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    put(wal, disk, 1, entries(1, 1, 1))
    disk.flip(FIRST, place_of(disk, 1, 1))
    log = log_of(open_wal(disk), 1)
    assert (indexes(log), log.damaged) == ([], False)


def test_damage_stays_known_over_restarts_until_a_snapshot_is_installed() -> None:
    """A damaged replica that writes on is damaged again at each start; a snapshot heals it."""
    disk, _ = three_groups()
    disk.flip(FIRST, place_of(disk, 2, 3) - 30)
    wal = open_wal(disk)
    put(wal, disk, 2, hard_state(8, None))
    put(wal, disk, 2, entries(2, 3, 1))
    wal = open_wal(disk.crash())
    assert log_of(wal, 2).damaged
    disk = disk.crash()
    wal = open_wal(disk)
    assert log_of(wal, 2).damaged
    put(wal, disk, 2, InstallSnapshot(LogIndex(77), Term(8), Generation(4)))
    log = log_of(open_wal(disk.crash()), 2)
    assert (log.damaged, log.base_index, log.generation) == (False, 77, 4)


def test_a_replica_that_is_distrusted_is_damaged_after_every_restart() -> None:
    """What was found wrong above the log is remembered in it, until a snapshot is installed."""
    disk = FakeDisk()
    wal = open_wal(disk)
    for group in (1, 2):
        put(wal, disk, group, create(), hard_state(1, 1), entries(group, 1, 3))
    wal.distrust(GroupId(2))
    disk.run()
    for _ in range(2):
        disk = disk.crash()
        wal = open_wal(disk)
        assert [log_of(wal, group).damaged for group in (1, 2)] == [False, True]
        assert indexes(log_of(wal, 2)) == [1, 2, 3]
    put(wal, disk, 2, InstallSnapshot(LogIndex(9), Term(1), Generation(4)))
    assert not log_of(open_wal(disk.crash()), 2).damaged


def test_zeroed_pages_are_found_whatever_they_held() -> None:
    """Each 512-byte sector of the used log is zeroed once: no group is silently shorter."""
    disk, _ = three_groups()
    end = bytes(disk.files[FIRST].data).rindex(MAGIC)
    found = 0
    for offset in range(DATA_START, end - 512, 512):
        broken = disk.crash()
        broken.zero(FIRST, offset, 512)
        after = open_wal(broken)
        for group in (1, 2, 3):
            log = after.recovered.get(GroupId(group))
            if log is None:
                raise AssertionError(f"group {group} vanished at {offset}")
            assert log.damaged or indexes(log) == [1, 2, 3, 4, 5]
            found += log.damaged
    assert found > 5


def test_swapped_frames_are_not_believed() -> None:
    """Two frames of equal length written to each other's place fail, as their offset is summed."""
    disk, _ = three_groups()
    data = disk.files[FIRST].data
    one, two = place_of(disk, 1, 3) - 80, place_of(disk, 1, 4) - 80
    data[one : one + 280], data[two : two + 280] = data[two : two + 280], data[one : one + 280]
    log = log_of(open_wal(disk), 1)
    assert (log.damaged, indexes(log)) == (True, [1, 2])


def test_one_damaged_segment_header_is_survived_and_repaired() -> None:
    """The header stands twice; either copy is enough."""
    for slot in (0, SLOT_BYTES):
        disk, _ = three_groups()
        disk.flip(FIRST, slot + 20)
        after = open_wal(disk)
        assert [log_of(after, g).last_index for g in (1, 2, 3)] == [5, 5, 5]
        assert disk.files[FIRST].data[:40] == disk.files[FIRST].data[SLOT_BYTES : SLOT_BYTES + 40]


def test_a_segment_without_any_header_is_known_by_its_frames() -> None:
    """Both header copies destroyed: the file is not taken for an empty one."""
    disk, _ = three_groups()
    disk.zero(FIRST, 0, DATA_START)
    after = open_wal(disk)
    assert [log_of(after, g).last_index for g in (1, 2, 3)] == [5, 5, 5]


def test_a_missing_segment_in_the_middle_is_damage() -> None:
    """A whole lost file is noticed, and entries behind it are not glued to those before."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    for log_index in range(1, 61):
        put(wal, disk, 1, entries(1, log_index, 1, size=900))
    disk.unlink("wal-00000002.segment")
    log = log_of(open_wal(disk), 1)
    assert log.damaged
    assert indexes(log) == list(range(1, len(log.entries) + 1))


def test_an_interrupted_creation_of_a_segment_is_cleaned_up() -> None:
    """A file that never got a header held nothing, whatever its length."""
    disk, _ = three_groups()
    disk.create("wal-00000099.segment", 4096 * 2)
    after = open_wal(disk)
    assert log_of(after, 1).last_index == 5
    assert "wal-00000099.segment" not in disk.files


def test_other_files_are_left_alone() -> None:
    """The WAL touches only its own names."""
    disk, _ = three_groups()
    disk.create("identity", 100)
    open_wal(disk)
    assert "identity" in disk.files


def test_frames_of_a_torn_window_are_wiped() -> None:
    """A whole frame behind the torn place is dropped and removed, so no later life can see it."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    wal.append(GroupId(1), [entries(1, 1, 1, size=300), entries(1, 2, 1, size=300)], None)
    torn = disk.crash(lambda _place, _offset, data: bytes(200) + data[200:])
    assert b"1/2/1" in torn.files[FIRST].data
    after = open_wal(torn)
    assert indexes(log_of(after, 1)) == []
    assert not log_of(after, 1).damaged
    assert b"1/2/1" not in torn.files[FIRST].data
