"""`python -m tests.prove.scorecard`: docs/reliability.md out of docs/reliability/*.jsonl.

A run counts for a measure while the files that it is about (`covered.py`) have the content that
they had when it ran. Commits that add records, other tests or documents change nothing there.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from tests.json_lines import read_rows
from tests.prove.card import LOGS, TURNS, make_card
from tests.prove.covered import COVERED, digest
from tests.prove.line import Card, Rows
from tests.prove.page import page
from tests.reliability import CHANGED, DIRECTORY, ROOT

PAGE: Final = ROOT / "docs" / "reliability.md"


def read_logs() -> Rows:
    return {name: read_rows(DIRECTORY / f"{name}.jsonl") for name in (*LOGS, TURNS)}


def is_current(digests: dict[str, str], kind: str, row: dict[str, Any]) -> bool:
    return row.get("files") == digests[kind]


def was_whole(row: dict[str, Any]) -> bool:
    """Whether a run was of some files: recorded on a clean checkout before digests were."""
    if "files" in row:
        return bool(row["files"] != CHANGED)
    return not str(row.get("commit", "+")).endswith("+")


def current_card() -> Card:
    """Of the files of now."""
    digests = {kind: digest(kind) for kind in COVERED}
    return make_card(read_logs(), lambda kind, row: is_current(digests, kind, row))


def main() -> int:
    digests = {kind: digest(kind) for kind in COVERED}
    rows = read_logs()
    card = make_card(rows, lambda kind, row: is_current(digests, kind, row))
    whole = make_card(rows, lambda _, row: was_whole(row))
    PAGE.write_text(page(card, digests, whole, read_rows(DIRECTORY / "mutants.jsonl")))
    for line in card.lines:
        mark = "ok " if line.reached else "-- "
        print(f"{mark}{line.measure}: {line.figure} (target {line.target})")
    for failure in card.failures:
        print(f"FAILURE {failure}")
    return 1 if card.failures else 0


if __name__ == "__main__":
    sys.exit(main())
