"""Ways to damage the files of a node that is down, as disks do and as editors of disks do."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from svc_cluster.storage.payload.payload_frame import BLOCK_BYTES, file_number
from svc_cluster.storage.wal import reach
from svc_cluster.storage.wal.segment import DATA_START, segment_number
from svc_cluster.storage.wal.wal_frame import ALIGNMENT, BATCH, MAGIC

PAGE = 4096
SECTOR = 512
TAIL_BYTES = 64 * 1024
KIND_AT = 8
"""Where a frame says of which kind it is."""


@dataclass(frozen=True, slots=True)
class Region:
    """The written bytes `[start, end)` of one log file; `end` is where its last frame begins.

    The newest log ends with a mark, which says that everything before it was synced. So damage
    before it is corruption; damage from it on looks like the torn tail of a crash.
    """

    path: Path
    start: int
    end: int


def regions(wal: Path) -> list[Region]:
    """Where frames stand, by file."""
    found = []
    for path in sorted(wal.iterdir()):
        if segment_number(path.name) is None:
            continue
        data = path.read_bytes()
        last = data.rfind(MAGIC)
        if last > DATA_START:
            found.append(Region(path, DATA_START, last))
    return found


def _somewhere(node: Path, rng: random.Random) -> Region:
    """Mostly the log file that was written last: in others few bytes are needed any more."""
    found = regions(node / "wal")
    return _newest(found) if rng.random() < 0.8 else rng.choice(found)


def _newest(found: list[Region]) -> Region:
    return max(found, key=lambda region: region.path.stat().st_mtime_ns)


def _frames(region: Region) -> list[int]:
    data = region.path.read_bytes()[: region.end + 1]
    places, place = [], data.find(MAGIC, region.start)
    while place >= 0:
        if place % ALIGNMENT == 0:
            places.append(place)
        place = data.find(MAGIC, place + 1)
    return [*places, region.end] if not places or places[-1] != region.end else places


def _edit(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def _flip(path: Path, offset: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        value = file.read(1)[0] ^ (1 << bit)
        file.seek(offset)
        file.write(bytes([value]))


# Each takes the node's directory and says what it did.


def wal_flip(node: Path, rng: random.Random) -> str:
    region = _somewhere(node, rng)
    offset = rng.randrange(region.start, region.end)
    _flip(region.path, offset, rng.randrange(8))
    return f"flip {region.path.name} {offset}"


def wal_zero_page(node: Path, rng: random.Random) -> str:
    region = _somewhere(node, rng)
    offset = rng.randrange(region.start, region.end) // PAGE * PAGE
    offset = max(offset, region.start)
    size = min(PAGE, region.end - offset)
    _edit(region.path, offset, bytes(size))
    return f"zeros {region.path.name} {offset} +{size}"


def wal_garbage(node: Path, rng: random.Random) -> str:
    region = _somewhere(node, rng)
    offset = max(rng.randrange(region.start, region.end) // SECTOR * SECTOR, region.start)
    size = min(SECTOR * rng.randint(1, 8), region.end - offset)
    _edit(region.path, offset, rng.randbytes(size))
    return f"garbage {region.path.name} {offset} +{size}"


def wal_swap(node: Path, rng: random.Random) -> str:
    """Two whole frames of one length change places."""
    region = _somewhere(node, rng)
    places = _frames(region)
    by_size: dict[int, list[int]] = {}
    for place, following in itertools.pairwise(places):
        by_size.setdefault(following - place, []).append(place)
    several = [(size, found) for size, found in sorted(by_size.items()) if len(found) > 1]
    if not several:
        return wal_misdirect(node, rng)
    size, found = rng.choice(several)
    one, other = rng.sample(found, 2)
    data = region.path.read_bytes()
    _edit(region.path, one, data[other : other + size])
    _edit(region.path, other, data[one : one + size])
    return f"swap {region.path.name} {one} {other} +{size}"


def wal_misdirect(node: Path, rng: random.Random) -> str:
    """A page of the log stands in another place as well, over what was there."""
    region = _somewhere(node, rng)
    size = min(PAGE, (region.end - region.start) // 2)
    source = rng.randrange(region.start, region.end - size)
    target = rng.randrange(region.start, region.end - size)
    _edit(region.path, target, region.path.read_bytes()[source : source + size])
    return f"misdirected {region.path.name} {source} to {target} +{size}"


def wal_header(node: Path, rng: random.Random) -> str:
    region = _somewhere(node, rng)
    offset = rng.randrange(DATA_START)
    _flip(region.path, offset, rng.randrange(8))
    return f"flip in header {region.path.name} {offset}"


def wal_gone(node: Path, rng: random.Random) -> str:
    """A file of the log is not there any more."""
    path = _segment(node, rng)
    path.unlink()
    return f"gone {path.name}"


def wal_cut(node: Path, rng: random.Random) -> str:
    """A file of the log is shorter than it was made."""
    path = _segment(node, rng)
    size = rng.randrange(path.stat().st_size)
    with path.open("r+b") as file:
        file.truncate(size)
    return f"cut {path.name} to {size}"


def wal_swap_segments(node: Path, rng: random.Random) -> str:
    """Two files of the log have each other's frames, or one stands in place of both."""
    found = [region.path for region in regions(node / "wal")]
    if len(found) < 2:
        return wal_gone(node, rng)
    one, other = rng.sample(found, 2)
    data, others = one.read_bytes(), other.read_bytes()
    if rng.random() < 0.5:
        other.write_bytes(data)
        return f"{one.name} also over {other.name}"
    one.write_bytes(data[:DATA_START] + others[DATA_START:])
    other.write_bytes(others[:DATA_START] + data[DATA_START:])
    return f"frames of {one.name} and {other.name} swapped"


