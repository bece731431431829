"""Bake-off of the state store: RocksDB, LMDB behind a tail in memory, own payload segments.

    python -m tests.benchmarks.state_store_bakeoff [--directory DIR] [--processes 3]

Each engine runs in its own processes, several on one disk at the same time, behind the StateStore
protocol. The decision drawn from it is docs/adr/0002-state-store.md.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import lmdb

from svc_cluster.base.write_set import WriteSet
from svc_cluster.storage import rocks_store
from svc_cluster.storage.rocks_store import RocksStore
from svc_cluster.storage.state_store import StoreStalledError

SIZES = {"1 KiB": (1024, 10_000), "64 KiB": (65_536, 1_000), "1 MiB": (1 << 20, 128)}
FLUSH_BYTES = 32 << 20
RANDOM_READS = 300


class LmdbStore:
    """Few synced commits, in a thread, behind a tail in memory that reads look into first."""

    def __init__(self, directory: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._env = lmdb.open(str(directory), map_size=8 << 30, readahead=False, max_readers=64)
        self._tail: dict[bytes, bytes | None] = {}
        self._sets: list[WriteSet] = []
        self._lock = threading.Lock()

    def get(self, key: bytes) -> bytes | None:
        if key in self._tail:
            return self._tail[key]
        with self._env.begin() as txn:
            value = txn.get(key)
        return None if value is None else bytes(value)

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        tail = sorted(k for k in self._tail if start <= k < end)
        if tail or reverse:
            merged = dict(self._stored(start, end)) | {k: self._tail[k] for k in tail}
            for key in sorted(merged, reverse=reverse):
                value = merged[key]
                if value is not None:
                    yield key, value
        else:
            yield from self._stored(start, end)

    def _stored(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        with self._env.begin() as txn, txn.cursor() as cursor:
            if cursor.set_range(start):
                for key, value in cursor:
                    if key >= end:
                        return
                    yield bytes(key), bytes(value)

    def write(self, write_set: WriteSet) -> None:
        for key, value, end in write_set.ops:
            if end is None:
                self._tail[key] = value
            else:
                for doomed, _ in list(self.scan(key, end)):
                    self._tail[doomed] = None
        self._sets.append(write_set)

    def snapshot(self) -> Any:
        raise NotImplementedError("not needed here")

    def reclaim(self) -> None:
        return

    def flush(self, done: Callable[[], None]) -> None:
        sets, self._sets = self._sets, []
        keys = dict(self._tail)

        def job() -> None:
            with self._lock, self._env.begin(write=True) as txn:
                for key, value in keys.items():
                    if value is None:
                        txn.delete(key)
                    else:
                        txn.put(key, value)
            self._loop.call_soon_threadsafe(finished)

        def finished() -> None:
            for key, value in keys.items():
                if self._tail.get(key, b"") is value:
                    del self._tail[key]
            done()

        del sets
        threading.Thread(target=job).start()

    def close(self) -> None:
        self._env.close()


class SegmentsStore:
    """Payloads in append-only files, pointers in RocksDB; a file goes when nothing points there."""

    FILE_BYTES = 32 << 20

    def __init__(self, directory: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._directory = directory
        self._index = RocksStore(directory / "index", loop)
        self._live: dict[int, int] = {}
        self._handles: dict[int, int] = {}
        self._dirty: set[int] = set()
        for name in directory.glob("*.payload"):
            self._handles[int(name.stem)] = os.open(name, os.O_RDWR)
        for _, pointer in self._index.scan(b"", b"\xff"):
            if len(pointer) == 12:
                number = int.from_bytes(pointer[:4], "big")
                size = int.from_bytes(pointer[8:], "big")
                self._live[number] = self._live.get(number, 0) + size
        self._number = max(self._handles, default=0)
        self._end = self.FILE_BYTES

    def get(self, key: bytes) -> bytes | None:
        pointer = self._index.get(key)
        return None if pointer is None else self._load(pointer)

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        for key, pointer in self._index.scan(start, end, reverse=reverse):
            yield key, self._load(pointer)

    def write(self, write_set: WriteSet) -> None:
        pointers = WriteSet()
        for key, value, end in write_set.ops:
            if value is not None:
                pointers.put(key, self._store(value))
                continue
            for _, pointer in self._index.scan(key, end or key + b"\0"):
                self._live[int.from_bytes(pointer[:4], "big")] -= int.from_bytes(pointer[8:], "big")
            pointers.ops.append((key, None, end))
        self._index.write(pointers)

    def snapshot(self) -> Any:
        raise NotImplementedError("not needed here")

    def reclaim(self) -> None:
        return

    def flush(self, done: Callable[[], None]) -> None:
        dirty, self._dirty = self._dirty, set()
        dead = [n for n, size in self._live.items() if size == 0 and n != self._number]

        def indexed() -> None:
            for number in dead:
                os.close(self._handles.pop(number))
                os.unlink(self._directory / f"{number}.payload")
                del self._live[number]
            done()

        def job() -> None:
            for number in dirty:
                os.fdatasync(self._handles[number])
            self._loop.call_soon_threadsafe(self._index.flush, indexed)

        threading.Thread(target=job).start()

    def close(self) -> None:
        self._index.close()
        for handle in self._handles.values():
            os.close(handle)

    def _store(self, value: bytes) -> bytes:
        if self._end + len(value) > self.FILE_BYTES:
            self._number, self._end = self._number + 1, 0
            name = self._directory / f"{self._number}.payload"
            self._handles[self._number] = os.open(name, os.O_RDWR | os.O_CREAT)
        os.pwrite(self._handles[self._number], value, self._end)
        place = b"".join(n.to_bytes(4, "big") for n in (self._number, self._end, len(value)))
        self._end += len(value)
        self._live[self._number] = self._live.get(self._number, 0) + len(value)
        self._dirty.add(self._number)
        return place

    def _load(self, pointer: bytes) -> bytes:
        number, offset, size = (int.from_bytes(pointer[i : i + 4], "big") for i in (0, 4, 8))
        return os.pread(self._handles[number], size, offset)


class Engine(Protocol):
    """What the measurements need of a StateStore."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]: ...

    def write(self, write_set: WriteSet) -> None: ...

    def flush(self, done: Callable[[], None]) -> None: ...

    def reclaim(self) -> None: ...

    def close(self) -> None: ...


