"""The thread of the native core that writes and syncs the log, compiled from this tree."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from svc_cluster import _native
from svc_cluster.storage.real_file import RealFile
from svc_cluster.storage.syncs import NativeSyncs, PythonSyncs, Syncs
from svc_cluster.storage.worker import EXIT_STORAGE
from tests.native_build import compiled, compiler, core_of_this_tree

FAILING = """
import asyncio, os, sys
from pathlib import Path
from svc_cluster import _native
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.real_file import RealFile
from tests.native_build import loaded

_native._built = loaded(Path(sys.argv[2]))
_native.use(wanted=True)

async def main():
    loop = asyncio.get_running_loop()
    disk = RealDisk(Path(sys.argv[1]), loop)
    good = [disk.create(name, 4096) for name in ("one", "two")]
    bad = RealFile(Path(sys.argv[3]), os.open(sys.argv[3], os.O_RDWR))
    files = [*good]
    files.insert(int(sys.argv[4]), bad)
    if sys.argv[5] == "fault":
        disk.submit([(good[0], 0, b"x")], lambda: 1 // 0)
        await asyncio.sleep(30)
        return
    if sys.argv[5] == "closed":
        again = lambda: disk.submit([(good[1], 0, b"y")], lambda: print("told", flush=True))
        disk.submit([(good[0], 0, b"x")], again)
        disk.close()
        for _ in range(10):
            await asyncio.sleep(0)
        return
    if sys.argv[5] == "told":
        disk.on_sync = lambda *_: 1 // 0
        disk.submit([(good[0], 0, b"x")], lambda: print("acknowledged", flush=True))
        await asyncio.sleep(30)
        return
    if sys.argv[5] == "blocking":
        disk.write_sync([(file, 0, b"x") for file in files])
        print("acknowledged", flush=True)
        os._exit(0)
    disk.submit([(file, 0, b"x") for file in files], lambda: print("acknowledged", flush=True))
    disk.submit([(good[0], 0, b"y")], lambda: print("behind it", flush=True))
    await asyncio.sleep(30)

asyncio.run(main())
"""

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no compiler")


@pytest.fixture
def thread(monkeypatch: pytest.MonkeyPatch) -> type[_native.SyncThread]:
    monkeypatch.setattr(_native, "_built", core_of_this_tree())
    return _native.SyncThread


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("core"))


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[RealFile]]:
    made = []
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(bytes(8 << 20))
        made.append(RealFile(tmp_path / name, os.open(tmp_path / name, os.O_RDWR)))
    yield made
    for file in made:
        file.close()


def never(number: int) -> None:
    raise AssertionError(number)


def test_parts_land_where_they_belong_however_many_they_are(
    thread: type[_native.SyncThread], files: list[RealFile]
) -> None:
    """More than one call of the kernel takes, in both files, with holes, empty ones among them; a
    later write to the same place wins."""
    loop = asyncio.new_event_loop()
    syncs = NativeSyncs(loop, Path("/nowhere"), lambda *_: None, thread)
    one, two = files
    parts = [(one, 10 * number, b"%010d" % number) for number in range(3000)]
    more = [(one, 500_000, b"far"), (two, 5, b"five"), (two, 9, b""), (two, 9, b"nine")]
    syncs.write([*parts, *more, (one, 0, b"first"), (two, 0, memoryview(b"xyz")[1:])])  # type: ignore[list-item]
    assert one.pread(30_000, 0) == b"first" + b"".join(data for _, _, data in parts)[5:]
    assert one.pread(3, 500_000) == b"far"
    assert two.pread(13, 0) == b"yz\0\0\0fivenine"
    large = os.urandom(5 << 20)
    syncs.write([(two, 4096, large)])
    assert two.pread(len(large), 4096) == large
    syncs.close()
    loop.close()


def test_what_is_done_is_told_in_order_on_the_loop_with_its_times(
    thread: type[_native.SyncThread], files: list[RealFile]
) -> None:
    """Also what a blocking write has gone by meanwhile, which tells nobody itself."""
    told: list[tuple[float, float, int]] = []
    done: list[tuple[int, int]] = []

    def note(number: int) -> None:
        done.append((number, threading.get_ident()))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        syncs = NativeSyncs(loop, Path("/nowhere"), lambda *row: told.append(row), thread)
        last = loop.create_future()
        for number in range(100):
            syncs.submit(
                [(files[0], 0, b"x" * number)],
                partial(note, number),
            )
        syncs.write([(files[1], 0, b"blocking")])
        assert done == [], "nothing is told amid a turn"
        syncs.submit([], lambda: last.set_result(None))
        await last
        syncs.close()

    asyncio.run(main())
    assert done == [(number, threading.get_ident()) for number in range(100)]
    assert [size for _, _, size in told] == [*range(100), len(b"blocking"), 0]
    assert all(written >= 0 and synced >= 0 for written, synced, _ in told)
    assert all(synced > 0 for _, synced, size in told if size)


def test_what_waits_is_finished_by_a_close_and_told_behind_it(
    thread: type[_native.SyncThread], files: list[RealFile]
) -> None:
    """Nothing is written any more, whoever asks: an order that the end of the last batch gives,
    behind the close, is no failure of the disk."""
    done: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        syncs = NativeSyncs(loop, Path("/nowhere"), lambda *_: None, thread)
        for number in range(20):
            syncs.submit([(files[0], number, b"x")], partial(done.append, number))
        syncs.close()
        syncs.close()
        assert files[0].pread(20, 0) == b"x" * 20
        syncs.submit([(files[0], 0, b"y")], lambda: done.append(-1))
        with pytest.raises(ValueError, match="has ended"):
            syncs.write([(files[0], 0, b"y")])
        assert len(syncs._under_way) == 20, "what is refused is expected of nobody"
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert done == list(range(20))
    assert files[0].pread(2, 0) == b"xx"


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("how", ["blocking", "submitted"])
@pytest.mark.parametrize("device", ["/dev/null", "/dev/full"])
def test_a_write_or_a_sync_that_fails_ends_the_process_unacknowledged(
    tmp_path: Path, library: Path, device: str, how: str, place: int
) -> None:
    """Whichever file of the batch it is: one cannot be written (no space), the other is written and
    cannot be synced. Nobody is told, of this batch or of the one behind it."""
    ended = subprocess.run(
        [sys.executable, "-c", FAILING, str(tmp_path), str(library), device, str(place), how],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == EXIT_STORAGE, ended.stderr
    assert ended.stdout == ""
    assert ended.stderr.startswith("fatal: storage failed")
    assert ("No space left" if device == "/dev/full" else "Invalid argument") in ended.stderr


@pytest.mark.parametrize("where", ["fault", "told"])
def test_a_fault_behind_a_sync_of_the_core_ends_the_process(
    tmp_path: Path, library: Path, where: str
) -> None:
    """As one behind Python's does, in what is done behind it or in who counts it: what was to
    follow upon that batch would never be done."""
    ended = subprocess.run(
        [sys.executable, "-c", FAILING, str(tmp_path), str(library), "/dev/null", "0", where],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == EXIT_STORAGE, ended.stderr
    assert "ZeroDivisionError" in ended.stderr


def test_what_the_last_batch_orders_behind_a_close_is_no_fault(
    tmp_path: Path, library: Path
) -> None:
    """A process that is stopped in order ends so. Nothing of the order is written, and nobody is
    told of it."""
    ended = subprocess.run(
        [sys.executable, "-c", FAILING, str(tmp_path), str(library), "/dev/null", "0", "closed"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    written = [(tmp_path / name).read_bytes()[:1] for name in ("one", "two")]
    assert written == [b"x", b"\0"]


@pytest.mark.parametrize("how", ["dropped", "closed", "released"])
@pytest.mark.parametrize("whose", ["the core's", "Python's"])
def test_a_file_that_is_given_up_stays_open_until_its_write_is_done(
    thread: type[_native.SyncThread],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    whose: str,
    how: str,
) -> None:
    """The thread knows its number only, which would mean another file meanwhile, or none."""
    failed: list[int] = []
    monkeypatch.setattr(os, "_exit", failed.append)  # the judgement is this process's to tell
    path = tmp_path / "given up"
    path.write_bytes(bytes(4096))
    file: RealFile | None = RealFile(path, os.open(path, os.O_RDWR))
    assert file is not None
    number = file.opened().number
    inode = os.fstat(number).st_ino
    ahead = RealFile(tmp_path / "ahead", os.open(tmp_path / "ahead", os.O_RDWR | os.O_CREAT))
    ahead_inode = os.fstat(ahead.opened().number).st_ino
    going = threading.Event()
    seen: list[int] = []

    def sync(handle: int) -> None:
        going.wait(60)
        seen.append(os.fstat(handle).st_ino)

    async def main() -> None:
        nonlocal file
        told = asyncio.Event()
        loop = asyncio.get_running_loop()
        syncs: Syncs
        if whose == "Python's":
            syncs = PythonSyncs(loop, tmp_path, sync, lambda *_: None)
        else:
            syncs = NativeSyncs(loop, tmp_path, lambda *_: None, thread)
        try:
            syncs.submit([(ahead, 0, b"ahead")], lambda: None)
            assert file is not None
            syncs.submit([(file, 0, b"good")], told.set)
            if how == "closed":
                file.close()
            elif how == "released":
                file.release()
            else:
                file = None
            assert os.fstat(number).st_ino == inode, "nobody else has the number"
            going.set()
            await told.wait()
        finally:
            going.set()
            syncs.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)

    asyncio.run(main())
    assert path.read_bytes()[:4] == b"good"
    assert seen == ([ahead_inode, inode] if whose == "Python's" else [])
    assert failed == []


def test_what_python_s_thread_has_done_holds_nothing_open(tmp_path: Path) -> None:
    """It waits for its next job, which may be long in coming."""
    file = RealFile(tmp_path / "f", os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT))
    number = file.opened().number

    async def main() -> None:
        syncs = PythonSyncs(asyncio.get_running_loop(), tmp_path, os.fdatasync, lambda *_: None)
        syncs.write([(file, 0, b"bytes")])
        file.release()
        async with asyncio.timeout(60):
            while os.path.exists(f"/proc/self/fd/{number}"):
                await asyncio.sleep(0.001)  # its thread is at the end of the job
        syncs.close()

    asyncio.run(main())


def test_blocking_writes_hold_nothing_open_behind_them(
    thread: type[_native.SyncThread], tmp_path: Path
) -> None:
    """A start writes to many files before the loop's first turn, in which they are told."""

    async def main() -> None:
        told: list[int] = []
        syncs = NativeSyncs(
            asyncio.get_running_loop(), tmp_path, lambda *figures: told.append(figures[2]), thread
        )
        ahead = RealFile(tmp_path / "a", os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT))
        done = asyncio.Event()
        syncs.submit([(ahead, 0, b"ahead")], done.set)
        numbers = []
        for name in ("b", "c"):
            file = RealFile(tmp_path / name, os.open(tmp_path / name, os.O_RDWR | os.O_CREAT))
            numbers.append(file.opened().number)
            syncs.write([(file, 0, b"bytes")])
            file.release()
        ahead.release()
        for number in numbers:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(number)
        assert not done.is_set()
        await done.wait()
        syncs.close()
        assert told == [5, 5, 5]

    asyncio.run(main())
    assert [(tmp_path / name).read_bytes() for name in "abc"] == [b"ahead", b"bytes", b"bytes"]


