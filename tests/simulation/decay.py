"""What happens to a log at rest: bits change, and a write is found where it does not belong."""

from __future__ import annotations

import random

from svc_cluster.storage.wal.segment import DATA_START, segment_number
from tests.simulation.disk import SECTOR, SimDisk


def decay(disk: SimDisk, rng: random.Random) -> str:
    """Damage one segment of a disk that nobody uses; says what was done. Within what was written:
    bytes that were never written say nothing to anybody."""
    segments = [name for name in disk.files if segment_number(name) is not None]
    ends = {name: len(disk.files[name].durable.rstrip(b"\0")) for name in segments}
    written = {name: end for name, end in ends.items() if end > DATA_START}
    if not written:
        return "nothing was written"
    name = rng.choice(sorted(written))
    end = written[name]
    if rng.random() < 0.6:
        offset, bit = rng.randrange(DATA_START, end), rng.randrange(8)
        disk.flip(name, offset, bit)
        return f"{name}: bit {bit} of byte {offset}"
    size = rng.choice((SECTOR, 4_096))
    length = len(disk.files[name].durable)
    places = range(DATA_START // SECTOR, (length - size) // SECTOR)
    source, target = rng.choice(places) * SECTOR, rng.randrange(DATA_START, end) // SECTOR * SECTOR
    size = min(size, length - target)
    disk.misdirect(name, source, size, target)
    return f"{name}: {size} bytes of {source} are at {target}"
