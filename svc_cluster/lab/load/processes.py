"""What processes on this machine use while they are measured, and what the disk gives."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.lab.load.figures import Figures
from svc_cluster.lab.proc_stat import cpu_seconds

_SAMPLE_S: Final = 0.2


def disk_reference(directory: Path, clock: Clock, seconds: float = 1.0) -> dict[str, float]:
    """Measure what the disk gives one writer, with 4 KiB writes, each synced, into a file written
    before."""
    path = directory / "reference"
    path.write_bytes(bytes(4 << 20))
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
        taken: list[float] = []
        end = clock.monotonic() + seconds
        while (begun := clock.monotonic()) < end:
            os.pwrite(handle, bytes(4096), 4096 * (len(taken) % 1024))
            os.fdatasync(handle)
            taken.append(clock.monotonic() - begun)
    finally:
        os.close(handle)
        path.unlink()
    taken.sort()
    return {
        "syncs_per_s": round(len(taken) / sum(taken), 1),
        "p50_ms": round(taken[len(taken) // 2] * 1000, 3),
        "p99_ms": round(taken[len(taken) * 99 // 100] * 1000, 3),
    }


def device_bytes(directory: Path) -> int | None:
    """What the disk under a directory has written since the machine began; None where the kernel
    counts it for none."""
    device = directory.stat().st_dev
    wanted = [str(os.major(device)), str(os.minor(device))]
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if fields[:2] == wanted:
            return int(fields[9]) * 512
    return None


def resident_bytes(pid: int) -> int:
    """Resident memory of a process; 0 for one that is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class ProcessWatch:
    """The processes of a service: processor time, bytes to the disk and the largest memory of any
    of them, over a span. `directory` is where they keep their data; None: unknown."""

    def __init__(self, pids: Sequence[int], directory: Path | None, clock: Clock) -> None:
        self._pids = pids
        self._directory = directory
        self._clock = clock

    def _cpu_s(self) -> float:
        return sum(cpu_seconds(pid) for pid in self._pids)

    def _written(self) -> int | None:
        return None if self._directory is None else device_bytes(self._directory)

    async def over(self, begin: float, end: float) -> Figures:
        """Look on from `begin` to `end`; empty where no process is known."""
        if not self._pids:
            return {}
        await asyncio.sleep(max(0.0, begin - self._clock.monotonic()))
        cpu, written, largest = self._cpu_s(), self._written(), 0
        while (left := end - self._clock.monotonic()) > 0:
            largest = max(largest, *(resident_bytes(pid) for pid in self._pids))
            await asyncio.sleep(min(left, _SAMPLE_S))
        used = {"cpu_s": self._cpu_s() - cpu, "rss_mib_max": round(largest / 2**20, 1)}
        after = self._written()
        if written is not None and after is not None:
            used["device_bytes"] = after - written
        return used
