"""The formation on the disk: newest of two slots, whole or as before."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.model.formation import MEMBERS_MAX, FormationRecord, Stage
from svc_cluster.replica.formation_file import FILE_NAME, SLOT_BYTES, FormationFile
from svc_cluster.replica.identity import IdentityError
from svc_cluster.storage.disk import DiskFile, RealDisk

OWN = "a" * 32
LIST = ((NodeId(1), OWN), (NodeId(2), "b" * 32))
DRAFT = FormationRecord(0, Stage.DRAFTED, LIST)
FORMED = FormationRecord(0, Stage.FORMED, LIST)


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


class SlowDisk(RealDisk):
    """Writes once it may, on its own thread."""

    def __init__(self, directory: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(directory, loop)
        self.begun = threading.Event()
        self.may_write = threading.Event()

    def _write(
        self, writes: Sequence[tuple[DiskFile, int, bytes]], *, is_aside: bool = False
    ) -> None:
        self.begun.set()
        self.may_write.wait()
        super()._write(writes, is_aside=is_aside)


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
        later.setattr("svc_cluster.replica.formation_file.FORMAT_VERSION", 2)
        opened(tmp_path, both)
    with pytest.raises(IdentityError, match="has format 2"):
        opened(tmp_path)
