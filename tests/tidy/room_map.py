"""How the gateway is cut: its rooms, what stands in them, and who leans on whom.

`python -m tests.tidy.room_map [ROOT]` prints a row for each room of the checkout in ROOT, this one
by default, and what all of them come to; docs/architecture.md keeps the sums before the rooms were
cut and now. A room is a folder of `svc_cluster/gateway`, or a file that stands in none. An arrow
is one room that imports from another; arrows back are those between rooms that lean on each other,
directly or over others: a reader can take none of these rooms by itself. The last line counts the
whole product and its tests, without what is generated.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from tests.tidy.rooms import PACKAGE, imports_of_source, modules

BELOW = "gateway"

Arrows = Mapping[str, set[str]]


def room_of(path: PurePosixPath) -> str:
    """The room of a file below svc_cluster/gateway/."""
    return path.parts[1].removesuffix(".py")


def arrows(root: Path) -> dict[str, set[str]]:
    """Each room with the rooms that it imports from."""
    paths = [path for path in modules(root) if path.parts[0] == BELOW and len(path.parts) > 1]
    found: dict[str, set[str]] = {room_of(path): set() for path in paths}
    for path in paths:
        for _, module in imports_of_source((root / PACKAGE / path).read_text()):
            parts = module.split(".")
            if parts[:2] == [PACKAGE, BELOW] and len(parts) > 2 and parts[2] in found:
                found[room_of(path)].add(parts[2])
    return {room: others - {room} for room, others in found.items()}


def reached(found: Arrows, start: str) -> set[str]:
    """The rooms that a room leans on, directly or over others."""
    seen: set[str] = set()
    left = [start]
    while left:
        for other in found[left.pop()] - seen:
            seen.add(other)
            left.append(other)
    return seen


def arrows_back(found: Arrows) -> list[tuple[str, str]]:
    """The arrows between rooms that lean on each other."""
    return [
        (room, other)
        for room, others in sorted(found.items())
        for other in sorted(others)
        if room in reached(found, other)
    ]


def size_of(folder: Path) -> tuple[int, int]:
    """Files and lines of Python below a folder."""
    texts = [path.read_text() for path in folder.rglob("*.py") if "_pb" not in path.parts]
    return len(texts), sum(text.count("\n") for text in texts)


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    found = arrows(root)
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path in modules(root):
        if path.parts[0] == BELOW and len(path.parts) > 1 and path.name != "__init__.py":
            files[room_of(path)] += 1
            lines[room_of(path)] += len((root / PACKAGE / path).read_text().splitlines())
    for room in sorted(files):
        print(f"{room:20} {files[room]:3} files {lines[room]:6} lines -> {len(found[room])} rooms")
    print(
        f"{len(files)} rooms, {files.total()} files, {lines.total()} lines, "
        f"{sum(map(len, found.values()))} arrows, {len(arrows_back(found))} of them back"
    )
    for folder in (PACKAGE, "tests"):
        count, length = size_of(root / folder)
        print(f"{folder}: {count} files, {length} lines")


if __name__ == "__main__":
    main()