def wal_emptied_end(node: Path, rng: random.Random) -> str:
    """The last frames of the log, its closing mark included, are zeros: not torn, as all of them
    had been synced long before."""
    return _tear(node, rng.randint(1, TAIL_BYTES), "zeros", rng)


def newest_log_file(node: Path) -> Path:
    return _newest(regions(node / "wal")).path


def batches_emptied(before: bytes, after: bytes) -> int:
    """How many batches of a log file's end lost something, the one that the damage begins in among
    them: by the headers behind where the two contents part."""
    parted = next((at for at, (x, y) in enumerate(zip(before, after, strict=True)) if x != y), None)
    if parted is None:
        return 0
    count, place = 1, before.find(MAGIC, parted)
    while place >= 0:
        count += place % ALIGNMENT == 0 and before[place + KIND_AT] == BATCH
        place = before.find(MAGIC, place + 1)
    return count


def _segment(node: Path, rng: random.Random) -> Path:
    """Of the log, mostly the newest one; free files hold nothing that could be missed."""
    return _somewhere(node, rng).path


def state_flip(node: Path, rng: random.Random) -> str:
    path = rng.choice(_state_files(node))
    offset = rng.randrange(path.stat().st_size)
    _flip(path, offset, rng.randrange(8))
    return f"flip state/{path.name} {offset}"


def state_zero_page(node: Path, rng: random.Random) -> str:
    path = rng.choice(_state_files(node))
    size = path.stat().st_size
    offset = rng.randrange(size) // PAGE * PAGE
    _edit(path, offset, bytes(min(PAGE, size - offset)))
    return f"zeros state/{path.name} {offset}"


def state_cut(node: Path, rng: random.Random) -> str:
    path = rng.choice(_state_files(node))
    size = rng.randrange(path.stat().st_size)
    with path.open("r+b") as file:
        file.truncate(size)
    return f"cut state/{path.name} to {size}"


def state_missing(node: Path, rng: random.Random) -> str:
    path = rng.choice(_state_files(node))
    path.unlink()
    return f"missing state/{path.name}"


def _state_files(node: Path) -> list[Path]:
    """Tables, the manifest and the pointer to it: everything the store's content hangs on."""
    return [
        path
        for path in sorted((node / "state").iterdir())
        if path.stat().st_size
        and (path.suffix == ".sst" or path.name.startswith(("MANIFEST", "CURRENT")))
    ]


def payload_flip(node: Path, rng: random.Random) -> str:
    path, end = _payload_file(node, rng)
    offset = rng.randrange(BLOCK_BYTES, end)
    _flip(path, offset, rng.randrange(8))
    return f"flip {path.name} {offset}"


def payload_zero_page(node: Path, rng: random.Random) -> str:
    path, end = _payload_file(node, rng)
    offset = rng.randrange(BLOCK_BYTES, end) // PAGE * PAGE
    _edit(path, offset, bytes(PAGE))
    return f"zeros {path.name} {offset}"


def payload_gone(node: Path, rng: random.Random) -> str:
    path, _ = _payload_file(node, rng)
    path.unlink()
    return f"gone {path.name}"


def _payload_file(node: Path, rng: random.Random) -> tuple[Path, int]:
    """One that something was written into, and where that ends."""
    names = sorted(path for path in (node / "wal").iterdir() if file_number(path.name) is not None)
    found = [(path, len(path.read_bytes().rstrip(b"\0"))) for path in names]
    return rng.choice([(path, end) for path, end in found if end > BLOCK_BYTES])


def torn_tail(node: Path, distance: int, fill: str, rng: random.Random) -> str:
    """What was written last does not arrive: from `distance` bytes before the end of the log on,
    there is what `fill` says. As that was never synced, nothing has noted that it was."""
    path = node / "wal" / reach.NAME
    data = path.read_bytes()
    tag = int.from_bytes(data[16:24], "little")
    said = [found for slot in (0, 1) if (found := reach.decode(data[slot * 4096 :], tag))]
    newest = max(said, key=lambda found: found.serial)
    assert newest.reach is not None
    slot = reach.encode(newest.reach._replace(end=(0, 0)), newest.serial, tag)
    path.write_bytes(slot.ljust(reach.SLOT_BYTES, b"\0") * 2)
    return _tear(node, distance, fill, rng)


def _tear(node: Path, distance: int, fill: str, rng: random.Random) -> str:
    region = _newest(regions(node / "wal"))
    end = len(region.path.read_bytes().rstrip(b"\0"))
    offset = max(region.start, end - distance)
    size = end - offset
    _edit(region.path, offset, rng.randbytes(size) if fill == "garbage" else bytes(size))
    return f"torn {region.path.name} at {offset} {fill}"


WAL: dict[str, Callable[[Path, random.Random], str]] = {
    "flip": wal_flip,
    "zero page": wal_zero_page,
    "garbage": wal_garbage,
    "swap": wal_swap,
    "misdirect": wal_misdirect,
    "header": wal_header,
    "segment gone": wal_gone,
    "segment cut": wal_cut,
    "segments swapped": wal_swap_segments,
    "emptied end": wal_emptied_end,
}
STATE: dict[str, Callable[[Path, random.Random], str]] = {
    "state flip": state_flip,
    "state zero page": state_zero_page,
    "state cut": state_cut,
    "state missing": state_missing,
}
PAYLOAD: dict[str, Callable[[Path, random.Random], str]] = {
    "payload flip": payload_flip,
    "payload zero page": payload_zero_page,
    "payload gone": payload_gone,
}
ALL = {**WAL, **STATE, **PAYLOAD}
