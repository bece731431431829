"""A bounded number of payload files is held open, whatever a node stores."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from svc_cluster.storage import real_file
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.payload.payload_files import PayloadFiles
from svc_cluster.storage.payload.payload_frame import (
    EntryName,
    PayloadPlace,
    encode_head,
    file_name,
)
from svc_cluster.storage.payload.payload_settings import PayloadSettings
from svc_cluster.storage.rocks_settings import RocksSettings
from svc_cluster.storage.rocks_store import RocksStore
from tests.unit.storage.fakes import FakeDisk, FakeFile
from tests.unit.storage.payload_driver import (
    APART,
    BULK,
    FILE_BYTES,
    SMALL_FILES,
    open_files,
    put_into,
)
from tests.unit.storage.wal_driver import TAG, create, entries, hard_state, open_wal, put, truncate

FEW = 3
OF_FEW = dataclasses.replace(SMALL_FILES, open_files_max=FEW)
BESIDE = 2
"""The file that is written, and the one that is ready behind it."""
FEW_TABLES = 74
"""The library keeps its tables in 64 parts, none of which it makes smaller than one, and takes ten
files for itself."""
TABLES = 200
PER_FILE = FILE_BYTES // 4096 - 1


def payload_of(number: int) -> bytes:
    return (b"%09d" % number) * (BULK // 9)


def filled(files: PayloadFiles, disk: FakeDisk, count: int) -> list[PayloadPlace]:
    """Entries that fill about `count` files."""
    return [
        put_into(files, disk, EntryName(1, number, 1), payload_of(number))
        for number in range(count * PER_FILE)
    ]


def held_open(disk: FakeDisk) -> list[str]:
    return [name for name, file in disk.files.items() if file.is_open]


def test_no_more_files_stay_open_than_may() -> None:
    """Written ones are given up in their order, and reads of all of them leave as few open."""
    disk = FakeDisk()
    files = open_files(disk, OF_FEW)
    places = filled(files, disk, 12)
    last = places[-1].number
    newest = [file_name(number) for number in range(last - FEW, last + BESIDE)]
    assert held_open(disk) == newest
    for number, place in enumerate(places):
        assert files.read(place) == payload_of(number)
        assert len(held_open(disk)) <= FEW + BESIDE
    for number in [-1, *range(0, 5 * PER_FILE, PER_FILE)]:
        assert files.read(places[number]) == payload_of(number % len(places))
    assert file_name(last) in held_open(disk), "the file that is written is none of them"


def test_a_file_at_rest_is_opened_by_a_read_that_may_wait() -> None:
    """Who must not wait is told nothing until somebody has read it."""
    disk = FakeDisk()
    files = open_files(disk, OF_FEW)
    places = filled(files, disk, 8)
    assert files.read_cached(places[0]) is None
    assert files.read(places[0]) == payload_of(0)
    assert files.read_cached(places[0]) == payload_of(0)
    assert files.read_cached(places[-1]) == payload_of(len(places) - 1)


def test_a_start_leaves_no_file_open_but_what_it_writes() -> None:
    """Also behind the syncs of what the log names, and behind the reads of its entries."""
    disk = FakeDisk()
    files = open_files(disk, OF_FEW)
    places = filled(files, disk, 12)
    after = disk.crash()
    for file in after.files.values():
        file.is_open = True
    found = PayloadFiles(after, TAG, OF_FEW)
    assert held_open(after) == []
    for number, place in enumerate(places):
        assert found.read_entry(place, EntryName(1, number, 1)) == payload_of(number)
        assert len(held_open(after)) <= FEW
    found.sync({place.number for place in places})
    assert held_open(after) == []


def test_a_file_that_nothing_needs_is_not_held_open() -> None:
    """Neither among those that wait for their next life nor as one of the few."""
    disk = FakeDisk()
    files = open_files(disk, OF_FEW)
    places = filled(files, disk, 4)
    first = places[0].number
    name = file_name(first)
    files.read(places[0])
    assert name in held_open(disk)
    file = disk.files[name]
    files._preparing = True  # nobody takes it up at once
    files.retire(first)
    assert not file.is_open
    files._preparing = False
    more = filled(files, disk, 3)
    assert file.name != name
    assert files.read(more[-1]) == payload_of(len(more) - 1)


def test_a_file_is_neither_given_up_nor_free_while_writes_to_it_are_under_way() -> None:
    """What filled it is durable first, even where its entries are gone from the log meanwhile."""
    disk = FakeDisk()
    wal = open_wal(disk, dataclasses.replace(APART, payload=OF_FEW))
    wal.payloads.start(wal.placed_numbers())
    disk.run()
    put(wal, disk, 1, create(), hard_state(1, 2))
    put(wal, disk, 1, entries(1, 1, 1, size=BULK))
    place = wal.place_of(1, 1)  # type: ignore[arg-type]
    assert place is not None
    first = place.number
    durable: list[bool] = []
    wal.append(1, [entries(1, 2, PER_FILE, size=BULK)], lambda: durable.append(True))  # type: ignore[arg-type]
    wal.append(1, [truncate(1)], lambda: None)  # type: ignore[arg-type]
    assert wal.placed_numbers() == set()
    under_way = {file.name for writes, _ in disk.queue for file, _, _ in writes}
    assert file_name(first) in under_way
    assert first not in wal.payloads.closed_numbers()
    with pytest.raises(AssertionError, match="under way"):
        wal.payloads.retire(first)
    assert disk.files[file_name(first)].is_open
    disk.run()
    assert durable
    assert first in wal.payloads.closed_numbers()
    wal.payloads.retire(first)


def test_a_number_below_one_is_refused() -> None:
    """A bound of none would give the file up that is read."""
    with pytest.raises(ValueError, match="open_files_max must be positive"):
        PayloadSettings(open_files_max=0)
    with pytest.raises(ValueError, match="open_files_max must be positive"):
        RocksSettings(open_files_max=-1)


def descriptors(directory: Path) -> list[str]:
    """What this process holds open of the directory."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(link)
        except FileNotFoundError:
            continue
        if target.startswith(f"{directory}/") and "payload" in target:
            found.append(target)
    return found


