"""`python -m tests.reliability_scorecard`: docs/reliability.md out of docs/reliability/*.jsonl.

A run counts for a measure while nothing has changed since in the folders that the measure is about
(`VOIDS`): all that an append passes through, for most. Commits that add records, tests or documents
change nothing there. A run on changed files (`+` behind its commit) never counts. A figure that was
not reached is printed as what it is.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.reliability import DIRECTORY, ROOT, RunLog, git

NODE: Final = ("raft", "stream", "catalog", "codec", "storage", "replica", "link", "_native")
"""What an append passes through on its way to the disks of a quorum; `_native` is the core in
another language, where there is one."""

_LOG: Final = ("raft",)
_DISKS: Final = ("raft", "stream", "catalog", "codec", "storage", "replica", "_native")
VOIDS: Final[dict[str, tuple[str, ...]]] = {
    "core": _LOG,
    "simulation": NODE,
    "chaos": NODE,
    "crashpoints": _DISKS,
    "corruption": _DISKS,
    "kills": NODE,
    "space": _DISKS,
    "ambiguous": NODE,
    "usage": NODE,
    "hostile": (*NODE, "gateway", "http"),
}
"""By kind of run, the folders of `svc_cluster` whose change makes its runs earlier ones. `core` is
the simulation of the engine alone, the rest are the logs."""

PAGE: Final = ROOT / "docs" / "reliability.md"
LOGS: Final = (
    "simulation",
    "chaos",
    "crashpoints",
    "corruption",
    "kills",
    "space",
    "ambiguous",
    "usage",
    "hostile",
)
HISTORY_OPERATIONS_MIN: Final = 1000
HOSTILE_SCALE_MIN: Final = 3
HOSTILE_SCENES_MIN: Final = 12
SCENARIOS: Final = ("single", "restart", "snapshot")

Rows = dict[str, list[dict[str, Any]]]


@dataclass(slots=True)
class Line:
    """One line of the scorecard."""

    measure: str
    target: str
    figure: str
    reached: bool


@dataclass(slots=True)
class Card:
    """The lines, and what was left out."""

    lines: list[Line] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, measure: str, target: str, figure: str, *, reached: bool) -> None:
        self.lines.append(Line(measure, target, figure, reached))


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def kind_of(log: str, row: dict[str, Any]) -> str:
    """Which entry of `VOIDS` a row of this log is judged by."""
    return "core" if log == "simulation" and row.get("kind") == "core" else log


def make_card(rows: Rows, is_current: Callable[[str, str], bool]) -> Card:
    """`is_current(kind, commit)`: whether runs of this kind and commit count."""
    card = Card()
    current: Rows = {}
    for name, lines in rows.items():
        current[name] = [
            row for row in lines if is_current(kind_of(name, row), str(row.get("commit", "")))
        ]
        card.counted[name] = len(current[name])
        card.left_out[name] = len(lines) - len(current[name])
    _simulation(card, current["simulation"])
    _kills(card, current["kills"], current["chaos"])
    _chaos(card, current["chaos"])
    _crashpoints(card, current["crashpoints"])
    _corruption(card, current["corruption"])
    _space(card, current["space"])
    _ambiguous(card, current["ambiguous"])
    _usage(card, current["usage"])
    _hostile(card, current["hostile"])
    return card


def _simulation(card: Card, rows: list[dict[str, Any]]) -> None:
    for kind, name, wanted in (("core", "core", 30_000), ("full", "full-stack", 2_000)):
        seeds: set[int] = set()
        failed: set[int] = set()
        for row in rows:
            if row.get("kind") == kind:
                first, end = row["seeds"]
                seeds.update(range(first, end))
                # a seed is the same history each time: what its last run says stands, so one that
                # was judged wrongly is cleared by running it again under the mended judge
                failed.difference_update(range(first, end))
                failed.update(row["failures"])
        card.add(
            f"{name} simulation, seeds without a safety or liveness failure",
            f"{wanted:,}, 0 failed",
            f"{len(seeds):,}, {len(failed)} failed",
            reached=len(seeds) >= wanted and not failed,
        )
        card.failures += [f"{name} simulation: seed {seed}" for seed in sorted(failed)]


def _kills(card: Card, kills: list[dict[str, Any]], chaos: list[dict[str, Any]]) -> None:
    """Cycles of the kill tests, and the chaos rounds that do the same."""
    cycles: Counter[str] = Counter()
    lost = 0
    failover: list[float] = []
    for row in kills:
        cycles["power" if row["kind"] == "power" else "kill"] += int(row["cycles"])
        lost += int(row["lost"])
        failover += row.get("failover_ms", [])
    for row in chaos:
        if row["row"] == "D1":
            cycles["kill"] += len(row["failover_ms"])
            failover += row["failover_ms"]
        elif row["row"] in ("D2", "D4"):
            cycles["kill" if row["row"] == "D2" else "power"] += 1
    for kind, name, wanted in (("kill", "kill -9", 300), ("power", "power-loss", 100)):
        card.add(
            f"{name} cycles, acknowledged records lost",
            f"{wanted}, 0 lost",
            f"{cycles[kind]}, {lost} lost",
            reached=cycles[kind] >= wanted and not lost,
        )
    figure = "0 kills"
    reached = False
    if failover:
        p50, p99 = quantile(failover, 0.5), quantile(failover, 0.99)
        figure = (
            f"p50 {p50 / 1000:.2f} s, p99 {p99 / 1000:.2f} s, max {max(failover) / 1000:.2f} s "
            f"over {len(failover)} kills"
        )
        reached = len(failover) >= 200 and p50 <= 1000 and p99 <= 2500
    card.add(
        "failover: kill -9 of the leader to the first append",
        "p50 <= 1 s, p99 <= 2.5 s over 200 kills",
        figure,
        reached=reached,
    )


def _chaos(card: Card, rows: list[dict[str, Any]]) -> None:
    good = [r for r in rows if not r["violations"] and r["ops"] >= HISTORY_OPERATIONS_MIN]
    bad = [row for row in rows if row["violations"]]
    per_row = Counter(row["row"] for row in good)
    names = ", ".join(f"{name} {per_row[name]}" for name in sorted(per_row, key=_number))
    card.add(
        f"live histories of at least {HISTORY_OPERATIONS_MIN:,} operations, linearizable",
        "100, 0 with violations",
        f"{len(good)}, {len(bad)} with violations" + (f" ({names})" if names else ""),
        reached=len(good) >= 100 and not bad,
    )
    card.failures += [
        f"chaos round {row['round']} (seed {row['seed']}, {row['row']}): {row['violations'][0]}"
        for row in bad
    ]


def _number(name: str) -> int:
    return int("".join(char for char in name if char.isdigit()) or 0)


def _crashpoints(card: Card, rows: list[dict[str, Any]]) -> None:
    tried = covered = power = 0
    violations: list[str] = []
    whole: set[str] = set()
    newest = {row["scenario"]: row for row in rows if row["stride"] == 1}
    for row in newest.values():
        tried, covered = tried + row["tried"], covered + row["covered"]
        power += row["power_cuts"]
        if row["covered"] == row["tried"] >= row["total"]:
            whole.add(row["scenario"])
    for row in rows:
        violations += row["violations"]
    share = 100 * covered / tried if tried else 0.0
    missing = [name for name in SCENARIOS if name not in newest]
    without = f", not run: {', '.join(missing)}" if missing else ""
    card.add(
        "crash points at which the node died, booted and had lost nothing",
        "100 %, 0 violations",
        f"{covered} of {tried} ({share:.0f} %), {power} of them with a power cut, "
        f"{len(violations)} violations{without}",
        reached=whole.issuperset(SCENARIOS) and not violations,
    )
    card.failures += [f"crash points: {violation}" for violation in violations]


def _corruption(card: Card, rows: list[dict[str, Any]]) -> None:
    trials = sum(int(row["trials"]) for row in rows)
    wrong = sum(int(row["silently_wrong"]) for row in rows)
    card.add(
        "corruption trials, silently wrong answers",
        "1,000, 0 wrong",
        f"{trials:,}, {wrong} wrong",
        reached=trials >= 1000 and not wrong,
    )


def _space(card: Card, rows: list[dict[str, Any]]) -> None:
    """The largest run, and of those the last."""
    figure, reached = "not run", False
    if rows:
        row = max(reversed(rows), key=lambda each: int(each["trimmed_mib"]))
        sizes = row["after_mib"]
        most = 1.3 * row["live_mib"] + row["floor_mib"]
        figure = (
            f"{row['trimmed_mib']:,} MiB on {row['nodes']} nodes: {max(row['before_mib']):,} MiB "
            f"of a directory became {max(sizes)} with {row['live_mib']} of them live, "
            f"{row['seconds']} s after the last were due to go"
        )
        reached = row["trimmed_mib"] >= 2048 and max(sizes) <= most and row["seconds"] <= 120
    card.add(
        "space: 90 % of a stream trimmed, others expired and deleted; each data directory",
        "2,048 MiB, within 1.3 times of live bytes and a floor in 120 s",
        figure,
        reached=reached,
    )


def _ambiguous(card: Card, rows: list[dict[str, Any]]) -> None:
    """All runs together."""
    outcomes = sum(int(row["ambiguous"]) for row in rows)
    doubled = sum(int(row["duplicates"]) for row in rows)
    lost = sum(int(row["lost"]) + int(row["unresolved"]) for row in rows)
    violations = [violation for row in rows for violation in row["violations"]]
    card.add(
        "writes of unknown outcome, retried under their request token through kill -9",
        "2,000, 0 doubled, 0 lost",
        f"{outcomes:,}, {doubled} doubled, {lost} lost",
        reached=outcomes >= 2000 and not (doubled or lost or violations),
    )
    card.failures += [f"ambiguous: {violation}" for violation in violations]


def _usage(card: Card, rows: list[dict[str, Any]]) -> None:
    """All runs together."""
    kills = sum(int(row["leader_kills"]) for row in rows)
    retries = sum(int(row["retries_of_answered"]) for row in rows)
    records = sum(int(row["records"]) for row in rows)
    off = sum(abs(row["counted_records"] - row["records"]) for row in rows)
    wrong = [text for row in rows for text in row["wrong"]]
    card.add(
        "usage: what the buckets say is appended against the records there are",
        "50 leaders killed, 1,000 appends repeated, no record off",
        f"{kills} killed, {retries:,} repeated, {off:.0f} of {records:,} records off",
        reached=kills >= 50 and retries >= 1000 and not off and not wrong,
    )
    card.failures += [f"usage: {text}" for text in wrong]


def _hostile(card: Card, rows: list[dict[str, Any]]) -> None:
    """The last run of each scene at the full scale."""
    last = {row["scene"]: row for row in rows if row["scale"] >= HOSTILE_SCALE_MIN}
    bad = sorted(name for name, row in last.items() if not row["passed"])
    figure = f"{len(last)} scenes, {len(bad)} out of bounds"
    for name in ("node", "gateway"):
        if sizes := [row[f"{name}_mib"] for row in last.values() if f"{name}_mib" in row]:
            figure += f", {name} at most {max(sizes)} MiB"
    card.add(
        "hostile clients and peers, a frozen node, at three times the suite's size",
        f"{HOSTILE_SCENES_MIN} scenes, 0 out of bounds",
        figure,
        reached=len(last) >= HOSTILE_SCENES_MIN and not bad,
    )
    card.failures += [f"hostile: {name}" for name in bad]


def page(
    card: Card,
    last_changes: dict[str, str],
    whole: Card | None = None,
    mutants: Sequence[dict[str, Any]] = (),
) -> str:
    """The scorecard as Markdown. `last_changes`: of each kind of run, the commit it counts from;
    `whole` counts earlier files too, as what they are."""
    lines = [
        "# Reliability scorecard",
        "",
        "Made by `python -m tests.reliability_scorecard` from `docs/reliability/*.jsonl`; do not",
        "edit. A run counts while nothing has changed since in the folders that it is about",
        "(below); runs on files that differ from their commit do not count.",
        "",
        "| measure | target | so far | |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {line.measure} | {line.target} | {line.figure} | "
        f"{'reached' if line.reached else '**not reached**'} |"
        for line in card.lines
    ]
    lines += ["", "Zero failures in n trials mean a rate of at most 3/n, with 95 % confidence.", ""]
    if whole is not None and any(card.left_out.values()):
        lines += [
            "## With runs before the last change",
            "",
            "Every run on the files of some commit, this or an earlier one. It says what the tools",
            "have shown so far, not that the files of today were run as much.",
            "",
            "| measure | so far |",
            "|---|---|",
        ]
        lines += [f"| {line.measure} | {line.figure} |" for line in whole.lines] + [""]
    if card.failures:
        lines += ["## Failures among the counted runs", ""]
        lines += [f"- {failure}" for failure in card.failures] + [""]
    lines += _voids_table(last_changes) + _mutants_table(mutants)
    lines += [
        "## Runs",
        "",
        "| log | counted | left out: older, or on changed files |",
        "|---|---|---|",
    ]
    lines += [f"| `{name}.jsonl` | {card.counted[name]} | {card.left_out[name]} |" for name in LOGS]
    lines += [
        "",
        "## How to add to it",
        "",
        "| what | command |",
        "|---|---|",
        "| simulation | `python -m tests.simulation --seeds 2000 --record` |",
        "| chaos on real processes | `python -m tests.chaos --rounds 100 --resume --record` |",
        "| crash points | `python -m tests.crashpoints --record` |",
        "| corruption | `python -m tests.corruption --trials 1000 --record` |",
        "| kill cycles | `RECORD=1 KILL_ROUNDS=100 pytest tests/e2e/test_kill_leader.py` |",
        "| space | `RECORD=1 SPACE_MIB=2048 SPACE_OTHERS_MIB=512 SPACE_NODES=3 "
        "SPACE_SEGMENT_MIB=16 pytest --timeout 900 tests/e2e/test_space.py` |",
        "| usage | `python -m tests.chaos.usage_sums --kills 50 --record` |",
        "| retries | `python -m tests.chaos.ambiguous --outcomes 2000 --record` |",
        "| hostile clients | `make hostile` |",
        "| planted bugs | `make mutants MUTANTS=--record` |",
        "| power cuts | `RECORD=1 POWER_ROUNDS=100 pytest tests/e2e/test_power_loss.py` |",
        "",
    ]
    return "\n".join(lines)


def _voids_table(last_changes: dict[str, str]) -> list[str]:
    order = (*NODE, "gateway", "http")
    folders = sorted({folder for kind in VOIDS for folder in VOIDS[kind]}, key=order.index)
    lines = [
        "## What a change voids",
        "",
        "A change under a folder of `svc_cluster` makes the runs marked here earlier ones.",
        "Records, tests and documents void nothing.",
        "",
        "| runs | counted from | " + " | ".join(f"`{folder}`" for folder in folders) + " |",
        "|---|---|" + "---|" * len(folders),
    ]
    for kind, voided_by in VOIDS.items():
        marks = " | ".join("x" if folder in voided_by else "" for folder in folders)
        name = "simulation of the core" if kind == "core" else f"`{kind}.jsonl`"
        lines.append(f"| {name} | `{last_changes.get(kind, '')}` | {marks} |")
    return [*lines, ""]


def _mutants_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    seconds = sum(float(row["seconds"]) for row in rows)
    lines = [
        "## Planted bugs",
        "",
        f"{len(rows)} bugs are kept in `tests/mutants`, each caught when it was last planted",
        f"(`make mutants`); together their guards took {seconds / 60:.1f} minutes.",
        "",
        "| area | bug | the rule it breaks | caught by | s |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        by = str(row["caught_by"]).removeprefix("tests/").replace("|", "\\|")
        lines.append(
            f"| {row['area']} | {row['name']} | {row['rule']} | `{by}` | {row['seconds']:.1f} |"
        )
    return [*lines, ""]


def current_commits(kind: str, commits: Iterable[str]) -> tuple[str, set[str]]:
    """The last change of what a kind of run is about, and those of `commits` that contain it.
    Raises CalledProcessError outside a repository."""
    last = git("log", "-1", "--format=%h", "--", *(f"svc_cluster/{part}" for part in VOIDS[kind]))
    found: set[str] = set()
    for commit in set(commits):
        if commit.endswith("+") or not commit:
            continue
        try:
            git("merge-base", "--is-ancestor", last, commit)
        except subprocess.CalledProcessError:
            continue
        found.add(commit)
    return last, found


def main() -> int:
    rows: Rows = {name: RunLog(name, DIRECTORY).rows() for name in LOGS}
    commits = [str(row.get("commit", "")) for lines in rows.values() for row in lines]
    found = {kind: current_commits(kind, commits) for kind in VOIDS}
    card = make_card(rows, lambda kind, commit: commit in found[kind][1])
    whole = make_card(rows, lambda _, commit: bool(commit) and not commit.endswith("+"))
    last_changes = {kind: last for kind, (last, _) in found.items()}
    PAGE.write_text(page(card, last_changes, whole, RunLog("mutants", DIRECTORY).rows()))
    for line in card.lines:
        mark = "ok " if line.reached else "-- "
        print(f"{mark}{line.measure}: {line.figure} (target {line.target})")
    for failure in card.failures:
        print(f"FAILURE {failure}")
    return 1 if card.failures else 0


if __name__ == "__main__":
    sys.exit(main())
