"""Deleted ranges give their space back while the store is in use."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from svc_cluster.base.write_set import WriteSet
from svc_cluster.storage.dead_ranges import DEAD_BYTES_MIN, TableFile
from svc_cluster.storage.reclaim import Reclaimer
from svc_cluster.storage.rocks_settings import RocksSettings
from svc_cluster.storage.rocks_store import RocksStore
from svc_cluster.storage.state_store import StoreStalledError

MIB = 1024 * 1024
VALUE = bytes(range(256)) * 256
DEADLINE_S = 60.0


class Loop:
    """Runs what threads hand over, when the test says so."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def until(self, holds: Callable[[], bool]) -> None:
        async def wait() -> None:
            async with asyncio.timeout(DEADLINE_S):
                while not holds():
                    await asyncio.sleep(0.01)

        self.loop.run_until_complete(wait())


def _pending(reclaimer: Reclaimer) -> int:
    """Deleted ranges that may still hold space."""
    return len(reclaimer._unflushed) + len(reclaimer._flushed) + len(reclaimer._in_work)


@pytest.fixture
def loop() -> Iterator[Loop]:
    one = Loop()
    yield one
    one.loop.close()


def opened(directory: Path, loop: Loop) -> RocksStore:
    return RocksStore(directory, loop.loop, RocksSettings(write_buffer_bytes=2 * MIB))


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def fill(store: RocksStore, count: int) -> None:
    rng = random.Random(1)
    for number in range(count):
        write_set = WriteSet()
        write_set.put(key(number), rng.randbytes(len(VALUE)))
        put(store, write_set)


def put(store: RocksStore, write_set: WriteSet) -> None:
    while True:
        try:
            store.write(write_set)
        except StoreStalledError:
            time.sleep(0.001)  # as apply does
        else:
            return


def flushed(store: RocksStore, loop: Loop) -> None:
    done: list[bool] = []
    store.flush(lambda: done.append(True))
    loop.until(lambda: bool(done))