def test_readers_of_many_threads_get_their_bytes_and_leave_few_files_open(tmp_path: Path) -> None:
    """A descriptor is not taken from under a read, nor is one left behind that nobody counts."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        disk = RealDisk(tmp_path, loop)
        files = PayloadFiles(disk, TAG, dataclasses.replace(OF_FEW, open_files_max=1))
        files.start(())
        places = []
        for number in range(12 * PER_FILE):
            while not files.takes(BULK):
                await asyncio.sleep(0.001)
            place, writes = files.put(EntryName(1, number, 1), payload_of(number))
            done = loop.create_future()
            disk.submit(writes, lambda done=done: done.set_result(None))  # type: ignore[misc]
            await done
            files.settled(files.take_filled())
            places.append(place)
        wrong: list[object] = []

        def read(seed: int) -> None:
            rng = random.Random(seed)
            for _ in range(3_000):
                number = rng.randrange(len(places))
                if files.read(places[number]) != payload_of(number):
                    wrong.append(number)

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            await asyncio.sleep(0.01)
        assert wrong == []
        for place in places[:PER_FILE]:  # what is read last is the one that stays
            files.read(place)
        assert len(descriptors(tmp_path)) <= 1 + BESIDE, descriptors(tmp_path)
        files.close()
        assert descriptors(tmp_path) == []
        assert files.read(places[0]) is None
        disk.close()

    asyncio.run(main())


class Overtaken(FakeFile):
    """A file that something happens to between a reader's look for it and its read."""

    meanwhile: Callable[[], None] | None = None

    def pread(self, size: int, offset: int) -> bytes:
        if self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            happens()
        return super().pread(size, offset)


def renewed(files: PayloadFiles, disk: FakeDisk, number: int) -> None:
    """The file becomes free, ready under another number, and the one that is written."""
    file = disk.files[file_name(number)]
    files.retire(number)
    disk.run()
    while files._current is None or disk.files[file_name(files._current)] is not file:
        put_into(files, disk, EntryName(1, 1, 2), payload_of(1))


def test_a_file_that_a_start_frees_is_none_of_those_that_reads_have_opened() -> None:
    """It would be released while it is written, under its next number."""
    disk = FakeDisk()
    places = filled(open_files(disk, OF_FEW), disk, 8)
    after = disk.crash()
    found = PayloadFiles(after, TAG, OF_FEW)
    first = places[0].number
    assert found.read_entry(places[0], EntryName(1, 0, 1)) == payload_of(0)
    file = after.files[file_name(first)]
    found.start({place.number for place in places} - {first})
    assert not file.is_open
    after.run()
    while found._current is None or after.files[file_name(found._current)] is not file:
        put_into(found, after, EntryName(1, 1, 2), payload_of(1))
    for number in range(PER_FILE, len(places)):
        assert found.read(places[number]) == payload_of(number)
    assert file.is_open, "the file that is written is none of those that reads release"


