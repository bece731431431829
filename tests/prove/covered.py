"""Which files of the checkout a kind of run is about, and a digest of their content.

A run counts while that digest stands. It is one of contents and not a name of a commit, because the
names of commits are lost where a history is rewritten or squashed, and files are not.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
NODE: Final = (
    "base",
    "model",
    "raft",
    "stream",
    "catalog",
    "codec",
    "storage",
    "replica",
    "link",
    "_native",
)
"""What an append passes through on its way to the disks of a quorum; `_native` is the core in
another language, where there is one."""

DISKS: Final = tuple(room for room in NODE if room != "link")
SERVICE: Final = (*NODE, "gateway", "http")
PARSERS: Final = ("base", "model", "codec", "link", "http", "storage", "stream", "catalog")
JUDGES: Final = ("tests/linearizability", "tests/verdicts")

COVERED: Final[dict[str, tuple[str, ...]]] = {
    "core": ("raft",),
    "simulation": NODE,
    "chaos": NODE,
    "crashpoints": DISKS,
    "corruption": DISKS,
    "kills": NODE,
    "restarts": SERVICE,
    "space": DISKS,
    "ambiguous": NODE,
    "usage": NODE,
    "hostile": SERVICE,
    "fuzz": (*PARSERS, "gateway", "backup"),
    "verdicts": JUDGES,
    "held": SERVICE,
    "soak": SERVICE,
}
"""By kind of run, the folders whose change makes its runs earlier ones: of `svc_cluster`, or of the
checkout where they begin with `tests/`. `core` is the simulation of the engine alone."""

_SUFFIXES: Final = (".py", ".c", ".h")
_GENERATED: Final = "__pycache__"


def kind_of(log: str, row: dict[str, object]) -> str:
    """Which entry of `COVERED` a row of this log is judged by."""
    return "core" if log == "simulation" and row.get("kind") == "core" else log


def digest(kind: str, root: Path = ROOT) -> str:
    """Of the paths and contents of what a kind of run is about."""
    hashed = hashlib.sha256()
    for room in sorted(COVERED[kind]):
        folder = root / (room if room.startswith("tests/") else f"svc_cluster/{room}")
        for path in sorted(folder.rglob("*")):
            if path.suffix not in _SUFFIXES or _GENERATED in path.parts or not path.is_file():
                continue
            content = path.read_bytes()
            name = path.relative_to(root).as_posix()
            hashed.update(f"{name}\0{len(content)}\0".encode())
            hashed.update(content)
    return hashed.hexdigest()[:16]
