"""`svc-cluster wal inspect`: what a node's log holds, read and never written."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import typer

from svc_cluster.cli.output_form import Output, OutputForm, Teller
from svc_cluster.cli.terminal import end_with, table
from svc_cluster.storage.wal import wal_frame as fr
from svc_cluster.storage.wal.reader import SegmentReader
from svc_cluster.storage.wal.segment import (
    ACTIVE,
    DATA_START,
    Segment,
    read_slots,
    segment_number,
    tag_of,
)
from svc_cluster.storage.wal.wal_frame import FrameCoder, Position, WalFrame
from svc_cluster.storage.wal.wal_settings import WalFormatError

wal_app = typer.Typer(no_args_is_help=True, help="A node's log on its disk.")

KINDS: Final = {
    fr.ENTRY: "entry",
    fr.TRUNCATE: "truncate",
    fr.HARD_STATE: "hard-state",
    fr.COMMIT: "commit",
    fr.TRIM: "trim",
    fr.SNAPSHOT: "snapshot",
    fr.CREATE: "create",
    fr.DESTROY: "destroy",
    fr.STATE: "state",
    fr.BATCH: "batch",
    fr.END: "end",
    fr.ENTRY_AT: "entry-in-payload-file",
}


class InspectedFile:
    """A segment's file, open for reading alone."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def size(self) -> int:
        return os.fstat(self._handle).st_size

    def pread(self, size: int, offset: int) -> bytes:
        return os.pread(self._handle, size, offset)

    def held_bytes(self) -> int:
        return os.fstat(self._handle).st_blocks * 512

    def pread_cached(self, size: int, offset: int) -> bytes | None:
        """Nobody waits here, so that it is never known what memory has."""
        return None

    def release(self) -> None:
        """Nothing is written, and all is read at once, so that it is closed soon enough."""

    def close(self) -> None:
        os.close(self._handle)


@dataclass(slots=True)
class InspectedSegment:
    """What one file holds. `holes`: offsets at which something cannot be believed."""

    name: str
    state: str
    seq: int
    size: int
    frames: Counter[str] = field(default_factory=Counter)
    used: int = 0
    groups: set[int] = field(default_factory=set)
    holes: list[int] = field(default_factory=list)
    durable_before: Position = (0, 0)


def inspect_wal(directory: Path) -> list[InspectedSegment]:
    """Return all segments in the order of the log, free ones behind. One file is in memory at a
    time. Raises OSError and WalFormatError."""
    paths = [path for path in directory.iterdir() if segment_number(path.name) is not None]
    found = []
    for path in sorted(paths):
        file = InspectedFile(path)
        try:
            found.append(_inspected(file))
        finally:
            file.close()
    return sorted(found, key=lambda each: (each.state != "active", each.seq, each.name))


def damage_of(segments: list[InspectedSegment]) -> list[str]:
    """Return what was synced once and cannot be read: a hole before the furthest place that any
    frame says was durable. What is behind it is the torn end of a crash, or of a node that runs."""
    durable = max((each.durable_before for each in segments), default=(0, 0))
    damage = [
        f"{each.name} at {hole}: what was durable here cannot be read"
        for each in segments
        for hole in each.holes
        if each.state == "active" and (each.seq, hole) < durable
    ]
    damage += [f"{each.name}: its header cannot be read" for each in segments if each.seq < 0]
    places = [each.seq for each in segments if each.state == "active"]
    missing = sorted(set(range(min(places, default=0), max(places, default=0))) - set(places))
    return damage + [f"the segment with number {seq} is missing" for seq in missing]


def _inspected(file: InspectedFile) -> InspectedSegment:
    tag = tag_of(file)
    slots = [] if tag is None else [slot for slot in read_slots(file, tag) if slot is not None]
    if tag is None or not slots:
        return InspectedSegment(file.name, "unreadable", -1, file.size())
    header = max(slots, key=lambda slot: slot.generation)
    state = "active" if header.state == ACTIVE else "free"
    out = InspectedSegment(file.name, state, header.segment_seq, file.size())
    if header.state == ACTIVE:
        reader = SegmentReader(FrameCoder(tag), Segment(file, header, file.size()))
        for offset, frame in frames_of(reader):
            if frame is None:
                out.holes.append(offset)
                continue
            out.frames[KINDS.get(frame.body.kind, f"kind-{frame.body.kind}")] += 1
            out.used = frame.end
            out.groups.add(frame.body.group)
            if frame.payload_ok:
                out.durable_before = max(out.durable_before, frame.durable_before)
            else:
                out.holes.append(offset)
    return out


def frames_of(reader: SegmentReader) -> Iterator[tuple[int, WalFrame | None]]:
    """Yield each frame with its offset; None for a place with no believable one before others."""
    offset = DATA_START
    while True:
        frame = reader.at(offset)
        if frame is None:
            behind = reader.next_from(offset)
            if behind is None:
                return
            yield offset, None
            offset = behind
            continue
        yield offset, frame
        offset = frame.end


@wal_app.command("inspect")
def inspect(
    directory: Annotated[Path, typer.Argument(help="A node's data directory, or the wal in it.")],
    output: Output = OutputForm.TABLE,
) -> None:
    """Print the segments of a log, what is in them, and damage: status 1 where there is some, 2
    where it is no log. Nothing is written, and the node may run: its newest frames may then look
    torn."""
    place = directory / "wal" if (directory / "wal").is_dir() else directory
    try:
        segments = inspect_wal(place)
        if not segments:
            end_with(f"{place} holds no segment of a log: name a node's data directory", 2)
        damage = damage_of(segments)
    except (OSError, WalFormatError) as cause:
        end_with(f"{place} cannot be read: {getattr(cause, 'strerror', None) or cause}", 2)
    head = ("SEGMENT", "STATE", "NUMBER", "USED", "GROUPS", "FRAMES")
    Teller(output).end(
        {"segments": [_told(each) for each in segments], "damage": damage},
        [
            *table(head, [_row(each) for each in segments]),
            *(f"damage: {told}" for told in damage),
        ],
    )
    if damage:
        raise SystemExit(1)


def _told(each: InspectedSegment) -> dict[str, object]:
    return {
        "segment": each.name,
        "state": each.state,
        "number": each.seq,
        "used": each.used,
        "size": each.size,
        "groups": sorted(each.groups),
        "frames": dict(sorted(each.frames.items())),
    }


def _row(each: InspectedSegment) -> tuple[str, ...]:
    frames = " ".join(f"{kind}:{count}" for kind, count in sorted(each.frames.items())) or "-"
    used = f"{each.used} of {each.size}"
    return each.name, each.state, str(each.seq), used, str(len(each.groups)), frames
