"""A change of configuration is one frame: all of it is there after a restart, or nothing."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from svc_cluster.base.configuration import (
    TERM_BITS,
    Configuration,
    GroupMember,
    encode_configuration,
)
from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, ReplicaId, Term
from svc_cluster.base.log_ops import (
    Configure,
    InstallSnapshot,
    RecoveredLog,
    SetHardState,
    installed_log,
)
from svc_cluster.storage.wal import Wal, WalFormatError
from svc_cluster.storage.wal import wal_frame as fr
from svc_cluster.storage.wal.reach import read_reach
from svc_cluster.storage.wal.segment import read_slots
from svc_cluster.storage.wal.wal_frame import FrameBody, FrameCoder
from tests.unit.storage.fakes import FakeDisk, FakeFile
from tests.unit.storage.wal_driver import (
    TAG,
    commit,
    create,
    entries,
    hard_state,
    indexes,
    log_of,
    open_wal,
    put,
    trim,
)

SAMPLE = Path(__file__).parent / "samples" / "wal-configure-1.tar.gz"
"""A directory of `configured_log`, written by the first release that had the frame."""

FIRST = "wal-00000001.segment"


def configuration(number: int, seal_index: int, seal_term: int, *nodes: int) -> Configuration:
    members = tuple(GroupMember(NodeId(node), ReplicaId(100 + node)) for node in nodes)
    return Configuration(number, members, LogIndex(seal_index), Term(seal_term))


NEXT = configuration(1, 4, 2, 1, 2, 5)


def configured_log(disk: FakeDisk) -> Wal:
    """Six entries, of which the fourth is the seal; a vote; then the next configuration."""
    wal = open_wal(disk)
    put(wal, disk, 1, create(7), hard_state(2, 1), entries(1, 1, 6, term=2), commit(3))
    put(wal, disk, 1, Configure(NEXT, LogIndex(4)))
    return wal


def what(log: RecoveredLog) -> tuple[object, ...]:
    return (log.configuration, log.term, log.voted_for, log.commit_index, indexes(log))


def test_the_frame_ends_a_configuration_and_begins_the_next() -> None:
    """Nothing above the seal is left, the seal is decided, the term is the first of the next
    configuration, and nobody has a vote in it."""
    disk = FakeDisk()
    configured_log(disk)
    log = log_of(open_wal(disk.crash()), 1)
    assert what(log) == (NEXT, 1 << TERM_BITS, None, 4, [1, 2, 3, 4])
    assert (log.generation, log.damaged) == (7, False)


def test_a_replica_behind_a_snapshot_is_what_a_restart_finds() -> None:
    """In the configuration that it had begun, or in the one that its group was created with."""
    for begun in (NEXT, None):
        disk = FakeDisk()
        wal = open_wal(disk)
        put(wal, disk, 1, create(7), hard_state(2, 1), entries(1, 1, 6, term=2), commit(3))
        term = Term(2)
        if begun is not None:
            put(wal, disk, 1, Configure(begun, LogIndex(4)))
            term = begun.first_term
        state = SetHardState(term, NodeId(2))
        installed = InstallSnapshot(LogIndex(90), term, Generation(8))
        put(wal, disk, 1, state, installed)
        found = log_of(open_wal(disk.crash()), 1)
        assert installed_log(GroupId(1), installed, state, begun) == found


def test_who_lacks_the_seal_keeps_what_was_known_to_be_committed() -> None:
    """The known commit is what is left; the seal is not decided here by that."""
    disk = FakeDisk()
    wal = open_wal(disk)
    put(wal, disk, 1, create(), entries(1, 1, 6), commit(3), hard_state(3, 2))
    put(wal, disk, 1, Configure(configuration(2, 40, 9, 1, 2, 3), LogIndex(3)))
    log = log_of(open_wal(disk.crash()), 1)
    assert what(log) == (
        configuration(2, 40, 9, 1, 2, 3),
        2 << TERM_BITS,
        None,
        3,
        [1, 2, 3],
    )


def test_a_term_that_a_damaged_replica_was_in_is_kept() -> None:
    """It has lost the frame by which it came there: the next one does not take it back."""
    disk = FakeDisk()
    wal = open_wal(disk)
    later = (1 << TERM_BITS) + 9
    put(wal, disk, 1, create(), entries(1, 1, 2), commit(2), hard_state(later, 2))
    put(wal, disk, 1, Configure(NEXT, LogIndex(2), Term(later)))
    assert what(log_of(open_wal(disk.crash()), 1)) == (NEXT, later, None, 2, [1, 2])


@pytest.mark.parametrize("number", [0, 1])
def test_no_frame_begins_the_first_configuration_or_one_twice(number: int) -> None:
    """A vote of its terms would be forgotten."""
    disk = FakeDisk()
    wal = configured_log(disk)
    again = configuration(number, 4, 2, 1, 2, 5)
    with pytest.raises(AssertionError, match="no frame begins 0"):
        wal.append(GroupId(1), [Configure(again, LogIndex(4), Term(1 << TERM_BITS))], None)


def test_a_crash_before_the_frame_leaves_the_replica_in_its_configuration() -> None:
    """Cut at every byte of its window: the replica is as it was, or wholly in the next."""
    before = FakeDisk()
    wal = open_wal(before)
    put(wal, before, 1, create(7), hard_state(2, 1), entries(1, 1, 6, term=2), commit(3))
    old = what(log_of(open_wal(before.crash()), 1))
    new = (NEXT, 1 << TERM_BITS, None, 4, [1, 2, 3, 4])
    wal.append(GroupId(1), [Configure(NEXT, LogIndex(4))], None)
    size = sum(len(data) for batch, _ in before.queue for _, _, data in batch)
    seen = set()
    for length in range(size + 1):
        left = length

        def torn(_place: int, _offset: int, data: bytes) -> bytes:
            nonlocal left
            kept = data[:left]
            left -= len(kept)
            return kept

        log = log_of(open_wal(before.crash(torn)), 1)
        assert not log.damaged
        assert what(log) in (old, new)
        seen.add(what(log) == new)
    assert seen == {False, True}


def test_what_is_written_behind_the_frame_is_of_the_next_configuration() -> None:
    """Votes, entries and commits go on above the seal, over a restart and the next change."""
    disk = FakeDisk()
    wal = configured_log(disk)
    term = (1 << TERM_BITS) + 1
    put(wal, disk, 1, hard_state(term, 2), entries(1, 5, 3, term=term), commit(6))
    log = log_of(open_wal(disk.crash()), 1)
    assert what(log) == (NEXT, term, 2, 6, [1, 2, 3, 4, 5, 6, 7])
    wal = open_wal(disk)
    after = configuration(2, 6, term, 2)
    put(wal, disk, 1, Configure(after, LogIndex(6)))
    log = log_of(open_wal(disk.crash()), 1)
    assert what(log) == (after, 2 << TERM_BITS, None, 6, [1, 2, 3, 4, 5, 6])


def test_the_configuration_outlives_the_segment_of_its_frame() -> None:
    """The state that is carried forward has it, and so has a snapshot's log."""
    disk = FakeDisk()
    wal = configured_log(disk)
    put(wal, disk, 1, trim(4, 2))
    put(wal, disk, 2, create())
    for log_index in range(1, 120):
        put(wal, disk, 2, entries(2, log_index, 1, size=900))
    wal.set_flushed(GroupId(1), LogIndex(4))
    wal.set_flushed(GroupId(2), LogIndex(119))
    wal.release()
    disk.run()
    wal = open_wal(disk.crash())
    assert wal.used_segments == 1
    log = log_of(wal, 1)
    assert (log.configuration, log.term, log.base_index) == (NEXT, 1 << TERM_BITS, 4)
    assert not log.damaged