def test_a_read_that_comes_late_does_not_count_a_file_that_became_free() -> None:
    """The file is written under another number by then, and stays open."""
    disk = FakeDisk()
    files = open_files(disk, OF_FEW)
    places = filled(files, disk, 8)
    first = places[0].number
    file = disk.files[file_name(first)]
    file.__class__ = Overtaken
    assert isinstance(file, Overtaken)
    file.meanwhile = lambda: renewed(files, disk, first)
    assert files.read(places[0]) is None, "another entry stands there by now"
    for number in range(PER_FILE, len(places)):
        files.read(places[number])
    assert file.is_open


def test_a_read_that_comes_too_late_finds_nothing_and_fails_nobody(tmp_path: Path) -> None:
    """The file has another name by the time it would be opened, or was closed."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        disk = RealDisk(tmp_path, loop)
        files = PayloadFiles(disk, TAG, OF_FEW)
        files.start(())
        while not files.takes(BULK):
            await asyncio.sleep(0.001)
        place, writes = files.put(EntryName(1, 1, 1), payload_of(1))
        done = loop.create_future()
        disk.submit(writes, lambda: done.set_result(None))
        await done
        files._files[place.number].release()
        name = tmp_path / file_name(place.number)
        os.rename(name, tmp_path / "elsewhere")
        assert files.read(place) is None
        os.rename(tmp_path / "elsewhere", name)
        assert files.read(place) == payload_of(1)
        files.close()
        assert files.read(place) is None
        disk.close()

    asyncio.run(main())


def test_a_file_that_went_meanwhile_holds_nothing(tmp_path: Path) -> None:
    """A file that was released is not found by a name that it has no more."""

    async def main() -> None:
        disk = RealDisk(tmp_path, asyncio.get_running_loop())
        file = disk.create("f", 8192)
        file.release()
        os.rename(tmp_path / "f", tmp_path / "g")
        with pytest.raises(FileNotFoundError):
            file.pread(10, 0)
        disk.close()

    asyncio.run(main())


def test_a_file_that_is_closed_while_it_is_opened_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another thread, which has nothing to close yet."""

    async def main() -> None:
        disk = RealDisk(tmp_path, asyncio.get_running_loop())
        file = disk.create("payload", 8192)
        file.release()
        opens = real_file.open_to_write

        def overtaken(path: Path) -> int:
            number = opens(path)
            file.close()
            return number

        monkeypatch.setattr(real_file, "open_to_write", overtaken)
        with pytest.raises(OSError, match="closed"):
            file.pread(10, 0)
        assert descriptors(tmp_path) == []
        disk.close()

    asyncio.run(main())


def test_a_start_of_the_real_disk_holds_few_files_open(tmp_path: Path) -> None:
    """Its syncs are blocking, before the first turn of the loop."""

    async def main() -> None:
        disk = RealDisk(tmp_path, asyncio.get_running_loop())
        for number in range(1, 13):
            name = file_name(number)
            disk.create(name, FILE_BYTES).close()
            (tmp_path / name).write_bytes(encode_head(number, TAG).ljust(FILE_BYTES, b"\0"))
        files = PayloadFiles(disk, TAG, OF_FEW)
        assert files.closed_numbers() == list(range(1, 13))
        files.sync(range(1, 13))
        assert descriptors(tmp_path) == []
        files.close()
        disk.close()

    asyncio.run(main())


def test_the_store_holds_few_tables_open(tmp_path: Path) -> None:
    """As many as its settings say, however many there are: the rest is opened when it is read."""

    async def main() -> None:
        settings = RocksSettings(
            write_buffer_bytes=64 * 1024, open_files_max=FEW_TABLES, compacts=False
        )
        store = RocksStore(tmp_path / "s", asyncio.get_running_loop(), settings)
        flushed = asyncio.Event()
        for number in range(TABLES):
            store._db.put(b"%06d" % number, b"x" * 1000)
            store.flush(flushed.set)
            await flushed.wait()
            flushed.clear()
        tables = list((tmp_path / "s").glob("*.sst"))
        assert len(tables) == TABLES
        for number in range(TABLES):
            assert store.get(b"%06d" % number) == b"x" * 1000
        links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        held = [link for link in links if link.endswith(".sst") and str(tmp_path) in link]
        assert 0 < len(held) <= FEW_TABLES
        store.close()

    asyncio.run(main())
