"""What is missing at the end of the log is damage, also where no frame is left to say so."""

from __future__ import annotations

import asyncio
import contextlib
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from svc_cluster.base.checksum import crc32c
from svc_cluster.base.ids import GroupId, LogIndex
from svc_cluster.storage.wal import WalFormatError
from svc_cluster.storage.wal import wal_frame as fr
from svc_cluster.storage.wal.reach import (
    BATCHES_MAX,
    NAME,
    SLOT_BYTES,
    Reach,
    ReachFile,
    read_reach,
)
from svc_cluster.storage.wal.segment import ACTIVE, DATA_START, read_slots, segment_number
from svc_cluster.storage.wal.wal_frame import FrameBody, FrameCoder
from tests.unit.storage.fakes import FakeDisk, FakeFile, Write
from tests.unit.storage.wal_driver import (
    TAG,
    create,
    entries,
    hard_state,
    indexes,
    log_of,
    open_wal,
    put,
)

SAMPLE = Path(__file__).parent / "samples" / "wal-format-1.tar.gz"


class PowerCutError(Exception):
    """The machine is gone in the middle of a start."""


class CutDisk(FakeDisk):
    """Loses power before the n-th blocking write, which leaves half of it."""

    left = 1 << 30

    def _sync(self, writes: Sequence[Write]) -> None:
        self.left -= 1
        if self.left < 0:
            for file, offset, data in writes:
                half = data[: len(data) // 2]
                self.file(file).durable[offset : offset + len(half)] = half
            raise PowerCutError
        super()._sync(writes)


def quiet_log() -> FakeDisk:
    """Two groups over some segments, a vote in term 9 at the very end, and a mark behind it."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create(), hard_state(3, 1))
    put(wal, disk, 2, create(), entries(2, 1, 3))
    for log_index in range(1, 61):
        put(wal, disk, 1, entries(1, log_index, 1, term=3, size=900))
    put(wal, disk, 1, hard_state(9, 2))
    wal.mark_idle()
    disk.run()
    return disk


def active(disk: FakeDisk) -> dict[int, str]:
    """The names of the log's segments by their place."""
    found = {}
    for name in disk.list_names():
        if segment_number(name) is not None:
            for slot in read_slots(disk.files[name], TAG):
                if slot is not None and slot.state == ACTIVE:
                    found[slot.segment_seq] = name
    return dict(sorted(found.items()))


def with_frames(disk: FakeDisk) -> list[str]:
    return [name for name in active(disk).values() if any(disk.files[name].data[DATA_START:])]


def cut(disk: FakeDisk, name: str, size: int) -> None:
    file = disk.files[name]
    del file.data[size:], file.durable[size:]


def assert_damaged_for_good(disk: FakeDisk, *, proven: bool = False) -> None:
    """Both replicas are damaged, at this start, at the next and after more was written; nothing
    that is served was not written. `proven`: later frames may show that a replica is whole, and
    then it is."""
    for turn in range(3):
        wal = open_wal(disk)
        for group in (1, 2):
            log = wal.recovered.get(GroupId(group))
            whole = (3, 0, None) if group == 2 else (60, 9, 2)
            if not (proven and log and (log.last_index, log.term, log.voted_for) == whole):
                assert log is None or log.damaged, f"group {group} looks whole"
            assert log is None or indexes(log) == list(range(1, len(log.entries) + 1))
        assert wal.has_losses
        put(wal, disk, 3 + turn, create())
        disk = disk.crash()


def test_the_newest_segment_that_vanished_is_damage() -> None:
    """60 synced entries and a vote in term 9: without their last file nothing may look whole."""
    disk = quiet_log()
    disk.unlink(with_frames(disk)[-1])
    assert_damaged_for_good(disk)


def test_any_segment_that_vanished_is_damage() -> None:
    """The first, one in the middle, the last with frames, and the one made ready behind it."""
    for seq in active(quiet_log()):
        disk = quiet_log()
        disk.unlink(active(disk)[seq])
        wal = open_wal(disk)
        assert log_of(wal, 1).damaged if GroupId(1) in wal.recovered else wal.has_losses
        assert wal.has_losses, f"segment {seq}"


def test_a_log_without_any_segment_left_is_not_a_new_one() -> None:
    """Nothing is recovered, and that is known to be a loss, not a beginning."""
    disk = quiet_log()
    for name in active(disk).values():
        disk.unlink(name)
    for _ in range(2):
        wal = open_wal(disk)
        assert not wal.recovered
        assert wal.has_losses
        disk = disk.crash()


def test_a_new_log_has_lost_nothing() -> None:
    """An empty directory, and one whose log was closed or killed."""
    disk = FakeDisk()
    for _ in range(3):
        assert not open_wal(disk).has_losses
        disk = disk.crash()
    disk = quiet_log().crash()
    wal = open_wal(disk)
    assert not wal.has_losses
    assert (log_of(wal, 1).term, log_of(wal, 1).voted_for) == (9, 2)


@pytest.mark.parametrize("size", [0, 100, 4096, 6000, DATA_START, DATA_START + 500, 12_000, 16_376])
def test_a_segment_that_was_cut_is_damage(size: int) -> None:
    """Whichever of the log's files is shorter than it was made, also where nothing stood."""
    for seq in active(quiet_log()):
        disk = quiet_log()
        newest = with_frames(disk)[-1] == active(disk)[seq]
        cut(disk, active(disk)[seq], size)
        assert_damaged_for_good(disk, proven=not newest)


def test_a_cut_free_segment_is_no_damage() -> None:
    """What holds nothing can lose nothing; the file is replaced."""
    disk = quiet_log()
    wal = open_wal(disk)
    wal.set_flushed(GroupId(1), LogIndex(60))
    wal.set_flushed(GroupId(2), LogIndex(3))
    wal.release()
    disk.run()
    names = set(active(disk).values())
    free = [n for n in disk.list_names() if segment_number(n) is not None and n not in names]
    assert free
    for name, size in zip(free, (100, 9000, 12_000), strict=False):
        cut(disk, name, size)
    wal = open_wal(disk)
    assert not wal.has_losses
    assert not log_of(wal, 1).damaged


def test_segments_with_each_others_content_are_read_in_their_order() -> None:
    """A file's name means nothing: what was swapped whole is all there."""
    disk = quiet_log()
    one, other = list(active(disk).values())[:2]
    disk.files[one], disk.files[other] = disk.files[other], disk.files[one]
    disk.files[one].name, disk.files[other].name = one, other
    wal = open_wal(disk)
    assert not wal.has_losses
    assert indexes(log_of(wal, 1)) == list(range(1, 61))


def test_a_segment_under_anothers_place_is_damage() -> None:
    """One file stands twice, over another one: that one is gone."""
    places = list(active(quiet_log()))
    for source in places:
        for target in places:
            if source != target:
                disk = quiet_log()
                names = active(disk)
                data = bytes(disk.files[names[source]].durable)
                file = disk.files[names[target]]
                file.data[:] = file.durable[:] = data
                assert_damaged_for_good(disk)


def test_segments_whose_frames_were_swapped_are_damage() -> None:
    """The headers are where they were, what follows them is not."""
    disk = quiet_log()
    one, other = (disk.files[name] for name in with_frames(disk)[-2:])
    for half in ("data", "durable"):
        a, b = getattr(one, half), getattr(other, half)
        a[DATA_START:], b[DATA_START:] = b[DATA_START:], a[DATA_START:]
    assert_damaged_for_good(disk)


def test_an_emptied_end_of_a_quiet_log_is_damage() -> None:
    """Zeros from any frame on to the end, the mark behind the last batch included."""
    disk = quiet_log()
    name = with_frames(disk)[-1]
    data = bytes(disk.files[name].data)
    places = [at for at in range(DATA_START, len(data), 8) if data[at : at + 4] == fr.MAGIC]
    assert len(places) > 5
    for place in places:
        broken = disk.crash()
        broken.zero(name, place, len(data) - place)
        wal = open_wal(broken)
        assert wal.has_losses
        assert log_of(wal, 1).damaged


def test_of_a_busy_log_only_a_bounded_end_can_vanish_unnoticed() -> None:
    """The documented limit: what lies behind the last noted end, at most so many batches."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    for log_index in range(1, 3 * BATCHES_MAX):
        put(wal, disk, 1, entries(1, log_index, 1, size=10))
        found = read_reach(disk, TAG).reach
        assert found is not None
        after = open_wal(disk.crash()).recovered[GroupId(1)]
        assert after.last_index == log_index
        # everything behind the noted end is zeroed
        broken = disk.crash()
        names = active(broken)
        for seq, name in names.items():
            if seq >= found.end[0]:
                start = found.end[1] if seq == found.end[0] else DATA_START
                broken.zero(name, start, len(broken.files[name].data) - start)
        kept = open_wal(broken).recovered.get(GroupId(1))
        kept_index = 0 if kept is None else kept.last_index
        assert log_index - kept_index <= BATCHES_MAX + 1


def test_a_closed_log_has_an_exact_end() -> None:
    """Behind a clean end nothing at all can be taken away unnoticed."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create(), entries(1, 1, 2))

    async def close() -> None:
        closing = asyncio.ensure_future(wal.close())
        while not closing.done():
            disk.run()
            await asyncio.sleep(0)

    asyncio.run(close())
    found = read_reach(disk, TAG).reach
    assert found is not None
    name = active(disk)[found.end[0]]
    assert not any(disk.files[name].data[found.end[1] :])
    last = bytes(disk.files[name].data).rindex(fr.MAGIC)
    assert last + 80 <= found.end[1]
    disk.zero(name, last, found.end[1] - last)
    assert log_of(open_wal(disk), 1).damaged


def test_a_power_cut_at_any_write_of_a_start_forgets_no_damage() -> None:
    """The start that found it is cut off at each of its writes, half of which arrives: the next
    one finds it as well."""
    cuts = 0
    for after in range(100):
        disk = CutDisk()
        whole = quiet_log()
        disk.files = whole.files
        disk.unlink(with_frames(disk)[-1])
        disk.left = after
        try:
            open_wal(disk)
        except PowerCutError:
            cuts += 1
        assert_damaged_for_good(disk.crash())
        if disk.left > 0:
            assert cuts >= 6
            return
    raise AssertionError("a start never ends")


def test_a_power_cut_at_any_write_of_a_start_is_no_damage() -> None:
    """A new directory, an old one and a whole log: nothing is lost by it."""
    for make in (FakeDisk, old_directory, quiet_log):
        for after in range(100):
            disk = CutDisk()
            disk.files = make().files
            disk.left = after
            with contextlib.suppress(PowerCutError):
                open_wal(disk)
            wal = open_wal(disk.crash())
            assert not wal.has_losses, f"{make} cut at {after}"
            assert not any(log.damaged for log in wal.recovered.values())
            if disk.left > 0:
                break


def test_a_crash_at_any_step_of_a_running_log_is_no_damage() -> None:
    """Segments are used, freed and used again; each submission is lost, kept or torn."""
    tears: list[Callable[[int, int, bytes], bytes | None] | None] = [
        None,
        lambda _place, _offset, data: data,
        lambda _place, _offset, data: data[: len(data) // 2],
        lambda place, _offset, data: data if place % 2 else None,
    ]
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create())
    steps = 0
    for log_index in range(1, 90):
        wal.append(GroupId(1), [entries(1, log_index, 1, size=900)], None)
        if log_index % 20 == 0:
            wal.set_flushed(GroupId(1), LogIndex(log_index - 5))
            wal.release()
        while disk.queue:
            torn = tears[steps % len(tears)]
            after = open_wal(disk.crash(torn))
            assert not after.has_losses, f"step {steps}"
            assert not log_of(after, 1).damaged, f"step {steps}"
            disk.step()
            steps += 1
    assert steps > 150


@pytest.mark.parametrize("written", [1, 2])
def test_a_start_never_writes_first_over_the_newest_content(written: int) -> None:
    """Whichever slot that stands in: a write that is torn leaves what was said last."""
    disk = CutDisk()
    file = ReachFile(disk, TAG, 0, Reach(1, 1))
    for newest in range(2, 2 + written):
        file.raise_newest(newest, lambda: None)
        disk.run()
    said = read_reach(disk, TAG)
    assert said.reach == file.reach
    disk.left = 0
    with pytest.raises(PowerCutError):
        ReachFile(disk, TAG, said.serial, Reach(1, 9))
    assert read_reach(disk.crash(), TAG) == said


def test_losses_last_until_they_are_settled() -> None:
    """Who has made every replica again that may have been lost says so, durably."""
    disk = quiet_log()
    disk.unlink(with_frames(disk)[-1])
    wal = open_wal(disk)
    disk = disk.crash()
    wal = open_wal(disk)
    assert wal.has_losses
    wal.append(GroupId(7), [create()], None)
    wal.distrust(GroupId(7))
    wal.settle_losses()
    disk.run()
    after = open_wal(disk.crash())
    assert not after.has_losses
    assert log_of(after, 7).damaged


def test_a_reach_that_is_gone_is_damage() -> None:
    """Without it nobody knows that the log is whole. One of its two slots is enough."""
    disk = quiet_log()
    for slot in (0, 1):
        one = disk.crash()
        one.zero(NAME, slot * SLOT_BYTES, SLOT_BYTES)
        assert not open_wal(one).has_losses
    harms: list[Callable[[FakeDisk], None]] = [
        lambda d: d.unlink(NAME),
        lambda d: d.zero(NAME, 0, 2 * SLOT_BYTES),
    ]
    for harm in harms:
        gone = disk.crash()
        harm(gone)
        assert_damaged_for_good(gone)
    short = disk.crash()
    cut(short, NAME, 10)
    assert_damaged_for_good(short)


def test_a_reach_of_another_node_or_of_the_future_is_refused() -> None:
    """Neither is written over."""
    disk = quiet_log()
    for offset, text in ((16, "another node identity"), (8, "format 77")):
        other = disk.crash()
        for slot in (0, SLOT_BYTES):
            data = other.files[NAME].data
            data[slot + offset] = 77
            data[slot + 64 : slot + 68] = crc32c(bytes(data[slot : slot + 64])).to_bytes(
                4, "little"
            )
        before = bytes(other.files[NAME].data)
        with pytest.raises(WalFormatError, match=text):
            open_wal(other)
        assert bytes(other.files[NAME].data) == before


def old_directory() -> FakeDisk:
    """As the program left it that knew no `wal-reach`: two groups, killed."""
    disk = FakeDisk()
    with tarfile.open(SAMPLE) as sample:
        for member in sample:
            source = sample.extractfile(member)
            assert source is not None
            file = FakeFile(member.name, member.size)
            file.data[:] = file.durable[:] = source.read()
            disk.files[member.name] = file
    return disk


def test_a_directory_of_the_format_before_opens_and_is_guarded_from_then_on() -> None:
    """Everything is there; its files' lengths are known afterwards."""
    disk = old_directory()
    assert NAME not in disk.files
    wal = open_wal(disk)
    one, two = log_of(wal, 1), log_of(wal, 2)
    assert (one.term, one.voted_for, one.last_index, one.damaged) == (9, 2, 3, False)
    assert (two.term, indexes(two), two.damaged) == (5, list(range(1, 31)), False)
    assert not wal.has_losses
    for seq in active(disk):
        for harm in (lambda d, n: d.unlink(n), lambda d, n: cut(d, n, 12_000)):
            broken = disk.crash()
            harm(broken, active(broken)[seq])
            assert open_wal(broken).has_losses


def test_the_program_before_refuses_a_directory_of_this_format() -> None:
    """It reads 40 bytes and their checksum, and then a number that it does not know."""
    disk = quiet_log()
    header = bytes(disk.files[with_frames(disk)[0]].data[:44])
    assert header[40:] == crc32c(header[:40]).to_bytes(4, "little")
    assert header[8:12] == b"\2\0\0\0"


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (kind, size)
        for kind in range(1, 14)
        for size in (0, 1, 7, 9, 13, 64, 66, 300)
        if not fr.is_well_formed(FrameBody(kind, GroupId(1), payload=b"x" * size))
        and not fr.is_of_newer_release(FrameBody(kind, GroupId(1), payload=b"x" * size))
    ],
)
def test_a_frame_of_a_wrong_length_behind_right_checksums_is_damage(kind: int, size: int) -> None:
    """Nothing that a writer made: the start goes through, and whom it may have hurt is damaged."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create(), entries(1, 1, 2))
    wal.mark_idle()
    disk.run()
    found = read_reach(disk, TAG).reach
    assert found is not None
    file = disk.files[active(disk)[found.end[0]]]
    generation = next(slot.generation for slot in read_slots(file, TAG) if slot is not None)
    last = bytes(file.data).rindex(fr.MAGIC)
    body = FrameBody(kind, GroupId(0 if kind in (fr.BATCH, fr.END) else 1), 3, 1, b"x" * size)
    header, _ = FrameCoder(TAG).header(
        body,
        place=found.end,
        generation=generation,
        group_seq=3,
        durable_before=found.end,
        prev_crc=int.from_bytes(file.data[last + 4 : last + 8], "little"),
    )
    data = header + body.payload
    file.data[found.end[1] : found.end[1] + len(data)] = data
    file.durable[:] = file.data
    for _ in range(2):
        wal = open_wal(disk)
        assert log_of(wal, 1).damaged
        assert indexes(log_of(wal, 1)) == [1, 2]
        disk = disk.crash()
