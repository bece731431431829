"""The page of metrics names what is declared, for every stage of an append."""

from __future__ import annotations

import re

from tests.tidy.metric_names import ROOT, declared

PAGE = ROOT / "docs" / "operations" / "metrics.md"
STAGES = (
    *("the whole request", "queue before the sequencer", "write of the log", "fsync of the log"),
    *("round trip of a peer", "commit", "apply", "answer of a node", "lag of the event loop"),
    *("elections", "hand-overs", "snapshots", "scrub", "hibernation", "budgets in use"),
    "refusals by reason",
)


def rows() -> dict[str, set[str]]:
    """Names of metrics by what the page says they tell."""
    found = re.findall(r"^\| ([a-z][^|]*) \| ([^|]*`[^|]*) \|$", PAGE.read_text(), re.MULTILINE)
    return {stage: set(re.findall(r"`((?:svc|s2)_\w+)`", names)) for stage, names in found}


def test_each_stage_and_state_has_its_metric() -> None:
    """One row at least begins with each, and what it names is declared."""
    table = rows()
    for stage in STAGES:
        assert any(row.startswith(stage) and names for row, names in table.items()), stage
    named = set().union(*table.values())
    assert named <= set(declared().values()), named - set(declared().values())
