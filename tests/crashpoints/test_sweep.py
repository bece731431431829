"""Some crash points of every scenario; `python -m tests.crashpoints` goes through all of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.crashpoints.sweep import SCENARIOS, Scenario, sweep
from tests.e2e.power import build_shim, compiler

POINTS = {"single": 4, "payload": 4, "restart": 2, "snapshot": 2}

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler: no shim that kills")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_node_killed_at_any_call_boots_and_lost_nothing(
    scenario: Scenario, tmp_path: Path
) -> None:
    """Points spread over the whole run, every other one with a power cut behind it."""
    count = POINTS[scenario.name]
    shim = build_shim(tmp_path)
    outcome = asyncio.run(sweep(tmp_path / "sweep", shim, scenario, spread=count))
    print(outcome.fields())
    assert not outcome.violations, outcome.violations
    assert outcome.covered == outcome.tried == count
    assert outcome.total > 50


def test_without_fsync_the_same_points_lose_records(tmp_path: Path) -> None:
    """The control: with fsync made to do nothing, power cuts at the same points must be noticed,
    or the test above proves nothing."""
    shim = build_shim(tmp_path)
    single = SCENARIOS[0]
    outcome = asyncio.run(
        sweep(tmp_path / "sweep", shim, single, offset=300, stride=1000, ignore_sync=True)
    )
    assert outcome.power_cuts == 1
    assert outcome.violations
