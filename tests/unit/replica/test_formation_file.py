"""The formation on the disk: newest of two slots, whole or as before."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.model.formation import (
    MEMBERS_MAX,
    RESTORED_LENGTH_MAX,
    FormationRecord,
    Stage,
)
from svc_cluster.model.places import Place
from svc_cluster.replica.formation_file import FILE_NAME, SLOT_BYTES, FormationFile
from svc_cluster.replica.formation_rounds import Formation
from svc_cluster.replica.former import Former
from svc_cluster.replica.identity import IdentityError
from svc_cluster.storage.disk import RealDisk

OWN = "a" * 32
LIST = ((NodeId(1), OWN), (NodeId(2), "b" * 32))
DRAFT = FormationRecord(0, Stage.DRAFTED, LIST)
FORMED = FormationRecord(0, Stage.FORMED, LIST)
JOINED = replace(FORMED, joined=True, seeds=((NodeId(1), "10.0.0.1:7000"),))


async def nothing(_file: FormationFile) -> None:
    return


def opened(
    directory: Path,
    then: Callable[[FormationFile], Awaitable[None]] = nothing,
    incarnation: str = OWN,
) -> FormationRecord:
    """What a starting node finds."""

    async def body() -> FormationRecord:
        disk = RealDisk(directory, asyncio.get_running_loop())
        try:
            file = FormationFile(disk, incarnation)
            await then(file)
            await file.close()
            return file.record
        finally:
            disk.close()

    return asyncio.run(body())


async def both(file: FormationFile) -> None:
    await file.write(DRAFT)
    await file.write(FORMED)


def test_records_are_found_again(tmp_path: Path) -> None:
    """The newest, and nothing where there was none."""
    assert opened(tmp_path, both) == FormationRecord()
    assert opened(tmp_path) == FORMED


def test_places_are_found_again_and_raise_the_format(tmp_path: Path) -> None:
    """Without places a file can be read by what knew none."""
    places = (Place(NodeId(2), 3, "c" * 32),)
    raised = FormationRecord(0, Stage.FORMED, LIST, places, 2)

    async def raise_it(file: FormationFile) -> None:
        await both(file)
        await file.write(raised)

    assert opened(tmp_path, raise_it) == FormationRecord()
    assert opened(tmp_path) == raised
    content = (tmp_path / FILE_NAME).read_bytes()
    slots = (content[:SLOT_BYTES], content[SLOT_BYTES:])
    assert sorted(b'"format":2' in slot for slot in slots) == [False, True]


class SlowDisk(RealDisk):
    """Syncs once it may, on its own thread."""

    def __init__(self, directory: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(directory, loop, native=False)
        self.begun = threading.Event()
        self.may_write = threading.Event()

    def _sync(self, handle: int) -> None:
        self.begun.set()
        self.may_write.wait()
        super()._sync(handle)


def test_a_node_that_stops_amid_a_write_closes_the_file_behind_it(tmp_path: Path) -> None:
    """Who writes is cancelled while the disk is at it: the file is closed only once that is done,
    the record is there, and the process goes on. A descriptor closed before ends the process."""

    async def body() -> None:
        disk = SlowDisk(tmp_path, asyncio.get_running_loop())
        file = FormationFile(disk, OWN)
        writing = asyncio.ensure_future(file.write(DRAFT))
        await asyncio.to_thread(disk.begun.wait)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        closing = asyncio.ensure_future(file.close())
        await asyncio.sleep(0)
        assert not closing.done()
        disk.may_write.set()
        await closing
        disk.close()

    asyncio.run(body())
    assert opened(tmp_path) == DRAFT


def test_the_longest_list_fits(tmp_path: Path) -> None:
    """As many nodes as a report may name, with the largest ids."""
    nodes = tuple((NodeId(2**63 + n), OWN) for n in range(MEMBERS_MAX))
    record = FormationRecord(2**62, Stage.FORMED, nodes)

    async def write(file: FormationFile) -> None:
        await file.write(record)

    opened(tmp_path, write)
    assert opened(tmp_path) == record


def test_a_torn_write_leaves_the_record_before_it(tmp_path: Path) -> None:
    opened(tmp_path, both)
    damage(tmp_path, 0)  # the second record is in slot 0
    assert opened(tmp_path) == DRAFT


def damage(directory: Path, slot: int) -> None:
    with (directory / FILE_NAME).open("r+b") as file:
        file.seek(slot * SLOT_BYTES + 40)
        file.write(b"damage")


def test_a_torn_first_write_and_a_torn_creation_are_nothing(tmp_path: Path) -> None:
    """What was not durable was never told to anybody."""

    async def one(file: FormationFile) -> None:
        await file.write(DRAFT)

    opened(tmp_path, one)
    damage(tmp_path, 1)
    assert opened(tmp_path) == FormationRecord()
    for size in (0, 4096, SLOT_BYTES):
        (tmp_path / FILE_NAME).write_bytes(bytes(size))
        assert opened(tmp_path) == FormationRecord()
    opened(tmp_path, one)
    assert opened(tmp_path) == DRAFT


def test_the_version_that_a_cluster_begins_at_is_found_again(tmp_path: Path) -> None:
    """And raises the format: who does not know of it would leave the cluster at another one."""
    begun = replace(FORMED, begins_at=3)
    opened(tmp_path, lambda file: file.write(begun))
    assert opened(tmp_path) == begun
    assert b'"format":4' in (tmp_path / FILE_NAME).read_bytes()


def test_what_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    """Both slots damaged, a later format, another directory's file; nothing is to be removed."""
    opened(tmp_path, both)
    with pytest.raises(IdentityError, match="another data directory"):
        opened(tmp_path, incarnation="c" * 32)
    damage(tmp_path, 0)
    damage(tmp_path, 1)
    with pytest.raises(IdentityError, match="restore it from this node's backup"):
        opened(tmp_path)


