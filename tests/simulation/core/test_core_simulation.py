"""Seeds of the Raft-only simulator: with every repair none fails, without one some do."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Iterator

import pytest

from svc_cluster.raft.fixes import Fixes
from tests.simulation.core.options import draw
from tests.simulation.core.world import run

SEEDS = int(os.environ.get("CORE_SEEDS", "40"))
"""In twenties."""

KEPT_SEEDS = (4, 12, 44, 59, 1006, 1045, 1063, 1084)
"""Seeds that once failed, or that stand for a kind of failure."""

SEEDS_WITHOUT: dict[str, tuple[int, ...]] = {
    "h1_normalise": (2, 13, 17),
    "h3_ack_hold": (45, 83, 88),
    "h4_read_rounds": (17, 27),
    "h5a_commit_order": (13, 17, 22, 28, 48),
    "persist_first": (94, 133, 140, 168),
}
"""For each repair, seeds that fail without it; one is enough, the others are there because any
change of the engine's conversation changes a seed's history. The repairs not named here are shown
to be needed by directed tests in tests/unit/raft."""


@pytest.mark.parametrize("first", range(500_000, 500_000 + SEEDS, 20))
def test_no_seed_breaks_an_invariant(first: int) -> None:
    """Twenty histories of crashes, slow disks, partitions and late messages; all heal and
    converge."""
    outcomes = [run(draw(seed)) for seed in range(first, first + 20)]
    assert [outcome for outcome in outcomes if outcome.violation is not None] == []
    assert sum(outcome.acked for outcome in outcomes) > 500
    assert sum(outcome.reads for outcome in outcomes) > 100
    assert sum(outcome.crashes for outcome in outcomes) > 50


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_no_seed_under_load_breaks_an_invariant(first: int) -> None:
    """Ten shorter histories, each with many more proposals."""
    outcomes = [run(draw(seed, chaos_seconds=4.0, heavy=True)) for seed in range(first, first + 10)]
    assert [outcome for outcome in outcomes if outcome.violation is not None] == []
    assert sum(outcome.acked for outcome in outcomes) > 2_000
    assert sum(outcome.reads for outcome in outcomes) > 200
    assert sum(outcome.crashes for outcome in outcomes) > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", KEPT_SEEDS)
def test_seeds_that_once_failed_hold(seed: int) -> None:
    """The whole length of a history that found a fault in the engine, the adapter or the tests."""
    assert run(draw(seed, heavy=True)).violation is None


@pytest.mark.slow
def test_a_replica_far_behind_is_given_the_time_to_catch_up() -> None:
    """A heavy load in answers of one entry: the slowest replica is not late, it has more to do."""
    assert run(draw(16_759)).violation is None


def test_one_seed_twice_is_one_history() -> None:
    """Everything sent, and when, is the same: a seed replays."""
    first, second = (run(draw(3, chaos_seconds=3.0)) for _ in range(2))
    assert first == second
    assert first.trace != run(draw(4, chaos_seconds=3.0)).trace


@pytest.fixture
def quiet_library() -> Iterator[None]:
    """The library reports truncations of what it has applied, which are wanted here."""
    logger = logging.getLogger("pysyncobj")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(level)


@pytest.mark.slow
@pytest.mark.usefixtures("quiet_library")
@pytest.mark.parametrize("switch", sorted(SEEDS_WITHOUT))
def test_the_simulator_finds_what_a_missing_repair_does(switch: str) -> None:
    """With one repair switched off, at least one of its seeds breaks an invariant."""
    fixes = dataclasses.replace(Fixes(), **{switch: False})
    for seed in SEEDS_WITHOUT[switch]:
        if run(draw(seed, fixes=fixes)).violation is not None:
            return
    pytest.fail(f"no seed of {SEEDS_WITHOUT[switch]} fails without {switch}")
