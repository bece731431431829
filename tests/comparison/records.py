"""Runs of a comparison: kept as they end, so that one that was interrupted goes on, and shown as
medians with their spread beside the ratios of the rounds.

Pure but for reading and writing the one file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

BEGIN: Final = "<!-- compare: begin -->"
END: Final = "<!-- compare: end -->"


_TROUBLE_MAX: Final = 200
_FOLDERS: Final = re.compile(r"(?<![\w/:.])(?:~|\.{1,2})?/(?:[^\s/'\":]+/)*")


class Conditions(msgspec.Struct, frozen=True):
    """What has to be alike for runs to be of one comparison."""

    commit: str
    machine: str
    seconds: float | None
    warm_up_s: float
    scale: float


class OneRun(msgspec.Struct, frozen=True):
    """One side's figures of one scenario in one round. `rows`: one for each part."""

    scenario: str
    side: str
    round_number: int
    rows: list[dict[str, Any]] = []
    trouble: str = ""
    """Why there are no figures."""


def trouble_of(cause: Exception) -> str:
    """What is kept of why there are no figures: one line, of names without their folders. What is
    committed tells nothing of the machine's places, and has no lines of somebody's log."""
    first = (str(cause).strip() or repr(cause)).splitlines()[0]
    return _FOLDERS.sub("", first)[:_TROUBLE_MAX]


class Records(msgspec.Struct):
    """Everything of one comparison. `missing`: peers that were not to be had, and what they
    need."""

    conditions: Conditions
    disk_reference: dict[str, float] = {}
    missing: dict[str, str] = {}
    runs: list[OneRun] = []

    def has(self, scenario: str, side: str, round_number: int) -> bool:
        """Whether that run has its figures; one that failed is tried again."""
        return any(
            (run.scenario, run.side, run.round_number) == (scenario, side, round_number)
            and not run.trouble
            for run in self.runs
        )

    def add(self, run: OneRun) -> None:
        """Keep a run, in the place of one that failed."""
        place = (run.scenario, run.side, run.round_number)
        self.runs = [
            one for one in self.runs if (one.scenario, one.side, one.round_number) != place
        ]
        self.runs.append(run)


def load(path: Path, conditions: Conditions) -> Records:
    """What is kept, if it is of the same conditions; otherwise nothing."""
    if path.is_file():
        kept = msgspec.json.decode(path.read_bytes(), type=Records)
        if kept.conditions == conditions:
            return kept
    return Records(conditions)


def save(path: Path, records: Records) -> None:
    """Write it whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.format(msgspec.json.encode(records), indent=1) + b"\n")
    os.replace(new, path)


_COLUMNS: Final = (
    ("rate", "requests_per_s"),
    ("MiB/s", "mib_per_s"),
    ("p50 ms", "p50_ms"),
    ("p99 ms", "p99_ms"),
    ("p99.9 ms", "p99_9_ms"),
    ("CPU us", "cpu_us_per_request"),
    ("bytes written a byte", "device_bytes_per_byte"),
)


def value(row: dict[str, Any], name: str) -> float | None:
    """A figure of a row; None: the row does not have it."""
    if name == "mib_per_s":
        figure = row["received_mib_per_s"] or row["metered_mib_per_s"]
    else:
        figure = row.get(name)
    return None if figure is None else float(figure)


def _spread(values: Sequence[float]) -> str:
    middle = median(values)
    text = f"{middle:,.4g}" if middle < 1000 else f"{middle:,.0f}"
    if len(values) == 1 or min(values) == max(values):
        return text
    return f"{text} ({min(values):,.4g} to {max(values):,.4g})"


def ratios(ours: Iterable[OneRun], theirs: Iterable[OneRun], part: int, name: str) -> list[float]:
    """Ours to theirs in each round that both have: what befell the machine in a round befell
    both."""
    by_round = {run.round_number: run for run in theirs}
    found = []
    for run in ours:
        other = by_round.get(run.round_number)
        if other is None:
            continue
        mine, its = value(run.rows[part], name), value(other.rows[part], name)
        if mine is not None and its:
            found.append(mine / its)
    return found


def tables(records: Records, ours: str, promises: dict[str, str], first: Sequence[str] = ()) -> str:
    """All of it for a document, with the disk's own figures above, and behind them `first`."""
    conditions, disk = records.conditions, records.disk_reference
    lines = [BEGIN, ""]
    lines.append(
        f"Commit `{conditions.commit}`, {conditions.machine}; the disk alone: "
        f"{disk.get('syncs_per_s', 0):,.0f} synced 4 KiB writes a second, p50 "
        f"{disk.get('p50_ms')} ms, p99 {disk.get('p99_ms')} ms."
    )
    lines += [f"Not to be had: {name} ({how})." for name, how in sorted(records.missing.items())]
    if first:
        lines += ["", *first]
    scenarios = list(dict.fromkeys(run.scenario for run in records.runs))
    for scenario in scenarios:
        runs = [run for run in records.runs if run.scenario == scenario]
        good = [run for run in runs if not run.trouble]
        lines += ["", f"### {scenario}", ""]
        lines += _table(good, ours, promises)
        lines += [
            f"- {run.side}, round {run.round_number + 1}: {run.trouble}"
            for run in runs
            if run.trouble
        ]
    return "\n".join([*lines, "", END])


def _table(runs: list[OneRun], ours: str, promises: dict[str, str]) -> list[str]:
    if not runs:
        return []
    head = [
        "side",
        "part",
        "runs",
        *(title for title, _ in _COLUMNS),
        "our rate to its",
        "our p50 to its",
    ]
    lines = [line(head), line(["---"] * len(head))]
    own = [run for run in runs if run.side == ours]
    for side in dict.fromkeys(run.side for run in runs):
        same = [run for run in runs if run.side == side]
        for part, first in enumerate(same[0].rows):
            marked = any(run.rows[part].get("generator_bound") for run in same)
            promise = f" ({promises[side]})" if promises.get(side) else ""
            cells = [side + promise, first["part"] + (" (!)" if marked else ""), str(len(same))]
            for _, name in _COLUMNS:
                values = [value(run.rows[part], name) for run in same]
                known = [one for one in values if one is not None]
                cells.append(_spread(known) if known else "")
            for name in ("requests_per_s", "p50_ms"):
                found = [] if side == ours else ratios(own, same, part, name)
                cells.append(_spread(found) if found else "")
            lines.append(line(cells))
    return lines


def line(cells: Iterable[str]) -> str:
    """One row of a table."""
    return "| " + " | ".join(cells) + " |"


def written(document: str, tables_text: str) -> str:
    """The document with the tables between its two marks. Raises ValueError without them."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no {BEGIN} and {END}")
    return before + tables_text + after