def test_a_later_format_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was written by a version that may mean something else by it."""
    with monkeypatch.context() as later:
        later.setattr("svc_cluster.replica.formation_file.FORMAT_VERSION", 6)
        opened(tmp_path, lambda file: file.write(JOINED))
    with pytest.raises(IdentityError, match="has format 6"):
        opened(tmp_path)


def test_a_node_that_came_later_is_told_so_by_both_slots(tmp_path: Path) -> None:
    """Damage to one of them must not make it a voter of the catalog. A crash between the two writes
    is made up for by the next start."""
    opened(tmp_path, lambda file: file.write(JOINED))
    whole = (tmp_path / FILE_NAME).read_bytes()
    assert formats(tmp_path) == [5, 5]
    for number in range(2):
        damage(tmp_path, number)
        assert opened(tmp_path) == JOINED
        (tmp_path / FILE_NAME).write_bytes(whole)
    # the first record is in slot 1
    (tmp_path / FILE_NAME).write_bytes(bytes(SLOT_BYTES) + whole[SLOT_BYTES:])
    assert opened(tmp_path, lambda file: file.even_out()) == JOINED
    assert formats(tmp_path) == [5, 5]


RESTORED = FormationRecord(restored="r" * 16)
RESTORED_DRAFT = replace(DRAFT, restored=RESTORED.restored)


async def restored_and_drafted(file: FormationFile) -> None:
    await file.write(RESTORED)
    await file.write(RESTORED_DRAFT)


async def formed(file: FormationFile) -> None:
    await file.write(FORMED)


def formats(directory: Path) -> list[int]:
    """Of the two slots."""
    content = (directory / FILE_NAME).read_bytes()
    slots = (content[:SLOT_BYTES], content[SLOT_BYTES:])
    return [int(slot.partition(b'"format":')[2][:1]) for slot in slots]


def opened_by_an_older_release(directory: Path, monkeypatch: pytest.MonkeyPatch) -> FormationRecord:
    """What a program finds that reads the format alone that there was before places and restores:
    like this one it reads both slots."""
    with monkeypatch.context() as older:
        older.setattr("svc_cluster.replica.formation_file.FORMAT_VERSION", 1)
        return opened(directory)


def test_the_restore_is_found_again_and_raises_the_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that would vote with such a directory at once do not start on it. Once the cluster
    is formed they may: then both slots are as they always were."""
    opened(tmp_path, restored_and_drafted)
    assert opened(tmp_path) == RESTORED_DRAFT
    assert formats(tmp_path) == [3, 3]
    with pytest.raises(IdentityError, match="has format 3"):
        opened_by_an_older_release(tmp_path, monkeypatch)
    opened(tmp_path, formed)
    assert opened(tmp_path) == FORMED
    assert formats(tmp_path) == [1, 1]
    assert opened_by_an_older_release(tmp_path, monkeypatch) == FORMED


