"""Branch coverage of the rooms that decide, kept by a ratchet.

    python -m tests.branch_coverage            measure, print, compare with what is kept
    python -m tests.branch_coverage --raise    the same, and keep what has become better

A room's share is that of its branches which the tests of SUITES take, in this process alone: no
simulation, no cluster. It may not fall below what `branch_coverage.toml` keeps.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
KEPT: Final = ROOT / "tests" / "branch_coverage.toml"

ROOMS: Final = ("raft", "stream", "catalog", "codec", "storage/wal", "link")
SUITES: Final = (
    *(f"tests/unit/{room.partition('/')[0]}" for room in ROOMS),
    "tests/property",
    "tests/scenarios",
)
TIMED: Final = "tests/unit/storage/test_slow_reads.py"
"""Looks at how late the loop is, which being measured makes it."""

STEP: Final = 0.5
"""Percentage points. Random tests take a branch more or less: what is kept is that much lower."""


@dataclass(frozen=True, slots=True)
class Share:
    """Of one room's branches."""

    taken: int
    all: int

    @property
    def percent(self) -> float:
        return 100.0 * self.taken / self.all if self.all else 100.0


def shares(report: dict[str, Any]) -> dict[str, Share]:
    """The rooms' branches out of coverage.py's report in JSON."""
    found = {}
    for room in ROOMS:
        summaries = [
            file["summary"]
            for name, file in report["files"].items()
            if Path(name).is_relative_to(Path("svc_cluster") / room)
        ]
        found[room] = Share(
            sum(summary["covered_branches"] for summary in summaries),
            sum(summary["num_branches"] for summary in summaries),
        )
    return found


def fallen(found: dict[str, Share], kept: dict[str, float]) -> list[str]:
    """One sentence for each room that has less than is kept, or that nothing is kept of."""
    faults = []
    for room, share in found.items():
        if room not in kept:
            faults.append(f"{room}: nothing is kept of it, --raise keeps {share.percent:.1f} %")
        elif share.percent < kept[room]:
            faults.append(
                f"{room}: {share.percent:.1f} % of its branches are taken, {kept[room]:.1f} % "
                "were: test what is new"
            )
    return faults


def raised(found: dict[str, Share], kept: dict[str, float]) -> dict[str, float]:
    """What is kept from now on: never less than before."""
    return {
        room: max(kept.get(room, 0.0), round(share.percent - STEP, 1))
        for room, share in found.items()
    }


def table(found: dict[str, Share], kept: dict[str, float]) -> str:
    rows = [f"{'room':12} {'branches':>9} {'taken':>7} {'share':>8} {'kept':>8}"]
    for room, share in found.items():
        least = f"{kept[room]:.1f} %" if room in kept else "-"
        rows.append(f"{room:12} {share.all:9,} {share.taken:7,} {share.percent:6.1f} % {least:>8}")
    return "\n".join(rows)


def measured() -> dict[str, Share]:
    """Run the suites under coverage.py. Raises CalledProcessError when a test fails."""
    with tempfile.TemporaryDirectory() as folder:
        data, told = f"--data-file={folder}/data", Path(folder, "report.json")
        coverage = [sys.executable, "-m", "coverage"]
        # by source, and not by pattern: a file that no test imports counts with all its branches
        files = ",".join(f"svc_cluster/{room}" for room in ROOMS)
        tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--ignore={TIMED}", *SUITES]
        run = [*coverage, "run", data, "--branch", f"--source={files}", *tests]
        subprocess.run(run, cwd=ROOT, check=True)
        report = [*coverage, "json", data, "--quiet", "-o", str(told)]
        subprocess.run(report, cwd=ROOT, check=True)
        return shares(json.loads(told.read_text()))


def kept_shares() -> dict[str, float]:
    return {room: float(least) for room, least in tomllib.loads(KEPT.read_text())["kept"].items()}


def keep(shares_kept: dict[str, float]) -> None:
    lines = [
        "# Percent of branches that the tests of tests/branch_coverage.py take. Raised by --raise,",
        "# never lowered.",
        "[kept]",
        *(f'"{room}" = {least:.1f}' for room, least in shares_kept.items()),
    ]
    KEPT.write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--raise", dest="raises", action="store_true", help="keep what is better")
    given = parser.parse_args()
    kept = kept_shares() if KEPT.exists() else {}
    found = measured()
    print(table(found, kept))
    if given.raises:
        keep(raised(found, kept))
        kept = kept_shares()
    faults = fallen(found, kept)
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