def test_what_is_no_write_is_refused_and_nothing_of_it_is_done(
    thread: type[_native.SyncThread], files: list[RealFile]
) -> None:
    eventfd = os.eventfd(0, os.EFD_NONBLOCK)
    syncs = thread(eventfd, never)
    good = (files[0].opened().number, 0, b"good")
    for bad in (
        (1, 2),
        [1, 2, b""],
        (files[0].opened().number, 0, "text"),
        ("x", 0, b""),
        (1, 1 << 70, b""),
    ):
        with pytest.raises((TypeError, OverflowError, BufferError)):
            syncs.submit([good, bad])  # type: ignore[list-item]
    syncs.wait()
    assert syncs.take() == []
    assert files[0].pread(4, 0) == bytes(4)
    syncs.close()
    os.close(eventfd)


def test_the_bytes_are_kept_until_they_are_written_and_not_longer(
    thread: type[_native.SyncThread], files: list[RealFile]
) -> None:
    eventfd = os.eventfd(0, os.EFD_NONBLOCK)
    syncs = thread(eventfd, never)
    data = bytearray(b"abc")
    syncs.submit([(files[0].opened().number, 0, data)])  # type: ignore[list-item]
    syncs.wait()
    with pytest.raises(BufferError):
        data.append(1)
    assert [size for _, _, size in syncs.take()] == [3]
    data.append(1)
    syncs.close()
    os.close(eventfd)


def test_what_is_closed_is_let_go_of(
    thread: type[_native.SyncThread], files: list[RealFile]
) -> None:
    """With the loop and the callbacks that it knows."""
    loop = asyncio.new_event_loop()
    syncs = NativeSyncs(loop, Path("/nowhere"), lambda *_: None, thread)
    syncs.write([(files[0], 0, b"x")])
    syncs.close()
    loop.close()
    known = weakref.ref(syncs)
    del syncs
    gc.collect()
    assert known() is None
