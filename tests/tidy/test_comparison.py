"""What the comparison calls tried was tried: its figures are there, or the test that does it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.comparison.peers import OURS, PEERS
from tests.comparison.records import BEGIN, END, Conditions, OneRun, Records, tables

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "`make compare`"


def looked_at(page: str) -> dict[str, str]:
    """Return how each system was looked at, by the first word of its name or both of `s2 lite`."""
    rows = [[cell.strip() for cell in line.split("|")] for line in page.splitlines()]
    (names,) = (row for row in rows if OURS in row)
    (told,) = (row for row in rows if "looked at" in row)
    return {name: text for name, text in zip(names, told, strict=True) if name not in ("", OURS)}


def measured(page: str) -> set[str]:
    """Return the sides that have a row of figures between the marks, but for ours."""
    block = page[page.index(BEGIN) : page.index(END)]
    first = re.findall(r"^\| *([^|(]+?) *(?:\([^|]*)?\|", block, re.MULTILINE)
    return {side for side in first if side not in ("side", "---", OURS)}


def untrue(told: dict[str, str], sides: set[str]) -> list[str]:
    """Return what is called tried by a command that has brought no figures, or by a test that is
    not there, and what has figures and is not called tried."""
    found = []
    for name, text in told.items():
        words = {word for word in re.split(r"\W+", name.lower()) if word}
        has_row = any(words & set(re.split(r"\W+", side.lower())) for side in sides)
        if (COMMAND in text) != has_row:
            found.append(f"{name}: {COMMAND} {'brought' if has_row else 'has no'} figures")
        tests = re.findall(r"`(tests/[^`]+)`", text)
        found += [f"{name}: {path} is not there" for path in tests if not (ROOT / path).exists()]
        if "tried" in text and COMMAND not in text and not tests:
            found.append(f"{name}: nothing is named that tried it")
    return found


def test_what_was_tried_has_its_figures_or_its_test() -> None:
    """And what has figures is called tried; all else was read."""
    told = looked_at((ROOT / "docs/comparison.md").read_text())
    assert untrue(told, measured((ROOT / "docs/benchmarks.md").read_text())) == []
    assert all(text == "read" or "tried" in text for text in told.values())


@pytest.mark.parametrize(
    ("text", "sides", "fault"),
    [
        ("read", set(), []),
        ("tried: appends (`make compare`); the rest read", {"NATS"}, []),
        (
            "tried: appends (`make compare`)",
            set(),
            ["NATS JetStream: `make compare` has no figures"],
        ),
        ("read", {"NATS"}, ["NATS JetStream: `make compare` brought figures"]),
        ("tried", set(), ["NATS JetStream: nothing is named that tried it"]),
        ("tried (`tests/tidy/test_comparison.py`)", {"etcd, gRPC"}, []),
        ("tried (`tests/none.py`)", set(), ["NATS JetStream: tests/none.py is not there"]),
    ],
)
def test_a_claim_without_its_ground_is_found(text: str, sides: set[str], fault: list[str]) -> None:
    """In either direction."""
    assert untrue({"NATS JetStream": text}, sides) == fault


def test_rows_of_figures_are_found_as_the_command_writes_them() -> None:
    """For each peer there is, with what it promises behind its name."""
    records = Records(Conditions("abc", "a machine", 1.0, 0.5, 1.0))
    row = {"part": "append", "requests_per_s": 1.0, "p50_ms": 1.0}
    row |= {"received_mib_per_s": 0.0, "metered_mib_per_s": 1.0}
    for side in (OURS, *(peer.name for peer in PEERS)):
        records.add(OneRun("unary-1", side, 0, [row]))
    page = tables(records, OURS, {peer.name: peer.promise for peer in PEERS})
    assert measured(page) == {peer.name for peer in PEERS}
    assert measured(f"{BEGIN}\n\nNot measured yet.\n\n{END}") == set()