def disk_bytes(directory: Path) -> int:
    """Of all tables; one that a compaction removes meanwhile is gone."""
    total = 0
    for path in directory.glob("*.sst"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def delete(store: RocksStore, start: int, end: int, *, known: bool = True) -> None:
    write_set = WriteSet()
    frees = (end - start) * len(VALUE) if known else None
    write_set.delete_range(key(start), key(end), frees=frees)
    put(store, write_set)


@pytest.mark.parametrize("known", [True, False])
def test_a_deleted_range_gives_its_space_back(tmp_path: Path, loop: Loop, known: bool) -> None:
    """90 % of 16 MiB is gone from the disk, what lives is whole, and writes went on meanwhile."""
    store = opened(tmp_path, loop)
    fill(store, 256)
    flushed(store, loop)
    delete(store, 0, 230, known=known)
    store.reclaim()
    assert _pending(store._reclaimer) == 1, "not before a flush has covered the delete"
    flushed(store, loop)
    store.reclaim()
    written = 0

    def small() -> bool:
        nonlocal written
        write_set = WriteSet()
        write_set.put(key(1000 + written), b"meanwhile")
        put(store, write_set)
        written += 1
        return disk_bytes(tmp_path) <= 1.2 * 26 * len(VALUE) + MIB

    loop.until(small)
    assert [pair[0] for pair in store.scan(key(0), key(1000))] == [key(n) for n in range(230, 256)]
    assert len(list(store.scan(key(1000), key(9999)))) == written
    store.close()


def test_what_was_not_compacted_is_known_after_a_restart(tmp_path: Path, loop: Loop) -> None:
    """The next process gives the space back; readers never see the notes."""
    store = opened(tmp_path, loop)
    fill(store, 256)
    delete(store, 0, 230)
    store.close()
    again = opened(tmp_path, loop)
    assert len(list(again.scan(b"", b"\xff" * 64))) == 26
    view = again.snapshot()
    assert len(list(view.scan(b"", b"\xff" * 64))) == 26
    view.close()
    again.reclaim()
    loop.until(lambda: disk_bytes(tmp_path) <= 1.2 * 26 * len(VALUE) + MIB)
    loop.until(lambda: _pending(again._reclaimer) == 0)
    again.close()
    last = opened(tmp_path, loop)
    assert _pending(last._reclaimer) == 0, "and the notes are gone when it has"
    last.close()


def test_a_store_can_be_closed_in_the_middle(tmp_path: Path, loop: Loop) -> None:
    """A round under way is cut short, and nothing is lost by it."""
    store = opened(tmp_path, loop)
    fill(store, 128)
    for start in range(0, 120, 10):
        delete(store, start, start + 8)
    flushed(store, loop)
    late = WriteSet()
    late.put(key(500), b"not flushed yet")
    put(store, late)
    store.reclaim()
    store.close()
    again = opened(tmp_path, loop)
    assert len(list(again.scan(key(0), key(128)))) == 128 - 12 * 8
    assert again.get(key(500)) == b"not flushed yet"
    again.close()


class Compactor:
    """One that takes as long as the test wants."""

    def __init__(self) -> None:
        self.compacted: list[tuple[bytes, bytes]] = []
        self.reclaimed_ranges: list[tuple[bytes, bytes]] = []

    def table_files(self) -> list[TableFile]:
        return [TableFile(1, key(0), key(100), 100 * MIB)]

    def compact(self, start: bytes, end: bytes) -> None:
        self.compacted.append((start, end))

    def reclaimed(self, start: bytes, end: bytes) -> None:
        self.reclaimed_ranges.append((start, end))


def test_a_round_is_followed_by_a_rest(loop: Loop) -> None:
    """However fast space is freed, compactions take a bounded share of the time."""
    now = [0.0]
    compactor = Compactor()

    def on_loop(what: Callable[[], None]) -> None:
        now[0] += 5.0
        loop.loop.call_soon_threadsafe(what)

    reclaimer = Reclaimer(compactor, on_loop, lambda: now[0])
    for number in range(3):
        reclaimer.note([(key(number * 10), key(number * 10 + 5), 2 * DEAD_BYTES_MIN + 20 * MIB)])
        reclaimer.flush_begins()()
        reclaimer.run()
        loop.until(lambda: not reclaimer.is_busy)
        reclaimer.note([(key(50), key(60), 90 * MIB)])
        reclaimer.flush_begins()()
        count = len(compactor.compacted)
        reclaimer.run()
        assert (len(compactor.compacted), reclaimer.is_busy) == (count, False), "a rest"
        now[0] += 1000.0
        reclaimer.run()
        loop.until(lambda: not reclaimer.is_busy)
        assert len(compactor.compacted) > count
        now[0] += 1000.0
    assert compactor.compacted == compactor.reclaimed_ranges
    assert _pending(reclaimer) == 0
    reclaimer.stop(lambda: None)


def test_what_is_deleted_during_a_round_is_left_for_the_next(loop: Loop) -> None:
    """A stream that is trimmed all the time: the round settles what it compacted, no more."""
    release = threading.Event()

    class Slow(Compactor):
        def compact(self, start: bytes, end: bytes) -> None:
            release.wait(DEADLINE_S)
            super().compact(start, end)

    def on_loop(done: Callable[[], None]) -> None:
        loop.loop.call_soon_threadsafe(done)

    compactor = Slow()
    reclaimer = Reclaimer(compactor, on_loop, lambda: 0.0)
    reclaimer.note([(key(0), key(50), 50 * MIB)])
    reclaimer.flush_begins()()
    reclaimer.run()
    reclaimer.note([(key(50), key(51), MIB)])
    reclaimer.flush_begins()()
    release.set()
    loop.until(lambda: not reclaimer.is_busy)
    assert compactor.reclaimed_ranges == [(key(0), key(50))]
    assert _pending(reclaimer) == 1
    reclaimer.run()
    loop.until(lambda: not reclaimer.is_busy)
    assert len(compactor.compacted) == 1, "the rest is not worth it"
    reclaimer.stop(lambda: None)
