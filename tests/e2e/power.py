"""Power cuts: builds the ledger shim, and takes back what no fsync covered.

`Ledger` gives the environment under which processes are started and, once they have all been
killed, `cut_power` turns their files into what a machine would find after losing power: bytes and
names that no successful sync covers go back to what they were, except for a random part of them
(whole 512-byte sectors, a prefix of a directory's changes), because a disk may have written those.
Must only be called while nothing that was started under the shim is alive.
"""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import struct
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

SECTOR: Final = 512
_HEADER: Final = struct.Struct("<IIQQQQQQQQIIIIQ")
_MAGIC: Final = 0x4C45444A
_WRITE, _RESIZE, _CREATE, _UNLINK, _RENAME, _LINK, _MKDIR, _RMDIR, _SYNC, _POISON, _FORGET = range(
    1, 12
)
_DATA_KINDS: Final = {_WRITE, _RESIZE}
_NAME_KINDS: Final = {_CREATE, _UNLINK, _RENAME, _LINK, _MKDIR, _RMDIR}


@dataclasses.dataclass(slots=True)
class Record:
    """One undo record, as ledger.c wrote it."""

    kind: int
    time_ns: int
    dev: int
    ino: int
    dir_ino: int
    offset: int
    length: int
    old_size: int
    upto: int
    paths: tuple[str, str, str]
    data: bytes


@dataclasses.dataclass(slots=True)
class CutReport:
    """What a power cut took: counts, and the names that went."""

    records: int = 0
    undone_writes: int = 0
    undone_bytes: int = 0
    kept_sectors: int = 0
    undone_names: list[str] = dataclasses.field(default_factory=list)
    kept_names: int = 0


def compiler() -> str | None:
    """The C compiler to build the shim with, or None."""
    return os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")


