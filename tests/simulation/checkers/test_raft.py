"""Each invariant fires on the history that breaks it, and on no other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.linearizability.history import Append, Outcome, Read, SeenRecord
from tests.simulation.checkers.acked import AckedChecker
from tests.simulation.checkers.raft import InvariantError, Probe, RaftChecker


def _probe(
    *,
    term: int = 1,
    leads: bool = False,
    log: Sequence[int] = (),
    commit: int = 0,
    applied: int | None = None,
    base: int = 0,
    digest: str | None = None,
) -> Probe:
    """`log` holds the terms of the entries from `base` + 1 on."""
    applied = commit if applied is None else applied

    def term_at(log_index: int) -> int | None:
        if log_index == 0:
            return 0
        return log[log_index - base - 1] if base < log_index <= base + len(log) else None

    return Probe(
        7, leads, term, commit, applied, base, base + len(log), digest or f"s{applied}", term_at
    )


Step = tuple[int, int, Probe]
"""(node, incarnation, probe)"""


def _play(*steps: Step) -> RaftChecker:
    checker = RaftChecker()
    for node, incarnation, probe in steps:
        checker.observe(node, incarnation, [probe])
    return checker


BROKEN: dict[str, tuple[Step, ...]] = {
    "one-leader-per-term": ((1, 1, _probe(leads=True)), (2, 1, _probe(leads=True))),
    "term-never-regresses": ((1, 1, _probe(term=3, leads=True)), (1, 2, _probe(term=2))),
    "commit-monotone": (
        (1, 1, _probe(log=(1, 1), commit=2)),
        (1, 1, _probe(log=(1, 1), commit=1)),
    ),
    "applied-monotone": (
        (1, 1, _probe(log=(1, 1), commit=2)),
        (1, 1, _probe(log=(1, 1), commit=2, applied=1)),
    ),
    "applied-within-commit": ((1, 1, _probe(log=(1, 1), commit=1, applied=2)),),
    "log-matching": (
        (1, 1, _probe(term=3, log=(1, 1, 3))),
        (2, 1, _probe(term=3, log=(1, 2, 3))),
    ),
    "log-terms-grow": ((1, 1, _probe(term=3, log=(1, 3, 2))),),
    "committed-for-ever": (
        (1, 1, _probe(term=2, log=(1, 1), commit=2)),
        (2, 1, _probe(term=2, log=(1, 2), commit=2)),
    ),
    "leader-completeness": (
        (1, 1, _probe(term=1, log=(1, 1), commit=2)),
        (2, 1, _probe(term=2, leads=True, log=(1,))),
    ),
    "same-index-same-state": (
        (1, 1, _probe(log=(1, 1), commit=2, digest="x")),
        (2, 1, _probe(log=(1, 1), commit=2, digest="y")),
    ),
}


@pytest.mark.parametrize("invariant", list(BROKEN))
def test_broken_invariant_is_named(invariant: str) -> None:
    """The smallest history that breaks an invariant raises, with its name."""
    with pytest.raises(InvariantError, match=invariant):
        _play(*BROKEN[invariant])


def test_leader_with_another_entry_at_a_committed_place_is_caught() -> None:
    """Length alone does not make a leader complete."""
    with pytest.raises(InvariantError, match="leader-completeness"):
        _play(
            (1, 1, _probe(term=2, log=(1, 2), commit=2)),
            (2, 1, _probe(term=3, leads=True, log=(1, 1, 1))),
        )


def test_an_ordinary_life_passes() -> None:
    """Election, commits, a truncated tail, a crash that loses applied state, a new leader, a log
    that was trimmed: nothing is broken."""
    checker = _play(
        (1, 1, _probe(term=1, leads=True, log=(1, 1, 1), commit=2)),
        (2, 1, _probe(term=1, log=(1, 1), commit=1)),
        (3, 1, _probe(term=1, log=(1, 1), commit=0)),
        (2, 1, _probe(term=2, leads=True, log=(1, 1, 2), commit=2)),
        (1, 1, _probe(term=2, log=(1, 1, 2), commit=3)),
        (1, 2, _probe(term=2, log=(1, 1, 2), commit=2, applied=1)),
        (1, 2, _probe(term=2, log=(2,), base=2, commit=3)),
        (3, 1, _probe(term=2, log=(1, 1, 2), commit=3)),
    )
    assert checker.elections == 2
    assert checker.looks == 8


def test_a_stale_leader_need_not_be_complete() -> None:
    """A deposed leader that has not noticed lacks what was committed after it."""
    _play(
        (1, 1, _probe(term=2, leads=True, log=(1, 2), commit=2)),
        (2, 1, _probe(term=1, leads=True, log=(1,), commit=1)),
    )


def test_a_replaced_disk_may_know_nothing() -> None:
    """After `forget_disk` a lower term is no regression."""
    checker = _play((1, 1, _probe(term=5)))
    checker.forget_disk(1)
    checker.observe(1, 2, [_probe(term=0)])


def _acked() -> AckedChecker:
    checker = AckedChecker("s")
    checker.acknowledged(Append(1, 0, 1, ("a", "b"), Outcome.OK, start=0, end=2))
    return checker


def test_a_lost_acknowledged_record_is_caught() -> None:
    """The final read lacks one, or holds another in its place."""
    with pytest.raises(InvariantError, match="acked-never-lost"):
        _acked().final([SeenRecord(0, 0, "a")])
    with pytest.raises(InvariantError, match="acked-never-lost"):
        _acked().final([SeenRecord(0, 0, "a"), SeenRecord(1, 0, "x")])
    _acked().final([SeenRecord(0, 0, "a"), SeenRecord(1, 0, "b"), SeenRecord(2, 0, "c")])


def test_a_read_of_something_else_is_caught_at_once() -> None:
    """Not only at the end."""
    with pytest.raises(InvariantError, match="acked-never-lost"):
        _acked().seen(Read(2, 2, 3, 1, (SeenRecord(1, 0, "x"),)))


def test_one_place_is_acknowledged_once() -> None:
    """Two appends that both got the same place are caught by their acknowledgements alone."""
    with pytest.raises(InvariantError, match="acked-once"):
        _acked().acknowledged(Append(2, 2, 3, ("c",), Outcome.OK, start=1, end=2))
    with pytest.raises(InvariantError, match="ack-covers-batch"):
        _acked().acknowledged(Append(2, 2, 3, ("c",), Outcome.OK, start=2, end=4))


def test_another_digest_is_excused_of_the_harmed_replica_alone() -> None:
    """What was changed behind a replica's back is no fault of the program; what the others hold is
    compared as ever, and the harmed one's digest is nobody's measure."""
    checker = RaftChecker()
    checker.is_harmed = lambda node, group_id: node == 1
    checker.observe(1, 1, [_probe(log=(1, 1), commit=2, digest="harmed")])
    checker.observe(2, 1, [_probe(log=(1, 1), commit=2, digest="x")])
    with pytest.raises(InvariantError, match="same-index-same-state"):
        checker.observe(3, 1, [_probe(log=(1, 1), commit=2, digest="y")])
