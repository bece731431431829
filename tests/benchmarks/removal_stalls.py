"""What a neighbour's sync waits for while a state store drops tables: `python -m
tests.benchmarks.removal_stalls --directory DIR`, some 50 s.

A store takes values at a steady rate through its flushes and a compaction of everything, once with
its tables removed at once and once in steps. Beside it a thread writes 4 KiB and syncs, again and
again. Printed are the worst sync and the longest hole between two of them, in milliseconds, and how
often the one is of the other.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from svc_cluster.base.write_set import WriteSet
from svc_cluster.storage.aside import folder_of
from svc_cluster.storage.rocks_store import RocksStore
from svc_cluster.storage.state_store import StoreStalledError

MIB: Final = 1024 * 1024
VALUE_BYTES: Final = 64 * 1024
FLUSHES: Final = 3
LIMIT_S: Final = 40.0
"""A part that takes longer is given up."""


@dataclass(slots=True)
class Seen:
    syncs: int = 0
    worst_s: float = 0.0
    hole_s: float = 0.0


class Neighbour:
    """Writes and syncs a small file until it is told to stop."""

    def __init__(self, path: Path) -> None:
        self.seen = Seen()
        self._path = path
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> Seen:
        self._stopping.set()
        self._thread.join()
        return self.seen

    def _run(self) -> None:
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(handle, bytes(MIB), 0)
        os.fsync(handle)
        last = time.perf_counter()
        while not self._stopping.wait(0.001):
            begun = time.perf_counter()
            os.pwrite(handle, os.urandom(4096), self.seen.syncs % 256 * 4096)
            os.fdatasync(handle)
            now = time.perf_counter()
            self.seen.syncs += 1
            self.seen.worst_s = max(self.seen.worst_s, now - begun)
            self.seen.hole_s = max(self.seen.hole_s, now - last)
            last = now
        os.close(handle)


async def part(directory: Path, rate_mib: int, *, in_steps: bool) -> Seen:
    """One run. Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    directory.mkdir()
    store = RocksStore(directory / "state", loop)
    if not in_steps:
        store._aside.stop()
        assert not any(folder_of(directory / "state").iterdir())
    neighbour = Neighbour(directory / "log")
    try:
        async with asyncio.timeout(LIMIT_S):
            await _fill(store, rate_mib)
            await asyncio.to_thread(store.compact, b"", b"\xff")
            while in_steps and _left(directory / "state"):
                await asyncio.sleep(0.1)
            await asyncio.sleep(1.0)
    finally:
        seen = neighbour.stop()
        store.close()
    return seen


async def _fill(store: RocksStore, rate_mib: int) -> None:
    begun, written = time.perf_counter(), 0
    value = os.urandom(VALUE_BYTES)
    for turn in range(FLUSHES):
        while written < (turn + 1) * 80 * MIB:
            write_set = WriteSet()
            # the same keys in each turn, so that a compaction drops what came before
            write_set.put(b"%012d" % (written % (80 * MIB)), value)
            try:
                store.write(write_set)
            except StoreStalledError:
                await asyncio.sleep(0.01)
                continue
            written += VALUE_BYTES
            ahead = written / (rate_mib * MIB) - (time.perf_counter() - begun)
            if ahead > 0:
                await asyncio.sleep(ahead)
        flushed = asyncio.Event()
        store.flush(flushed.set)
        await flushed.wait()


def _left(store: Path) -> bool:
    return any(path.stat().st_nlink == 1 for path in folder_of(store).iterdir())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.removal_stalls")
    parser.add_argument("--directory", type=Path, help="on the file system that is measured")
    parser.add_argument("--rate", type=int, default=45, help="MiB/s")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        found = [
            asyncio.run(part(Path(name) / str(in_steps), options.rate, in_steps=in_steps))
            for in_steps in (False, True)
        ]
    print(f"{'':10} {'syncs':>8} {'worst ms':>10} {'hole ms':>10}")
    for label, seen in zip(("at once", "in steps"), found, strict=True):
        worst, hole = seen.worst_s * 1e3, seen.hole_s * 1e3
        print(f"{label:10} {seen.syncs:8} {worst:10.1f} {hole:10.1f}")
    before, after = found
    worst, hole = before.worst_s / after.worst_s, before.hole_s / after.hole_s
    print(f"{'ratio':10} {'':8} {worst:10.1f} {hole:10.1f}")


if __name__ == "__main__":
    main()