def build_shim(directory: Path) -> Path:
    """Compile ledger.c into `directory`. Raises CalledProcessError with the compiler's words."""
    library = directory / "ledger.so"
    source = Path(__file__).with_name("shim") / "ledger.c"
    command = [compiler() or "cc", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run([*command, "-o", str(library), str(source), "-lpthread"], check=True)
    return library


class Ledger:
    """One tree of files under the shim. `root` and `state` must be on one file system."""

    def __init__(self, library: Path, root: Path, state: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        state.mkdir(parents=True, exist_ok=True)
        self.library = library
        self.root = root.resolve()
        self.state = state.resolve()
        assert not self.state.is_relative_to(self.root), "the ledger lies inside its tree"

    def env(
        self, extra: dict[str, str] | None = None, *, ignore_sync: bool = False
    ) -> dict[str, str]:
        """The environment variables that put a process (and its children) under the shim."""
        values = {
            "LD_PRELOAD": str(self.library),
            "LEDGER_ROOT": str(self.root),
            "LEDGER_STATE": str(self.state),
        }
        if ignore_sync:
            values["LEDGER_IGNORE_SYNC"] = "1"
        return values | (extra or {})

    def fail_syncs(self, path_part: str | None) -> None:
        """From now on syncs of paths that contain `path_part` fail; None ends it."""
        control = self.state / "fail_sync"
        if path_part is None:
            control.unlink(missing_ok=True)
        else:
            temporary = self.state / "fail_sync.new"
            temporary.write_text(path_part + "\n")
            temporary.rename(control)

    def cut_power(
        self, rng: random.Random, *, torn: bool = True, spare: Iterable[Path] = ()
    ) -> CutReport:
        """Take back what was not durable and forget the ledger. With `torn` a random part of it
        stays on the disk; without, nothing of it does. Every choice comes from `rng`. Files of
        `spare` are left as they are (logs for people, which a failure needs)."""
        records = read_records(self.state)
        report = CutReport(records=len(records))
        spared = {str(path): path.stat().st_ino for path in spare}
        live = [
            r
            for r in _not_void(records)
            if r.ino not in spared.values() and r.paths[0] not in spared
        ]
        _undo_names([r for r in live if r.kind in _NAME_KINDS], rng, torn, self.state, report)
        _undo_data([r for r in live if r.kind in _DATA_KINDS], rng, torn, self, report)
        for entry in self.state.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != "fail_sync":
                entry.unlink()
        return report


def read_records(state: Path) -> list[Record]:
    """All complete records of every process, in order of time. A half-written last one is of an
    operation that did not happen."""
    records: list[Record] = []
    for log in sorted(state.glob("*.undo")):
        content = log.read_bytes()
        at = 0
        while at + _HEADER.size <= len(content):
            fields = _HEADER.unpack_from(content, at)
            magic, kind, time_ns, dev, ino, dir_ino, offset, length, old_size, upto = fields[:10]
            assert magic == _MAGIC, f"{log.name}: no record at byte {at}"
            path_sizes, data_size = fields[10:13], fields[14]
            end = at + _HEADER.size + sum(path_sizes) + data_size
            if end > len(content):
                break
            at += _HEADER.size
            paths: list[str] = []
            for size in path_sizes:
                paths.append(os.fsdecode(content[at : at + size]))
                at += size
            data = content[at:end]
            at = end
            triple = (paths[0], paths[1], paths[2])
            records.append(
                Record(
                    kind, time_ns, dev, ino, dir_ino, offset, length, old_size, upto, triple, data
                )
            )
    records.sort(key=lambda r: r.time_ns)
    return records


def _not_void(records: list[Record]) -> list[Record]:
    """The records that no later sync of their file or directory covers."""
    synced: dict[int, int] = {}
    forgotten: dict[int, int] = {}
    spoiled: dict[int, list[tuple[int, int]]] = defaultdict(list)  # what a failed sync lost
    for r in records:
        if r.kind == _SYNC:
            synced[r.ino] = max(synced.get(r.ino, 0), r.upto)
        elif r.kind == _POISON:
            spoiled[r.ino].append((synced.get(r.ino, 0), r.upto))
        elif r.kind == _FORGET:
            forgotten[r.ino] = r.time_ns
    live: list[Record] = []
    for r in records:
        if r.kind not in _DATA_KINDS | _NAME_KINDS:
            continue
        ino = r.ino if r.kind in _DATA_KINDS else r.dir_ino
        if r.time_ns <= forgotten.get(ino, 0):
            continue
        covered = r.time_ns <= synced.get(ino, 0)
        covered = covered and not any(low < r.time_ns <= high for low, high in spoiled[ino])
        if not covered and r.kind == _MKDIR:
            covered = _synced_inside(r.paths[0], synced)
        if not covered:
            live.append(r)
    return live


def _synced_inside(directory: str, synced: dict[int, int]) -> bool:
    """Whether a sync of a directory at or below this one carried the directory itself to the disk,
    as journaled file systems do."""
    return any(os.stat(path).st_ino in synced for path, _, _ in os.walk(directory))


def _undo_names(
    live: list[Record], rng: random.Random, torn: bool, state: Path, report: CutReport
) -> None:
    """Undo changes of names, newest first; with `torn`, of each directory a prefix stays."""
    of_directory: dict[int, list[Record]] = defaultdict(list)
    for r in live:
        of_directory[r.dir_ino].append(r)
    undo: list[Record] = []
    for changes in of_directory.values():
        kept = rng.randint(0, len(changes)) if torn and rng.random() < 0.5 else 0
        report.kept_names += kept
        undo.extend(changes[kept:])
    lost = state / "lost"
    lost.mkdir(exist_ok=True)
    for number, r in enumerate(sorted(undo, key=lambda r: -r.time_ns)):
        first, second, third = r.paths
        report.undone_names.append(f"{r.kind} {first} {second}")
        if r.kind in {_CREATE, _LINK, _MKDIR}:
            if os.path.lexists(first):
                os.rename(first, lost / str(number))
        elif r.kind == _UNLINK:
            if os.path.lexists(second) and not os.path.lexists(first):
                os.rename(second, first)
        elif r.kind == _RENAME:
            if os.path.lexists(second) and not os.path.lexists(first):
                os.rename(second, first)
                if third:
                    os.rename(third, second)
        elif r.kind == _RMDIR and not os.path.lexists(first):
            os.mkdir(first)


def _undo_data(
    live: list[Record], rng: random.Random, torn: bool, ledger: Ledger, report: CutReport
) -> None:
    """Put old bytes and sizes back, file by file."""
    of_file: dict[int, list[Record]] = defaultdict(list)
    for r in live:
        of_file[r.ino].append(r)
    path_of: dict[int, str] = {}
    for top in (ledger.root, ledger.state):
        for directory, _, names in os.walk(top):
            for name in names:
                path = os.path.join(directory, name)
                path_of.setdefault(os.lstat(path).st_ino, path)
    for ino, records in of_file.items():
        if ino in path_of:
            _undo_file(path_of[ino], records, rng, torn and rng.random() < 0.8, report)


def _undo_file(
    path: str, records: list[Record], rng: random.Random, torn: bool, report: CutReport
) -> None:
    """Undo the un-synced writes of one file, newest first. A sector that the disk is to have
    written keeps its latest content; the size ends between the durable one and the last one."""
    durable_size = records[0].old_size
    kept: dict[int, bool] = {}

    def keeps(sector: int) -> bool:
        if sector not in kept:
            kept[sector] = torn and rng.random() < 0.5
            report.kept_sectors += kept[sector]
        return kept[sector]

    with open(path, "r+b", buffering=0) as file:
        last_size = os.fstat(file.fileno()).st_size
        for r in reversed(records):
            report.undone_writes += 1
            length = r.length if r.kind == _WRITE else len(r.data)
            old = r.data.ljust(length, b"\0")
            at = 0
            while at < length:
                sector = (r.offset + at) // SECTOR
                size = min((sector + 1) * SECTOR - r.offset - at, length - at)
                if not keeps(sector):
                    os.pwrite(file.fileno(), old[at : at + size], r.offset + at)
                    report.undone_bytes += size
                at += size
        size = durable_size
        if torn and last_size > durable_size:
            size = rng.choice([durable_size, last_size, rng.randint(durable_size, last_size)])
        os.ftruncate(file.fileno(), size)
