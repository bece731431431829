"""Recovery from every cut of the last sync window, and from random damage to what was synced."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from svc_cluster.base.ids import GroupId
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.storage.wal.segment import DATA_START
from tests.unit.storage.fakes import FakeDisk
from tests.unit.storage.wal_driver import (
    commit,
    create,
    entries,
    hard_state,
    log_of,
    open_wal,
    payload_of,
    put,
)

QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def with_open_window(sizes: list[int]) -> tuple[FakeDisk, list[bytes]]:
    """A synced log of two groups and one submission in flight that holds entries of both."""
    disk = FakeDisk()
    wal = open_wal(disk)
    for group in (1, 2):
        put(wal, disk, group, create(), hard_state(1, group), entries(group, 1, 3), commit(2))
    wal.append(GroupId(3), [create()], None)  # in flight alone; the rest makes the next batch
    for place, size in enumerate(sizes):
        group = 1 + place % 2
        wal.append(GroupId(group), [entries(group, 4 + place // 2, 1, size=size)], None)
    disk.step()
    return disk, [bytes(data) for batch, _ in disk.queue for _, _, data in batch]


def check_synced(disk: FakeDisk) -> None:
    """Every synced entry is there; what else is there is a prefix of what was being written; and
    the log can be written to and read again."""
    wal = open_wal(disk)
    for group in (1, 2):
        log = log_of(wal, group)
        assert not log.damaged
        assert log.last_index >= 3
        assert (log.term, log.voted_for) == (1, group)
        for entry in log.entries:
            word = payload_of(group, entry.log_index, 1)[:6]
            assert entry.payload.startswith(word)
        put(wal, disk, group, entries(group, log.last_index + 1, 1, term=2))
        again = log_of(open_wal(disk.crash()), group)
        assert again.last_index == log.last_index + 1
        assert again.entries[-1].term == 2
        assert not again.damaged


def test_every_cut_point_of_the_last_window_boots() -> None:
    """The window is cut at each byte, followed by what stood there, by zeros or by garbage."""
    disk, writes = with_open_window([40, 40, 700])
    for length in range(0, sum(map(len, writes)) + 1, 3):
        for fill in (None, 0, 0xA5):
            left = length

            def torn(_place: int, _offset: int, data: bytes, fill: int | None = fill) -> bytes:
                nonlocal left
                kept = data[:left]
                left -= len(kept)
                rest = b"" if fill is None else bytes([fill]) * (len(data) - len(kept))
                return kept + rest

            check_synced(disk.crash(torn))


@settings(QUICK, max_examples=150)
@given(
    sizes=st.lists(st.integers(1, 6000), min_size=1, max_size=8),
    data=st.data(),
)
def test_any_subset_of_the_windows_sectors_boots(sizes: list[int], data: st.DataObject) -> None:
    """Sectors of one unsynced window reach the disk in any order, also over a segment's end."""
    disk, _ = with_open_window(sizes)
    keep = data.draw(st.randoms(use_true_random=False))
    share = keep.random()

    def torn(_place: int, offset: int, content: bytes) -> bytes:
        out = bytearray()
        place = 0
        while place < len(content):
            step = 512 - (offset + place) % 512
            piece = content[place : place + step]
            out += piece if keep.random() < share else bytes(len(piece))
            place += len(piece)
        return bytes(out)

    check_synced(disk.crash(torn))


@settings(QUICK, max_examples=200)
@given(data=st.data())
def test_damage_to_synced_frames_is_never_served(data: st.DataObject) -> None:
    """Whatever byte of the marked log is changed, each group is whole or damaged, and every entry
    that is returned is one that was written."""
    disk = FakeDisk()
    wal = open_wal(disk)
    written: dict[int, list[LogEntry]] = {1: [], 2: [], 3: []}
    for group in written:
        put(wal, disk, group, create(), hard_state(group, group))
    counts = data.draw(st.lists(st.sampled_from([1, 2, 3]), min_size=5, max_size=40))
    for group in counts:
        op = entries(group, len(written[group]) + 1, 1, size=data.draw(st.sampled_from([9, 900])))
        written[group] += op.entries
        put(wal, disk, group, op)
    wal.mark_idle()
    disk.run()
    names = [name for name in disk.list_names() if any(disk.files[name].data[DATA_START:])]
    name = data.draw(st.sampled_from(names))
    content = bytes(disk.files[name].data)
    end = content.rindex(b"\xf5WF\x01") if name == names[-1] else len(content)
    assume(end > DATA_START)
    offset = data.draw(st.integers(DATA_START, end - 1))
    if data.draw(st.booleans()):
        disk.flip(name, offset, data.draw(st.integers(1, 255)))
    else:
        disk.zero(name, offset, min(data.draw(st.integers(1, 5000)), end - offset))
    for restart in range(2):
        after = open_wal(disk)
        for group, expected in written.items():
            log = after.recovered.get(GroupId(group))
            assert log is not None, f"group {group} vanished at restart {restart}"
            assert log.entries == expected[: len(log.entries)]
            assert log.damaged or log.entries == expected
            assert log.damaged or (log.term, log.voted_for) == (group, group)
