"""docs/reliability.md as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tests.prove.card import LOGS
from tests.prove.covered import COVERED
from tests.prove.line import Card, Line

COMMANDS: Final = (
    ("everything below, in turns", "make prove HOURS=8"),
    ("simulation", "python -m tests.simulation --seeds 2000 --record"),
    ("chaos on real processes", "python -m tests.chaos --rounds 100 --resume --record"),
    ("histories judged twice", "python -m tests.verdicts --record"),
    ("spoilt inputs", "make fuzz INPUTS=200000 FUZZ=--record"),
    ("soak", "make soak HOURS=2 ENDURE=--record"),
    ("load held at once", "make held ENDURE=--record"),
    ("crash points", "python -m tests.crashpoints --record"),
    ("corruption", "python -m tests.corruption --trials 1000 --record"),
    ("kill cycles", "RECORD=1 KILL_ROUNDS=100 pytest tests/e2e/test_kill_leader.py"),
    ("planned restarts", "RECORD=1 RESTART_ROUNDS=100 pytest tests/e2e/test_planned_restarts.py"),
    (
        "space",
        "RECORD=1 SPACE_MIB=2048 SPACE_OTHERS_MIB=512 SPACE_NODES=3 SPACE_SEGMENT_MIB=16 "
        "pytest --timeout 900 tests/e2e/test_space.py",
    ),
    ("usage", "python -m tests.chaos.usage_sums --kills 50 --record"),
    ("retries", "python -m tests.chaos.ambiguous --outcomes 2000 --record"),
    ("hostile clients", "make hostile"),
    ("planted bugs", "make mutants MUTANTS=--record"),
    ("power cuts", "RECORD=1 POWER_ROUNDS=100 pytest tests/e2e/test_power_loss.py"),
)


def page(
    card: Card,
    digests: dict[str, str],
    whole: Card | None = None,
    mutants: Sequence[dict[str, Any]] = (),
) -> str:
    """`digests`: of each kind of run, that of the files of today; `whole` counts runs on other
    files too, as what they are."""
    lines = [
        "# Reliability scorecard",
        "",
        "Made by `make scorecard` from `docs/reliability/*.jsonl`; do not edit. A run counts while",
        "the files that it is about are as they were (below), whatever commit they came with; one",
        "whose files changed while it ran does not count.",
        "",
        "| measure | target | so far | rate of failures, 95 % | |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {line.measure} | {line.target} | {line.figure} | {line.bound} | "
        f"{'reached' if line.reached else '**not reached**'} |"
        for line in card.lines
    ]
    lines += [
        "",
        "Zero failures in n trials mean a rate of at most 3/n; some failures, Wilson's interval.",
        "",
    ]
    if whole is not None and any(card.left_out.values()):
        lines += _earlier(whole.lines)
    if card.failures:
        lines += ["## Failures among the counted runs", ""]
        lines += [f"- {failure}" for failure in card.failures] + [""]
    lines += _voided_table(card)
    lines += _covered_table(digests) + _mutants_table(mutants) + _runs_table(card)
    lines += ["## How to add to it", "", "| what | command |", "|---|---|"]
    lines += [f"| {what} | `{command}` |" for what, command in COMMANDS]
    return "\n".join([*lines, ""])


def _earlier(lines: Sequence[Line]) -> list[str]:
    return [
        "## With runs on other files",
        "",
        "Every run that is recorded, on these files or earlier ones. It says what the tools have",
        "shown so far, not that the files of today were run as much.",
        "",
        "| measure | so far |",
        "|---|---|",
        *(f"| {line.measure} | {line.figure} |" for line in lines),
        "",
    ]


def _voided_table(card: Card) -> list[str]:
    if not card.voided:
        return []
    rows = [
        f"| {row['date'][:10]} | `{log}.jsonl` | "
        f"{row.get('seeds', row.get('round', row.get('seed', '')))} | {row['void']} |"
        for log, row in card.voided
    ]
    return [
        "## Rows that were taken back",
        "",
        "What failed there was the measuring, by whoever looked into it; they are in no figure.",
        "",
        "| date | log | seeds or round | why |",
        "|---|---|---|---|",
        *rows,
        "",
    ]


def _covered_table(digests: dict[str, str]) -> list[str]:
    lines = [
        "## What a change voids",
        "",
        "A change of a file, or in a folder, named here (of `svc_cluster`, where nothing else is",
        "said) makes these runs earlier ones. Records, other tests and documents void nothing.",
        "",
        "| runs | digest of the files | folders |",
        "|---|---|---|",
    ]
    for kind, rooms in COVERED.items():
        name = "simulation of the core" if kind == "core" else f"`{kind}.jsonl`"
        folders = ", ".join(f"`{room}`" for room in rooms)
        lines.append(f"| {name} | `{digests.get(kind, '')}` | {folders} |")
    return [*lines, ""]


def _runs_table(card: Card) -> list[str]:
    return [
        "## Runs",
        "",
        "| log | counted | left out: on other files |",
        "|---|---|---|",
        *(f"| `{name}.jsonl` | {card.counted[name]} | {card.left_out[name]} |" for name in LOGS),
        "",
    ]


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