def test_records_that_follow_the_formed_one_are_written_once(tmp_path: Path) -> None:
    """The other slot holds the one before it, in case that the write is torn."""
    raised = replace(FORMED, places=(Place(NodeId(2), 3, "c" * 32),))

    async def all_of_them(file: FormationFile) -> None:
        await restored_and_drafted(file)
        await file.write(FORMED)
        await file.write(raised)

    opened(tmp_path, all_of_them)
    assert sorted(formats(tmp_path)) == [1, 2]


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_crash_between_the_two_writes_is_made_up_for(tmp_path: Path, is_torn: bool) -> None:
    """Only one slot has the formed list, or that and a half of the second write: the next start has
    it, and the one of the former writes it into the other slot."""
    opened(tmp_path, restored_and_drafted)
    drafted = (tmp_path / FILE_NAME).read_bytes()
    opened(tmp_path, formed)
    whole = (tmp_path / FILE_NAME).read_bytes()
    slots = [drafted[:SLOT_BYTES], whole[SLOT_BYTES:]]  # the third record is in slot 1
    if is_torn:
        slots[0] = whole[: SLOT_BYTES // 1024] + slots[0][SLOT_BYTES // 1024 :]
    (tmp_path / FILE_NAME).write_bytes(b"".join(slots))
    assert opened(tmp_path) == FORMED
    assert opened(tmp_path, begun) == FORMED
    assert opened(tmp_path) == FORMED
    if not is_torn:
        assert formats(tmp_path) == [1, 1]


class Nobody:
    """There is no other node."""

    async def form(self, peer: NodeId, report: bytes) -> bytes:
        raise ConnectionError(peer)

    def part(self) -> None:
        raise AssertionError("no place was given")


async def begun(file: FormationFile) -> None:
    """A node of the list begins and ends: it is open at once, and needs nobody."""
    open_now: list[bool] = []
    formation = Formation(
        NodeId(1), OWN, [NodeId(1)], file.record, has_log=True, registrations=tuple
    )
    former = Former(
        formation,
        file,
        Nobody(),
        clock=SystemClock(),
        log=get_logger("formation"),
        is_peer_up=lambda _: False,
        has_space=lambda: True,
        forget=lambda _: None,
        on_raised=lambda: None,
        on_failure=lambda _: None,
    )
    former.start(lambda: open_now.append(True))
    await asyncio.sleep(0)  # what it writes is under way: the end waits for that
    await former.stop()
    assert open_now


def test_a_longer_name_of_a_restore_than_there_is_is_damage(tmp_path: Path) -> None:
    """The longest one is read; of one more character no restore of ours has made one."""
    longest = replace(RESTORED, restored="r" * RESTORED_LENGTH_MAX)

    async def write(file: FormationFile) -> None:
        await file.write(longest)

    async def write_longer(file: FormationFile) -> None:
        await file.write(replace(RESTORED, restored="r" * (RESTORED_LENGTH_MAX + 1)))

    opened(tmp_path, write)
    assert opened(tmp_path) == longest
    opened(tmp_path, write_longer)
    assert opened(tmp_path) == longest


SAMPLES = Path(__file__).parent / "samples"


@pytest.mark.parametrize(
    ("number", "record"),
    [
        (1, FORMED),
        (2, FormationRecord(0, Stage.FORMED, LIST, (Place(NodeId(2), 3, "c" * 32),), 2)),
        (3, FormationRecord(0, Stage.DRAFTED, LIST, restored="0123456789abcdef")),
    ],
)
def test_every_format_that_was_written_is_read(
    tmp_path: Path, number: int, record: FormationRecord
) -> None:
    """Kept slots, as each format came with its release."""
    slot = (SAMPLES / f"formation-format-{number}.bin").read_bytes()
    (tmp_path / FILE_NAME).write_bytes(slot.ljust(2 * SLOT_BYTES, b"\0"))
    assert opened(tmp_path) == record
