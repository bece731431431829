"""How many bytes a node's disk writes for each byte that is appended, and how long appends take:
`python -m tests.benchmarks.write_amplification --directory DIR`, some two minutes.

Processes, one for each replica of a machine, take batches of random bytes at a steady rate, each
through a log and a state store of the product, without Raft and network. What was kept for long is
deleted. First without payload files and then with them, as often as `--rounds` says. The bytes are
those of the disk's own counter (/proc/diskstats), so nothing else should write to it; beside them
stands what the kernel has counted for the processes, which is exact on no file system and shows how
far others were at it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from svc_cluster.base.ids import Generation, GroupId, LogIndex, Term
from svc_cluster.base.log_ops import AppendEntries, CreateReplica, LogEntry, TrimPrefix
from svc_cluster.base.write_set import Origin, WriteSet
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.payload.payload_settings import PayloadSettings
from svc_cluster.storage.payload.payload_store import PayloadStore
from svc_cluster.storage.rocks_store import RocksStore
from svc_cluster.storage.state_store import StoreStalledError
from svc_cluster.storage.wal import Wal, WalSettings

MIB: Final = 1024 * 1024
GROUP: Final = GroupId(1)
TERM: Final = Term(1)
HEAD: Final = bytes(56)
FLUSH_S: Final = 5.0
SETTLE_S: Final = 5.0
"""For compactions and removals behind the last append; they belong to the bytes."""
STALL_S: Final = 0.01


class Replica:
    """One process: a log, a store, and appends at a steady rate."""

    def __init__(self, directory: Path, order: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        self._order = order
        self._disk = RealDisk(directory / "wal", loop)
        payload = PayloadSettings(writes=order["payload"])
        self._wal = Wal.open(self._disk, 1, WalSettings(payload=payload))
        inner = RocksStore(directory / "state", loop)
        self._store = PayloadStore(inner, self._wal.payloads, self._wal, loop)
        self._wal.append(GROUP, [CreateReplica(Generation(1))], None)
        self._to_apply: deque[tuple[LogIndex, bytes]] = deque()
        self._applied = 0
        self._deleted = 0
        self._is_stalled = False
        self.latencies_s: list[float] = []

    async def run(self) -> None:
        order = self._order
        size, kept = order["batch_bytes"], order["keep_bytes"] // order["batch_bytes"]
        pause = size / order["bytes_per_s"]
        begun = last_flush = time.perf_counter()
        for index in range(1, int(order["seconds"] / pause) + 1):
            due = begun + index * pause
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self._append(LogIndex(index), os.urandom(size), due)
            if self._applied - self._deleted > kept + 64:
                self._delete(self._applied - kept)
            if time.perf_counter() - last_flush >= FLUSH_S:
                last_flush = time.perf_counter()
                self._flush()
        while self._to_apply or len(self.latencies_s) < index:
            await asyncio.sleep(STALL_S)
        self._flush()
        await asyncio.sleep(SETTLE_S)

    async def close(self) -> None:
        await self._wal.close()
        self._store.close()
        self._disk.close()

    def _append(self, index: LogIndex, payload: bytes, due: float) -> None:
        def done() -> None:
            self.latencies_s.append(time.perf_counter() - due)
            self._to_apply.append((index, payload))
            self._apply()

        self._wal.append(GROUP, [AppendEntries((LogEntry(index, TERM, payload),))], done)

    def _apply(self) -> None:
        while self._to_apply and not self._is_stalled:
            index, payload = self._to_apply[0]
            write_set = WriteSet()
            write_set.put(_key(index), HEAD + payload, head_bytes=len(HEAD))
            place = self._wal.place_of(GROUP, index)
            if place is not None:
                write_set.origin = Origin(place.number, place.offset, payload)
            try:
                self._store.write(write_set)
            except StoreStalledError:
                self._is_stalled = True
                asyncio.get_running_loop().call_later(STALL_S, self._go_on)
                return
            self._to_apply.popleft()
            self._applied = index

    def _go_on(self) -> None:
        self._is_stalled = False
        self._apply()

    def _delete(self, up_to: int) -> None:
        write_set = WriteSet()
        size = (up_to - self._deleted) * self._order["batch_bytes"]
        write_set.delete_range(_key(0), _key(up_to + 1), frees=size)
        try:
            self._store.write(write_set)
        except StoreStalledError:
            return  # it comes again
        self._deleted = up_to

    def _flush(self) -> None:
        applied = LogIndex(self._applied)

        def done() -> None:
            self._wal.set_flushed(GROUP, applied)
            if applied:
                self._wal.append(GROUP, [TrimPrefix(applied, TERM)], None)
            self._wal.release()
            self._store.reclaim()
            self._wal.shrink()

        self._store.flush(done)


def _key(index: int) -> bytes:
    return b"\0" * 7 + b"\1" + index.to_bytes(8, "big")


async def worker(directory: Path, order: dict[str, Any]) -> None:
    """The whole life of one process; its figures go to the standard output."""
    replica = Replica(directory, order)
    await replica.run()
    latencies = sorted(replica.latencies_s)
    written = next(
        int(line.split()[1])
        for line in Path("/proc/self/io").read_text().splitlines()
        if line.startswith("write_bytes")
    )
    figures = {
        "appended": len(latencies) * order["batch_bytes"],
        "written": written,
        "p50_ms": 1000 * statistics.median(latencies),
        "p99_ms": 1000 * latencies[int(0.99 * len(latencies))],
        "longest_ms": 1000 * latencies[-1],
        "cpu_s": time.process_time(),
    }
    print(json.dumps(figures), flush=True)
    await replica.close()


def device_bytes(directory: Path) -> int | None:
    """What the disk under the directory has written; None where the kernel names none."""
    device = os.stat(directory).st_dev
    wanted = [str(os.major(device)), str(os.minor(device))]
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if fields[:2] == wanted:
            return int(fields[9]) * 512
    return None


def part(directory: Path, order: dict[str, Any], processes: int) -> str:
    """One run: a line of the table."""
    os.sync()
    before = device_bytes(directory)
    command = [sys.executable, "-m", "tests.benchmarks.write_amplification", "--worker"]
    running = []
    for number in range(processes):
        place = directory / f"{order['payload']}-{number}-{time.monotonic_ns()}"
        (place / "wal").mkdir(parents=True)
        text = [str(place), json.dumps(order)]
        running.append(subprocess.Popen([*command, *text], stdout=subprocess.PIPE))
    seen = [json.loads(one.communicate()[0].splitlines()[-1]) for one in running]
    if any(one.returncode for one in running):
        raise SystemExit("a process has failed")
    os.sync()
    after = device_bytes(directory)
    appended = sum(one["appended"] for one in seen)
    device = "-" if before is None or after is None else f"{(after - before) / appended:.2f}"
    return " | ".join(
        [
            f"| {'on' if order['payload'] else 'off':3}",
            f"{appended / MIB:8.0f}",
            f"{device:>6}",
            f"{sum(one['written'] for one in seen) / appended:9.2f}",
            f"{_mean(one['p50_ms'] for one in seen):6.2f}",
            f"{max(one['p99_ms'] for one in seen):7.1f}",
            f"{max(one['longest_ms'] for one in seen):7.1f}",
            f"{sum(one['cpu_s'] for one in seen) / appended * 100 * MIB:5.2f} |",
        ]
    )


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help="on the disk in question")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--mib-per-second", type=float, default=30.0, help="of each process")
    parser.add_argument("--batch-kib", type=int, default=100)
    parser.add_argument("--keep-mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    if given.worker is not None:
        asyncio.run(worker(Path(given.worker[0]), json.loads(given.worker[1])))
        return
    if given.directory is None:
        parser.error("--directory is needed")
    print(
        "| payload files | MiB | device | processes | p50 ms | p99 ms | longest | s CPU/100 MiB |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for _ in range(given.rounds):
        for payload in (False, True):
            order = {
                "payload": payload,
                "seconds": given.seconds,
                "bytes_per_s": given.mib_per_second * MIB,
                "batch_bytes": given.batch_kib * 1024,
                "keep_bytes": given.keep_mib * MIB,
            }
            with tempfile.TemporaryDirectory(dir=given.directory) as place:
                print(part(Path(place), order, given.processes), flush=True)


if __name__ == "__main__":
    main()
