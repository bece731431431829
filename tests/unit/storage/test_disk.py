"""The real directory: durable in order, zeros really written, one owner, death on failure."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from svc_cluster._native import core
from svc_cluster.storage import removal
from svc_cluster.storage.disk import (
    DirectoryInUseError,
    DiskFile,
    RealDisk,
    lock_directory,
)
from svc_cluster.storage.syncs import write_parts
from svc_cluster.storage.worker import EXIT_STORAGE

FAILING = """
import asyncio, os, sys
from pathlib import Path
from svc_cluster.storage.disk import RealDisk

failures = []

def broken(handle):
    if not failures:  # a second call would succeed, and mean nothing
        failures.append(1)
        raise OSError(5, "Input/output error")

async def main():
    loop = asyncio.get_running_loop()
    disk = RealDisk(Path(sys.argv[1]), loop, native=False)
    file = disk.create("f", 4096)
    os.fdatasync = broken
    disk.submit([(file, 0, b"x")], lambda: (print("acknowledged", flush=True), os._exit(0)))
    await asyncio.Event().wait()

asyncio.run(main())
"""

BROKEN_BEHIND = """
import asyncio, sys
from pathlib import Path
from svc_cluster.storage.disk import RealDisk

def broken():
    raise ZeroDivisionError("planted")

async def main():
    disk = RealDisk(Path(sys.argv[1]), asyncio.get_running_loop())
    disk.submit([(disk.create("f", 4096), 0, b"x")], broken)
    await asyncio.sleep(30)

asyncio.run(main())
"""


GONE = """
import asyncio, sys
from pathlib import Path
from svc_cluster.storage.disk import RealDisk

async def main():
    disk = RealDisk(Path(sys.argv[1]), asyncio.get_running_loop())
    file = disk.create("f", 4096)
    eval(sys.argv[2])
    try:
        disk.submit([(file, 0, b"x")], lambda: print("acknowledged"))
    except OSError:
        print("told")
    await asyncio.sleep(30)

asyncio.run(main())
"""


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(params=[False, True], ids=["Python's thread", "the core's thread"])
def disk(
    tmp_path: Path, loop: asyncio.AbstractEventLoop, request: pytest.FixtureRequest
) -> Iterator[RealDisk]:
    if request.param and core.sync_thread is None:
        pytest.skip("there is no native core")
    disk = RealDisk(tmp_path, loop, native=request.param)
    yield disk
    disk.close()


@pytest.fixture
def python(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> Iterator[RealDisk]:
    """What Python's functions are changed under."""
    disk = RealDisk(tmp_path, loop, native=False)
    yield disk
    disk.close()


def test_created_files_are_zeros_on_real_blocks(disk: RealDisk, tmp_path: Path) -> None:
    """Not a sparse file: overwriting it later needs no allocation, and garbage cannot show."""
    size = 3 * 1024 * 1024 + 4096
    file = disk.create("f", size)
    assert file.size() == size
    assert file.pread(size, 0) == bytes(size)
    assert os.stat(tmp_path / "f").st_blocks * 512 >= size
    assert disk.list_names() == ["f"]


def test_submissions_are_carried_out_in_order(
    disk: RealDisk, loop: asyncio.AbstractEventLoop
) -> None:
    """A later write to the same bytes wins, and `done` runs on the loop in the same order."""
    file = disk.create("f", 4096)
    order: list[int] = []

    async def main() -> None:
        last = loop.create_future()
        for number in range(50):
            disk.submit([(file, 0, b"%02d" % number)], partial(order.append, number))
        disk.submit([], lambda: last.set_result(None))
        assert order == []
        await last

    loop.run_until_complete(main())
    assert order == list(range(50))
    assert file.pread(2, 0) == b"49"


def test_contiguous_pieces_and_holes_land_where_they_belong(disk: RealDisk) -> None:
    """Pieces of one submission are gathered only where they touch, over two files."""
    one, two = disk.create("one", 1 << 20), disk.create("two", 4096)
    pieces = [(one, 10 * i, b"%010d" % i) for i in range(1500)]
    disk.write_sync([*pieces, (two, 5, b"five"), (one, 500_000, b"far"), (two, 9, b"nine")])
    assert one.pread(15_000, 0) == b"".join(data for _, _, data in pieces)
    assert one.pread(3, 500_000) == b"far"
    assert two.pread(8, 5) == b"fivenine"


