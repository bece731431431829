"""Whole clusters under faults: a share of the seeds, and the proof that a seed can be replayed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import SIMULATED
from tests.simulation.cluster import simulate
from tests.simulation.options import Options

ROOT = Path(__file__).resolve().parents[2]
SEEDS = int(os.environ.get("SIMULATION_SEEDS", "20"))
SECONDS = float(os.environ.get("SIMULATION_SECONDS", "25"))
ROT_SEEDS = int(os.environ.get("SIMULATION_ROT_SEEDS", "2"))
HARM_SEEDS = int(os.environ.get("SIMULATION_HARM_SEEDS", "2"))
REGRESSIONS = Path(__file__).parent / "seeds" / "cluster.txt"
CHANGING = REGRESSIONS.with_name("changing.txt")
"""Those of seeds in which members and releases may change."""

_REPLAY = """
import sys
from tests.conftest import SIMULATED
from tests.simulation.cluster import simulate
from tests.simulation.options import Options
from dataclasses import replace
import random
seed = int(sys.argv[1])
options = replace(Options.draw(random.Random(f"{seed}/options")), safety_s=15.0)
sys.stdout.buffer.write(simulate(seed, options, keep_trace=True).trace)
"""


def _options(seed: int) -> Options:
    return replace(Options.draw(random.Random(f"{seed}/options")), safety_s=SECONDS)


def _kept(seed: int, safety_s: float) -> Options:
    """What the seed drew when it was kept."""
    options = Options.draw_unchanging(random.Random(f"{seed}/options"))
    return replace(options, safety_s=safety_s)


def _kept_changing(seed: int) -> Options:
    """The same of seeds in which members and releases change, before there were lost disks and
    drained nodes in any."""
    drawn = Options.draw(random.Random(f"{seed}/options"))
    options = _kept(seed, 40.0)
    options.nodes, options.older_nodes, options.moves = drawn.nodes, drawn.older_nodes, drawn.moves
    return options


def regression_seeds(path: Path = REGRESSIONS) -> list[int]:
    """The first word of each line that is no comment."""
    lines = path.read_text().splitlines()
    return [int(line.split()[0]) for line in lines if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("seed", range(1_000, 1_000 + SEEDS))
def test_cluster_survives_a_seed(seed: int, record_property: Callable[[str, object], None]) -> None:
    """Nothing acknowledged is lost, every history is linearizable, and the healed cluster lives."""
    report = simulate(seed, _options(seed))
    totals = {
        "seeds": 1,
        "virtual_seconds": round(report.virtual_s),
        "acked": report.acked,
        "unknown": report.unknown,
        "reads": report.reads,
        "crashes": report.crashes,
        "elections": report.elections,
        "snapshots": report.snapshots,
        "trims": report.trims,
        "event_batches": report.event_batches,
        "session_batches": report.session_batches,
        "lives": report.lives,
    }
    record_property(SIMULATED, totals)
    assert report.acked > 0 and report.looks > 0


@pytest.mark.parametrize("seed", range(30_000, 30_000 + ROT_SEEDS))
def test_cluster_survives_logs_that_decay(seed: int) -> None:
    """Bits change and writes go astray in the log of one node at a time, among all other faults:
    nothing wrong is ever served, and the node is made whole again by the others."""
    simulate(seed, replace(_kept(seed, 40.0), rot=True))


@pytest.mark.parametrize("seed", range(40_006, 40_006 + HARM_SEEDS))
def test_cluster_survives_records_that_vanish_or_change(seed: int) -> None:
    """Behind one replica's back at a time, leaders among them, and among all other faults: within a
    round it is found and repaired from the others, and nobody ever reads anything of it."""
    report = simulate(seed, replace(_kept(seed, 30.0), harm=True))
    assert report.faults.get("harm"), "there was some"


@pytest.mark.parametrize("seed", regression_seeds())
def test_seed_that_once_failed_passes(seed: int) -> None:
    """Every seed that ever found something is played again on each change."""
    simulate(seed, _kept(seed, 60.0))


@pytest.mark.parametrize("seed", regression_seeds(CHANGING))
def test_seed_that_once_failed_while_members_changed_passes(seed: int) -> None:
    """The same of seeds that draw what came later."""
    simulate(seed, _kept_changing(seed))


@pytest.mark.parametrize("seed", [84_006])
def test_a_log_that_decays_on_the_way_ends_a_move(seed: int) -> None:
    """84006: the copy for which a basin moved was made on a node whose log had lost frames, said
    that it was damaged, and was waited for without end."""
    simulate(seed, replace(_kept_changing(seed), rot=True))


def _replay(seed: int, hash_seed: str) -> bytes:
    done = subprocess.run(
        [sys.executable, "-c", _REPLAY, str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()[-2_000:]
    return done.stdout


@pytest.mark.parametrize("seed", [3, 7, 11])
def test_cluster_seed_gives_the_same_trace_in_every_process(seed: int) -> None:
    """The real nodes too: byte-equal under different hash seeds."""
    first, again = _replay(seed, "1"), _replay(seed, "777")
    assert len(first.splitlines()) > 100
    assert first == again