ENGINES: dict[str, Callable[[Path, asyncio.AbstractEventLoop], Engine]] = {
    "rocksdb": RocksStore,
    "lmdb": LmdbStore,
    "segments": SegmentsStore,
}


def lines_of(engine: str) -> int:
    """Lines of own code."""
    rocks = len(inspect.getsource(rocks_store).splitlines())
    own = {"rocksdb": None, "lmdb": LmdbStore, "segments": SegmentsStore}[engine]
    extra = 0 if own is None else len(inspect.getsource(own).splitlines())
    return extra + (0 if engine == "lmdb" else rocks)


def written_bytes() -> int:
    text = Path("/proc/self/io").read_text()
    return int(text.split("\nwrite_bytes: ")[1].split()[0])


def disk_bytes(directory: Path) -> int:
    return sum(p.stat().st_blocks * 512 for p in directory.rglob("*") if p.is_file())


def drop_caches(directory: Path) -> None:
    for path in directory.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.fdatasync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


async def flush(store: Engine) -> None:
    done = asyncio.get_running_loop().create_future()
    store.flush(lambda: done.set_result(None))
    await done


class StallMeter:
    """The longest time for which the event loop did not come round."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            self.longest = max(self.longest, now - last)
            last = now

    def stop(self) -> float:
        self._task.cancel()
        return self.longest * 1000


async def put_all(
    store: Engine, prefix: bytes, size: int, count: int, facts: dict[str, float]
) -> None:
    """Write `count` values of `size` bytes; the applied index and a flush now and then."""
    payloads = [os.urandom(size) for _ in range(8)]
    flushing: asyncio.Task[None] | None = None
    unflushed = 0
    for number in range(count):
        write_set = WriteSet()
        write_set.put(prefix + number.to_bytes(8, "big"), payloads[number % 8])
        write_set.put(b"applied", number.to_bytes(12, "big"))
        while True:
            try:
                store.write(write_set)
                break
            except StoreStalledError:
                facts["stalls"] = facts.get("stalls", 0) + 1
                await asyncio.sleep(0.002)
        unflushed += size
        if unflushed >= FLUSH_BYTES and (flushing is None or flushing.done()):
            unflushed = 0
            flushing = asyncio.get_running_loop().create_task(flush(store))
        await asyncio.sleep(0)
    if flushing is not None:
        await flushing
    await flush(store)


async def run_engine(engine: str, directory: Path) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    facts: dict[str, float] = {"stalls": 0}
    store = ENGINES[engine](directory, loop)
    before, total = written_bytes(), 0
    meter = StallMeter()
    for label, (size, count) in SIZES.items():
        started = time.perf_counter()
        await put_all(store, label.encode(), size, count, facts)
        facts[f"put {label} MiB/s"] = size * count / 2**20 / (time.perf_counter() - started)
        total += size * count
    facts["longest stall ms"] = meter.stop()
    store.close()
    os.sync()
    facts["write amplification"] = (written_bytes() - before) / total

    drop_caches(directory)
    started = time.perf_counter()
    store = ENGINES[engine](directory, loop)
    assert store.get(b"applied") is not None
    facts["restart ms"] = (time.perf_counter() - started) * 1000
    size, count = SIZES["64 KiB"]
    started = time.perf_counter()
    read = sum(len(value) for _, value in store.scan(b"64 KiB", b"64 KiC"))
    assert read == size * count
    facts["cold scan MiB/s"] = read / 2**20 / (time.perf_counter() - started)
    drop_caches(directory)
    rng = random.Random(1)
    times = []
    for _ in range(RANDOM_READS):
        key = b"1 KiB" + rng.randrange(SIZES["1 KiB"][1]).to_bytes(8, "big")
        started = time.perf_counter()
        assert store.get(key) is not None
        times.append(time.perf_counter() - started)
    facts["cold get p50 us"] = statistics.median(times) * 1e6
    facts["cold get p99 us"] = sorted(times)[int(len(times) * 0.99)] * 1e6

    full = disk_bytes(directory)
    meter = StallMeter()
    started = time.perf_counter()
    for label, (_, count) in SIZES.items():
        write_set = WriteSet()
        end = (count * 9 // 10).to_bytes(8, "big")
        write_set.delete_range(label.encode(), label.encode() + end)
        store.write(write_set)
    await asyncio.sleep(0)
    facts["trim ms"] = (time.perf_counter() - started) * 1000
    await flush(store)
    await asyncio.sleep(3)
    await flush(store)
    facts["trim stall ms"] = meter.stop()
    facts["space left after trim %"] = 100 * disk_bytes(directory) / full
    store.close()
    return facts


def run_processes(engine: str, base: Path, processes: int) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.state_store_bakeoff", "--engine", engine]
    children = []
    for number in range(processes):
        directory = base / f"{engine}-{number}"
        directory.mkdir()
        child = [*command, "--directory", str(directory)]
        children.append(subprocess.Popen(child, stdout=subprocess.PIPE, text=True))
    results = []
    for running in children:
        out, _ = running.communicate(timeout=120)
        if running.returncode != 0:
            raise SystemExit(f"{engine} failed with {running.returncode}")
        results.append(json.loads(out))
    worst = {"longest stall ms", "trim stall ms", "cold get p99 us", "stalls"}
    return {
        name: max(r[name] for r in results)
        if name in worst
        else statistics.median(r[name] for r in results)
        for name in results[0]
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=ENGINES)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--reverse", action="store_true", help="the engines in the other order")
    given = parser.parse_args()
    if given.engine is not None:
        sys.setswitchinterval(0.0001)  # as the service does, so that threads are not starved
        print(json.dumps(asyncio.run(run_engine(given.engine, given.directory))))
        return
    order = sorted(ENGINES, reverse=given.reverse)
    base = Path(tempfile.mkdtemp(prefix="bakeoff-", dir=given.directory))
    try:
        table = {engine: run_processes(engine, base, given.processes) for engine in order}
    finally:
        shutil.rmtree(base)
    for engine, facts in table.items():
        facts["lines of own code"] = lines_of(engine)
    print(f"{'':28}" + "".join(f"{engine:>12}" for engine in ENGINES))
    for name in table["rocksdb"]:
        print(f"{name:28}" + "".join(f"{table[engine][name]:12.1f}" for engine in ENGINES))


if __name__ == "__main__":
    main()
