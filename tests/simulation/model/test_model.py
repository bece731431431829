"""Sealed configurations in the abstract: no walk breaks an invariant, and each mistake does."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.model.directed import Directed
from tests.simulation.model.ledger import ViolationError
from tests.simulation.model.mistakes import NONE, Mistake, Mistakes
from tests.simulation.model.walk import Options, run

RUNS = 200

CAUGHT: dict[str, tuple[Mistakes, int, str]] = {
    "a commit behind the seal counts": (
        frozenset({Mistake.NO_CAP}),
        170,
        "DIVERGENCE",
    ),
    "who does not hold the seal stands": (
        frozenset({Mistake.STANDS_WITHOUT_SEAL}),
        21,
        "LEADER_LACKS",
    ),
    "damage is forgotten at the seal": (
        frozenset({Mistake.DAMAGED_AS_FRESH}),
        302,
        "TWO_LEADERS",
    ),
    "an ended configuration is answered": (
        frozenset({Mistake.OLD_ANSWERS}),
        9,
        "TWO_LEADERS",
    ),
    "configurations are not told apart": (
        frozenset({Mistake.ANY_CONFIGURATION}),
        8,
        "NOT_LIVE",
    ),
    "a configuration begins uncommitted": (
        frozenset({Mistake.START_UNCOMMITTED}),
        3297,
        "LEADER_LACKS",
    ),
    "learners hold what is not decided": (
        frozenset({Mistake.FEED_UNCOMMITTED}),
        31,
        "DIVERGENCE",
    ),
    "an empty disk is taken for a whole one": (
        frozenset({Mistake.WIPED_AS_WHOLE}),
        12,
        "LEADER_LACKS",
    ),
    "two disks are one replica": (
        frozenset({Mistake.IN_PLACE, Mistake.NO_FENCE}),
        25,
        "LEADER_LACKS",
    ),
    "what is refused stays in the log": (
        frozenset({Mistake.PROPOSE_AFTER_SEAL, Mistake.KEEP_TAIL}),
        0,
        "FAILED_TOOK_EFFECT",
    ),
    "copies go at the seal": (
        frozenset({Mistake.DESTROY_EARLY}),
        5,
        "NOT_LIVE",
    ),
}
"""Mistakes, the seed of a walk that shows them, and the name under which it does."""


@pytest.mark.parametrize("first", range(0, RUNS, 100))
def test_no_walk_breaks_an_invariant(first: int) -> None:
    """Seals of 1, 3 and 5 members, crashes, damage, lost disks and mail that is late, twice or
    lost: nothing acknowledged is missed, and all come to serve again."""
    outcomes = [run(Options(seed)) for seed in range(first, first + 100)]
    assert [outcome for outcome in outcomes if outcome.violation is not None] == []
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts.update(outcome.counts)
    assert counts["seals"] > 50
    assert counts["acked"] > 500
    assert counts["reads"] > 200
    assert counts["repairs"] > 20
    assert counts["lost_disks"] > 20


@pytest.mark.parametrize("mistake", sorted(CAUGHT))
def test_a_mistake_is_caught_by_its_name(mistake: str) -> None:
    """The same walk without the rule ends with the violation that the rule forbids, and with the
    rule in none."""
    mistakes, seed, name = CAUGHT[mistake]
    violation = run(Options(seed, mistakes=mistakes)).violation
    assert violation is not None
    assert violation.split()[0] == name
    assert run(Options(seed)).violation is None


@pytest.mark.parametrize("alone", [Mistake.PROPOSE_AFTER_SEAL, Mistake.KEEP_TAIL])
def test_a_mistake_that_another_rule_makes_up_for_is_harmless(alone: Mistake) -> None:
    """A proposal behind a seal is removed with the tail, and without one the tail is no-ops."""
    outcomes = [run(Options(seed, mistakes=frozenset({alone}))) for seed in range(50)]
    assert [outcome for outcome in outcomes if outcome.violation is not None] == []


def test_a_leader_that_applies_late_answers_no_read_behind_its_seal() -> None:
    """Its successor serves already, among members that it does not know; a read that it started
    would be confirmed and miss what is acknowledged there."""
    assert Directed(NONE).run() == 0
    with pytest.raises(ViolationError, match="STALE_READ"):
        Directed(frozenset({Mistake.READ_AFTER_SEAL})).run()


def test_every_mistake_is_shown() -> None:
    """None of the list is left without a history that needs its rule."""
    shown = {mistake for mistakes, _, _ in CAUGHT.values() for mistake in mistakes}
    assert shown | {Mistake.READ_AFTER_SEAL} == set(Mistake)


def test_one_seed_twice_is_one_walk() -> None:
    """A seed replays, and another one is another walk."""
    assert run(Options(3)) == run(Options(3))
    assert run(Options(3)).counts != run(Options(4)).counts
