"""Seeds of the Raft-only simulator: none breaks an invariant."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.base.log_ops import LogEntry
from tests.simulation.core.checkers import ViolationError
from tests.simulation.core.options import draw
from tests.simulation.core.world import World, run

SEEDS = int(os.environ.get("CORE_SEEDS", "40"))
"""In twenties."""

KEPT_SEEDS = (4, 12, 44, 59, 1006, 1045, 1063, 1084)
"""Seeds that once failed, or that stand for a kind of failure."""

SEEDS_OF: dict[str, tuple[int, ...]] = {
    "a follower keeps a tail that merely is longer": (2, 13, 17),
    "a leader counts itself when its own log is durable": (131, 231, 302),
    "a read is confirmed behind its beginning": (17, 27),
    "a commit index is written behind what it commits": (13, 17, 22, 28, 48),
    "promises wait until they are durable": (94, 133, 140, 168),
}
"""For each rule, seeds that break an invariant where it does not hold (tests/mutants/raft.toml).
One is enough; the others are there because any change of the engine's conversation changes a
seed's history."""


@pytest.mark.parametrize("first", range(500_000, 500_000 + SEEDS, 20))
def test_no_seed_breaks_an_invariant(first: int) -> None:
    """Twenty histories of crashes, slow disks, partitions and late messages; all heal and
    converge."""
    outcomes = [run(draw(seed)) for seed in range(first, first + 20)]
    assert [outcome for outcome in outcomes if outcome.violation is not None] == []
    assert sum(outcome.acked for outcome in outcomes) > 500
    assert sum(outcome.reads for outcome in outcomes) > 100
    assert sum(outcome.crashes for outcome in outcomes) > 50


@pytest.mark.parametrize("first", range(600_000, 600_000 + SEEDS // 2, 20))
def test_no_lost_disk_breaks_an_invariant(first: int) -> None:
    """The same with disks that are lost for good, one at a time: their replicas count for nothing
    until they are repaired, and are repaired."""
    drawn = [replace(draw(seed), loses_disks=True) for seed in range(first, first + 20)]
    outcomes = [run(options) for options in drawn]
    assert [outcome for outcome in outcomes if outcome.violation is not None] == []
    assert sum(outcome.lost_disks for outcome in outcomes) > 20
    assert sum(outcome.repairs for outcome in outcomes) > 20


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_no_seed_under_load_breaks_an_invariant(first: int) -> None:
    """Ten shorter histories, each with many more proposals."""
    outcomes = [run(draw(seed, chaos_seconds=4.0, heavy=True)) for seed in range(first, first + 10)]
    assert [outcome for outcome in outcomes if outcome.violation is not None] == []
    assert sum(outcome.acked for outcome in outcomes) > 2_000
    assert sum(outcome.reads for outcome in outcomes) > 200
    assert sum(outcome.crashes for outcome in outcomes) > 10


@pytest.mark.parametrize("seed", KEPT_SEEDS)
def test_seeds_that_once_failed_hold(seed: int) -> None:
    """The whole length of a history that found a fault in the engine, the adapter or the tests."""
    assert run(draw(seed, heavy=True)).violation is None


def test_a_leader_of_a_term_that_is_over_may_lack_what_a_later_one_chose() -> None:
    """Its own vote took 0.8 s to its disk; by then the next term had a leader that committed. Seed
    1009004 was taken for a loss."""
    assert run(draw(1_009_004)).violation is None


def test_a_leader_that_lacks_what_was_chosen_before_its_term_is_seen() -> None:
    """The checker by itself: the same log, as a leader of the term that chose more, and of the one
    behind it."""
    world = World(draw(3, adversarial=False, chaos_seconds=2.0))
    assert world.run().violation is None
    checkers = world.checkers
    group = next(n.life.group for n in world.nodes.values() if n.life and n.life.group.can_propose)
    last = LogIndex(len(checkers.chosen) + 1)
    for term, is_missed in ((group.term, False), (Term(group.term - 1), True)):
        checkers.chosen[last] = LogEntry(last, term, b"x")
        checkers.chosen_by[last] = term
        checkers.leaders.clear()
        if is_missed:
            with pytest.raises(ViolationError, match="LEADER_LACKS"):
                checkers.on_leader(NodeId(1), group)
        else:
            checkers.on_leader(NodeId(1), group)


def test_a_replica_far_behind_is_given_the_time_to_catch_up() -> None:
    """A heavy load in answers of one entry: the slowest replica is not late, it has more to do."""
    assert run(draw(16_759)).violation is None


def test_one_seed_twice_is_one_history() -> None:
    """Everything sent, and when, is the same: a seed replays."""
    first, second = (run(draw(3, chaos_seconds=3.0)) for _ in range(2))
    assert first == second
    assert first.trace != run(draw(4, chaos_seconds=3.0)).trace


@pytest.mark.parametrize("rule", sorted(SEEDS_OF))
def test_seeds_in_which_a_rule_matters_hold(rule: str) -> None:
    """Histories that need the rule: each breaks an invariant in an engine without it."""
    broken = [seed for seed in SEEDS_OF[rule] if run(draw(seed)).violation is not None]
    assert broken == []
