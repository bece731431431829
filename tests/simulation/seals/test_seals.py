"""Groups that change their members: no seed breaks an invariant, and each mistake does."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import pytest

from tests.simulation.seals.options import HostMistake, draw
from tests.simulation.seals.world import run

SEEDS = int(os.environ.get("SEAL_SEEDS", "20"))
"""In tens."""

MISTAKES: dict[HostMistake, tuple[int, str]] = {
    HostMistake.DESTROYED_AT_SEAL: (38, "NOT_LIVE"),
    HostMistake.WIPED_AS_WHOLE: (30, "LEADER_LACKS"),
}
"""Of each mistake, a seed that shows it and the name under which it does."""

SEEDS_OF: dict[str, tuple[int, ...]] = {
    "what is behind a seal is no part of the group": (9, 14),
    "only who holds the seal stands": (9, 18),
    "damage outlives the seal": (133, 151),
    "nobody begins on a seal that is not committed": (0,),
    "feeds are decided entries": (0,),
    "nothing is proposed behind a seal": (1,),
    "nothing above the seal is kept": (9, 14),
    "without the seal only what is committed is kept": (9, 31),
}
"""For each rule, seeds that break an invariant without it: tests/mutants/seals.toml."""


@pytest.mark.parametrize("first", range(800_000, 800_000 + SEEDS, 10))
def test_no_seed_breaks_an_invariant(first: int) -> None:
    """Ten histories of seals, crashes, damage, lost disks, late application and unreliable links
    and pulls; all heal, and the newest configuration serves."""
    outcomes = [run(draw(seed)) for seed in range(first, first + 10)]
    assert [outcome for outcome in outcomes if outcome.violation is not None] == []
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts.update(outcome.counts)
        counts.update(acked=outcome.acked, reads=outcome.reads)
    assert counts["seals"] > 10
    assert counts["acked"] > 300
    assert counts["reads"] > 100
    assert counts["fed"] > 100
    assert counts["ended"] > 5
    assert counts["destroyed"] > 5
    assert counts["forgot_first"] > 0


@pytest.mark.parametrize("mistake", list(HostMistake))
def test_a_mistake_of_who_performs_is_caught(mistake: HostMistake) -> None:
    """The rules that stand outside of the engine have a seed each that needs them."""
    seed, name = MISTAKES[mistake]
    violation = run(replace(draw(seed), mistake=mistake)).violation
    assert violation is not None
    assert violation.split()[0] == name
    assert run(draw(seed)).violation is None


@pytest.mark.parametrize("rule", sorted(SEEDS_OF))
def test_seeds_in_which_a_rule_matters_hold(rule: str) -> None:
    """Histories that need the rule: each breaks an invariant in an engine without it."""
    broken = [run(draw(seed)).violation for seed in SEEDS_OF[rule]]
    assert broken == [None] * len(broken)


def test_one_seed_twice_is_one_history() -> None:
    """Everything sent, and when, is the same: a seed replays."""
    first, second = (run(draw(3, chaos_seconds=3.0)) for _ in range(2))
    assert first == second
    assert first.trace != run(draw(4, chaos_seconds=3.0)).trace