def test_a_file_is_created_behind_the_loops_back(
    disk: RealDisk, loop: asyncio.AbstractEventLoop
) -> None:
    """`submit_create` answers on the loop with a usable file."""

    async def main() -> bytes:
        made: asyncio.Future[DiskFile] = loop.create_future()
        disk.submit_create("late", 8192, made.set_result)
        return (await made).pread(3, 0)

    assert loop.run_until_complete(main()) == bytes(3)


def test_every_file_of_a_batch_is_synced(
    python: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that goes over the end of a segment stands in two files."""
    one, other = python.create("one", 4096), python.create("other", 4096)
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda handle: synced.append(os.fstat(handle).st_ino))
    python.write_sync([(one, 0, b"a"), (other, 0, b"b"), (one, 100, b"c")])
    inodes = {(tmp_path / name).stat().st_ino for name in ("one", "other")}
    assert set(synced) == inodes


def test_a_created_files_name_is_synced_behind_its_content(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is synced last, once the file is: a power cut leaves the whole file or none."""
    synced: list[int] = []
    really = os.fsync

    def watched(handle: int) -> None:
        really(handle)
        synced.append(os.fstat(handle).st_ino)

    monkeypatch.setattr(os, "fsync", watched)
    disk.create("new", 4096).close()
    assert synced == [(tmp_path / "new").stat().st_ino, tmp_path.stat().st_ino]


def test_an_unlinked_file_is_gone(disk: RealDisk) -> None:
    """And its name can be used again."""
    disk.create("f", 4096).close()
    disk.unlink("f")
    assert disk.list_names() == []
    assert disk.create("f", 4096).size() == 4096


def test_what_is_written_stays_open_until_it_is_synced(python: RealDisk) -> None:
    """Python's thread syncs by number, too: a file that is given up in between keeps its own."""
    file = python.create("f", 4096)
    written = write_parts([(file.opened(), 0, b"x")])
    inode = os.fstat(written[0].number).st_ino
    file.close()
    assert os.fstat(written[0].number).st_ino == inode


def test_a_write_to_a_file_that_was_closed_ends_the_process(tmp_path: Path) -> None:
    """Its caller is told nothing, as of any failure: also of a file that cannot be opened anew."""
    for line in ("file.close()", "(file.release(), disk.unlink('f'))"):
        ended = subprocess.run(
            [sys.executable, "-c", GONE, str(tmp_path), line],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == EXIT_STORAGE, ended.stderr
        assert ended.stderr.startswith("fatal: storage failed")
        assert ended.stdout == ""


def test_a_failed_sync_ends_the_process_unacknowledged(tmp_path: Path) -> None:
    """Exit code 74, one clear line, and nobody is told that the write is durable."""
    ended = subprocess.run(
        [sys.executable, "-c", FAILING, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == EXIT_STORAGE
    assert "acknowledged" not in ended.stdout
    assert ended.stderr.strip().startswith("fatal: storage failed")
    assert len(ended.stderr.strip().splitlines()) == 1


def test_a_fault_behind_a_sync_ends_the_process(tmp_path: Path) -> None:
    """What the log does once a batch is durable is the log's: nobody would be told of that batch
    any more, nor of those that wait for it, in a process that went on."""
    ended = subprocess.run(
        [sys.executable, "-c", BROKEN_BEHIND, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == EXIT_STORAGE, ended.stderr
    assert "ZeroDivisionError('planted')" in ended.stderr


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    """The second one is told so in a sentence; after the first has gone it may have it."""
    first = lock_directory(tmp_path / "data")
    with pytest.raises(DirectoryInUseError, match="in use by another process"):
        lock_directory(tmp_path / "data")
    os.close(first)
    os.close(lock_directory(tmp_path / "data"))


def test_an_opened_directory_is_its_users_alone(tmp_path: Path) -> None:
    """A new one, and one that was there with rights for others."""
    old = tmp_path / "old"
    (old / "state").mkdir(parents=True)
    (old / "state" / "000001.sst").write_text("x")
    (old / "state" / "000001.sst").chmod(0o644)
    (old / "state").chmod(0o755)
    old.chmod(0o755)
    for directory in (old, tmp_path / "new"):
        os.close(lock_directory(directory))
        for path in (directory, *directory.rglob("*")):
            assert path.stat().st_mode & 0o077 == 0, path


def test_a_close_does_not_wait_for_removals_that_have_not_begun(
    tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    """A stop has a few seconds; what is left is there for the next start, whole. What was begun is
    finished."""
    disk = RealDisk(tmp_path, loop)
    names = [f"f{number}" for number in range(5)]
    for name in names:
        disk.create(name, 4096).close()
    begun, go_on = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        go_on.wait()

    disk._remover.put(first)
    for name in names:
        disk.submit_unlink(name)
    begun.wait()
    closing = threading.Thread(target=disk.close)
    closing.start()
    assert disk._pause.wait(60), "told before it waits for the removals"
    go_on.set()
    closing.join()
    assert sorted(os.listdir(tmp_path)) == names
    assert all((tmp_path / name).stat().st_size == 4096 for name in names)


def test_removals_beyond_the_bound_go_at_once(
    tmp_path: Path,
    loop: asyncio.AbstractEventLoop,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They are counted, one line says so, and as many as may wait still go in steps."""
    monkeypatch.setattr(removal, "BACKLOG_FILES_MAX", 2)
    slowly: list[int] = []
    shorten = os.ftruncate

    def watched(handle: int, size: int) -> None:
        slowly.append(size)
        shorten(handle, size)

    monkeypatch.setattr(os, "ftruncate", watched)
    disk = RealDisk(tmp_path, loop)
    go_on, done = threading.Event(), threading.Event()

    def first() -> None:
        go_on.wait()

    disk._remover.put(first)
    for number in range(5):
        (tmp_path / f"f{number}").write_bytes(bytes(5 * 1024 * 1024))
        disk.submit_unlink(f"f{number}")
    disk.submit_unlink("gone already")
    disk._remover.put(done.set)
    go_on.set()
    assert done.wait(60)
    assert os.listdir(tmp_path) == []
    assert disk.removed_at_once == 4
    assert slowly == [1024 * 1024]
    assert [record.message for record in caplog.records] == ["removals_fell_behind"]
    disk.close()


def test_a_reserved_file_has_its_blocks_and_reads_as_zeros(
    disk: RealDisk, loop: asyncio.AbstractEventLoop, tmp_path: Path
) -> None:
    """Room is taken at once, without the zeros being written; the head is there."""
    size = 8 * 1024 * 1024

    async def main() -> DiskFile | None:
        made: asyncio.Future[DiskFile | None] = loop.create_future()
        disk.submit_reserve("room", size, b"head", made.set_result)
        return await made

    file = loop.run_until_complete(main())
    assert file is not None
    assert (file.name, file.size()) == ("room", size)
    assert file.pread(size, 0) == b"head" + bytes(size - 4)
    assert os.stat(tmp_path / "room").st_blocks * 512 >= size


def test_a_file_that_the_disk_has_no_room_for_is_not_there(
    disk: RealDisk,
    loop: asyncio.AbstractEventLoop,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A refused reservation is told, leaves no file, and does not end the process."""

    def refuse(handle: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)

    async def main() -> DiskFile | None:
        made: asyncio.Future[DiskFile | None] = loop.create_future()
        disk.submit_reserve("room", 1 << 20, b"head", made.set_result)
        return await made

    assert loop.run_until_complete(main()) is None
    assert os.listdir(tmp_path) == []


def test_a_renewed_file_has_another_name_and_beginning(
    disk: RealDisk, loop: asyncio.AbstractEventLoop, tmp_path: Path
) -> None:
    """It is the same file with what was in it, written and read through the same handle."""
    file = disk.create("old", 8192)
    disk.write_sync([(file, 0, b"before"), (file, 4096, b"content")])

    async def main() -> None:
        done: asyncio.Future[bool] = loop.create_future()
        disk.submit_renew(file, "new", b"after.", done.set_result)
        assert await done

    loop.run_until_complete(main())
    assert os.listdir(tmp_path) == ["new"]
    assert file.name == "new"
    disk.write_sync([(file, 5000, b"more")])
    data = (tmp_path / "new").read_bytes()
    assert (data[:6], data[4096:4103], data[5000:5004]) == (b"after.", b"content", b"more")


def test_a_cached_read_tells_what_memory_has_or_nothing(disk: RealDisk) -> None:
    """What was just written is in memory; beyond the end there is nothing, not a part of it."""
    file = disk.create("f", 8192)
    disk.write_sync([(file, 4000, b"x" * 200)])
    assert file.pread_cached(200, 4000) in (b"x" * 200, None)
    assert file.pread_cached(200, 8100) is None
