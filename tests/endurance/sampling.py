"""What the processes of a local cluster hold, from /proc, and whether it grows."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.e2e.space import disk_bytes

MIB: Final = 2**20
GROWTH_MAX: Final = 0.15
"""Of the medians of the last third against the first: more than this, and more than what is below,
is growth."""
SPARE: Final = {"rss_mib": 24.0, "descriptors": 24.0, "threads": 6.0, "disk_mib": 64.0}


@dataclass(frozen=True, slots=True)
class Sample:
    """Of one process; of the disk there is only what its directory holds."""

    rss_mib: float
    descriptors: float
    threads: float
    disk_mib: float


def sample(pid: int, directory: Path | None) -> Sample | None:
    """None of a process that is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    if "VmRSS" not in fields:
        return None
    rss_mib = int(fields["VmRSS"].split()[0]) / 1024
    disk_mib = 0.0 if directory is None else disk_bytes(directory) / MIB
    return Sample(rss_mib, descriptors, int(fields["Threads"]), disk_mib)


def growth(values: Sequence[float], spare: float, allowed: float = 0.0) -> str:
    """Empty where the last third is like the first; else from what to what it grew. `allowed`: what
    it may be more for reasons of its own."""
    third = len(values) // 3
    if third == 0:
        return ""
    first, last = statistics.median(values[:third]), statistics.median(values[-third:])
    more = last - first - allowed
    return f"{first:.0f} to {last:.0f}" if more > spare and more > first * GROWTH_MAX else ""
