"""The real directory: durable in order, zeros really written, one owner, death on failure."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc_cluster.storage.disk import EXIT_STORAGE, DirectoryInUseError, RealDisk, lock_directory

FAILING = """
import asyncio, os, sys
from pathlib import Path
from svc_cluster.storage.disk import RealDisk

def broken(handle):
    raise OSError(5, "Input/output error")

async def main():
    loop = asyncio.get_running_loop()
    disk = RealDisk(Path(sys.argv[1]), loop)
    file = disk.create("f", 4096)
    os.fdatasync = broken
    disk.submit([(file, 0, b"x")], lambda: print("acknowledged"))
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def disk(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> Iterator[RealDisk]:
    disk = RealDisk(tmp_path, loop)
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
            disk.submit([(file, 0, b"%02d" % number)], lambda n=number: order.append(n))
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
        made = loop.create_future()
        disk.submit_create("late", 8192, made.set_result)
        return (await made).pread(3, 0)

    assert loop.run_until_complete(main()) == bytes(3)


def test_an_unlinked_file_is_gone(disk: RealDisk) -> None:
    """And its name can be used again."""
    disk.create("f", 4096).close()
    disk.unlink("f")
    assert disk.list_names() == []
    assert disk.create("f", 4096).size() == 4096


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


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    """The second one is told so in a sentence; after the first has gone it may have it."""
    first = lock_directory(tmp_path / "data")
    with pytest.raises(DirectoryInUseError, match="in use by another process"):
        lock_directory(tmp_path / "data")
    os.close(first)
    os.close(lock_directory(tmp_path / "data"))
