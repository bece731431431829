"""The simulation can fail: bugs planted on purpose are noticed, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.planted import PLANTED, hunt

QUICK = (
    "append is never sent",
    "half a batch",
    "match ignored",
    "old tail",
    "trim is not carried out",
    "event stream leaves out a batch",
    "deleted stream is still there",
    "one replica loses a batch",
)
"""Those that take few seeds; `python -m tests.simulation.planted` hunts them all."""


@pytest.mark.parametrize("bug", QUICK)
def test_planted_bug_is_noticed(bug: str) -> None:
    """Within a few seeds some check fails, and passes in the same seed without the bug."""
    caught = hunt(PLANTED[bug], 60)
    assert caught.by is not None, f"{caught.seeds} seeds did not notice it"


def test_every_planted_bug_is_listed() -> None:
    """The list that people read is the list that is hunted."""
    lines = (Path(__file__).parent / "planted.md").read_text().splitlines()
    names = [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
    assert [name for name in names if name != "bug"] == list(PLANTED)
