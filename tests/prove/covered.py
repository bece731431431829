"""Which files of the checkout a kind of run is about, and a digest of their content.

A run counts while that digest stands. It is one of contents and not a name of a commit, because the
names of commits are lost where a history is rewritten or squashed, and files are not.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
ENGINE: Final = ("raft", "base", "model")
NODE: Final = (
    *ENGINE,
    *("stream", "catalog", "codec", "storage", "replica", "link"),
    *("_native", "_pb"),
)
"""What an append passes through on its way to the disks of a quorum, with all that these import;
`_native` is the core in another language, where there is one."""

SERVICE: Final = (*NODE, "gateway", "http")
PROCESSES: Final = (*SERVICE, "cli/processes", "settings*.py")
"""A whole cluster: its processes are started and set up by these, and every client goes through a
gateway."""

PARSERS: Final = (*NODE, "gateway", "http", "backup")
JUDGES: Final = ("tests/linearizability", "tests/verdicts")
_LOAD: Final = ("tests/e2e/load.py", "tests/e2e/cluster.py")
_SAMPLES: Final = ("tests/endurance/sampling.py",)
_HELD: Final = ("tests/endurance/held.py", "tests/endurance/followers.py")
_SOAK: Final = ("tests/endurance/soak.py", "tests/endurance/readers.py")

COVERED: Final[dict[str, tuple[str, ...]]] = {
    "core": ENGINE,
    "simulation": SERVICE,
    "chaos": PROCESSES,
    "crashpoints": (*NODE, "settings*.py"),
    "corruption": (*NODE, "cli/processes", "settings*.py"),
    "kills": (*PROCESSES, *_LOAD, "tests/e2e/test_kill_leader.py", "tests/e2e/test_power_loss.py"),
    "restarts": (*PROCESSES, *_LOAD, "tests/e2e/test_planned_restarts.py"),
    "space": (*PROCESSES, "tests/e2e/space.py"),
    "ambiguous": PROCESSES,
    "usage": PROCESSES,
    "hostile": PROCESSES,
    "fuzz": PARSERS,
    "verdicts": JUDGES,
    "held": (*PROCESSES, *_LOAD, *_SAMPLES, *_HELD),
    "soak": (*PROCESSES, *_LOAD, *_SAMPLES, *_SOAK),
}
"""By kind of run, the folders and files whose change makes its runs earlier ones: of `svc_cluster`,
or of the checkout where they begin with `tests/`. `core` is the simulation of the engine alone.

What measures is among them where its change could change the figure. What judges is not: a judge
that has become stricter leaves what it was asked before as it was, and is asked again by turns."""

_SUFFIXES: Final = (".py", ".c", ".h")
_GENERATED: Final = "__pycache__"


def kind_of(log: str, row: dict[str, object]) -> str:
    """Which entry of `COVERED` a row of this log is judged by."""
    return "core" if log == "simulation" and row.get("kind") == "core" else log


def digest(kind: str, root: Path = ROOT) -> str:
    """Of the paths and contents of what a kind of run is about."""
    hashed = hashlib.sha256()
    for path in files(kind, root):
        content = path.read_bytes()
        name = path.relative_to(root).as_posix()
        hashed.update(f"{name}\0{len(content)}\0".encode())
        hashed.update(content)
    return hashed.hexdigest()[:16]


def files(kind: str, root: Path = ROOT) -> list[Path]:
    """In the order of their names, each once. Raises FileNotFoundError for a place that is not
    there: a file that was renamed would be left out without a word."""
    found: set[Path] = set()
    for place in COVERED[kind]:
        at = root if place.startswith("tests/") else root / "svc_cluster"
        named = list(at.glob(place))
        if not named:
            raise FileNotFoundError(f"{kind} is about {place}, which is not there")
        for each in named:
            found.update(each.rglob("*") if each.is_dir() else [each])
    return sorted(
        path
        for path in found
        if path.suffix in _SUFFIXES and _GENERATED not in path.parts and path.is_file()
    )


def native_core_is_old(root: Path = ROOT) -> bool:
    """Whether the core that runs was built from other files than those that the digest is of."""
    folder = root / "svc_cluster" / "_native"
    built = [path.stat().st_mtime for path in folder.glob("*.so")]
    sources = [path.stat().st_mtime for path in folder.rglob("*.[ch]")]
    return bool(built and sources) and min(built) < max(sources)