def test_a_snapshot_leaves_the_configuration() -> None:
    """A replica that lacks the seal gets the state behind it, in the configuration it is in."""
    disk = FakeDisk()
    wal = configured_log(disk)
    put(wal, disk, 1, InstallSnapshot(LogIndex(90), Term(5), Generation(8)))
    log = log_of(open_wal(disk.crash()), 1)
    assert (log.configuration, log.base_index, log.last_index) == (NEXT, 90, 90)


def test_a_lost_frame_damages_the_replica() -> None:
    """It may have voted in the configuration that it has forgotten."""
    disk = FakeDisk()
    wal = configured_log(disk)
    term = (1 << TERM_BITS) + 1
    put(wal, disk, 1, hard_state(term, 2), entries(1, 5, 1, term=term))
    wal.mark_idle()
    disk.run()
    place = bytes(disk.files[FIRST].data).index(encode_configuration(NEXT))
    disk.flip(FIRST, place - 40)
    log = log_of(open_wal(disk), 1)
    assert log.damaged
    assert log.configuration is None


@pytest.mark.parametrize(
    "body",
    [
        FrameBody(fr.CONFIGURE, GroupId(1), 4, 1 << TERM_BITS, b"\x02" + bytes(40)),
        FrameBody(fr.STATE, GroupId(1), 0, 0, bytes(fr.STATE_BYTES) + b"\x02" + bytes(40)),
        FrameBody(fr.NEWEST_KIND + 1, GroupId(1)),
    ],
)
def test_what_a_newer_release_wrote_stops_the_start(body: FrameBody) -> None:
    """A frame that is whole and not understood may be a promise: it is not stepped over."""
    disk = FakeDisk()
    configured_log(disk).mark_idle()
    disk.run()
    disk = disk.crash()
    open_wal(disk)
    found = read_reach(disk, TAG).reach
    assert found is not None
    file = disk.files[FIRST]
    slots = [slot for slot in read_slots(file, TAG) if slot is not None]
    last = bytes(file.data).rindex(fr.MAGIC)
    header, _ = FrameCoder(TAG).header(
        body,
        place=found.end,
        generation=slots[0].generation,
        group_seq=9,
        durable_before=found.end,
        prev_crc=int.from_bytes(file.data[last + 4 : last + 8], "little"),
    )
    data = header + body.payload
    file.data[found.end[1] : found.end[1] + len(data)] = data
    file.durable[:] = file.data
    with pytest.raises(WalFormatError, match="newer release"):
        open_wal(disk)


def sample_disk() -> FakeDisk:
    """The kept directory."""
    disk = FakeDisk()
    with tarfile.open(SAMPLE) as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member)
            assert content is not None
            file = FakeFile(member.name, member.size)
            file.data[:] = content.read()
            file.durable[:] = file.data
            disk.files[member.name] = file
    return disk


def keep_sample() -> None:
    """Write the kept directory anew, when the frame has a further format."""
    disk = FakeDisk()
    configured_log(disk).mark_idle()
    disk.run()
    with tarfile.open(SAMPLE, "w:gz") as archive:
        for name in disk.list_names():
            data = bytes(disk.files[name].durable)
            found = tarfile.TarInfo(name)
            found.size = len(data)
            archive.addfile(found, io.BytesIO(data))


def test_the_kept_directory_is_read() -> None:
    """What the first release with this frame wrote says the same for ever."""
    log = log_of(open_wal(sample_disk()), 1)
    assert what(log) == (NEXT, 1 << TERM_BITS, None, 4, [1, 2, 3, 4])
