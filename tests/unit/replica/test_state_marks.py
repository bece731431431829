"""Comparing the states of replicas: who asks, who answers when, and who is told to be wrong."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.raft.messages import MarkKind, StateMark
from svc_cluster.replica.state_marks import REMEMBERED, StateMarks

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
MEMBERS = (ONE, TWO, THREE)
TERM = Term(4)
OLD, NEW = 1, 2
"""Encodings."""


def _mark(log_index: int, digest: int, kind: MarkKind, encoding: int = OLD) -> StateMark:
    return StateMark(TERM, LogIndex(log_index), digest, kind, encoding)


def _at(node: NodeId, log_index: int, digest: int, encoding: int = OLD) -> StateMarks:
    marks = StateMarks(node, MEMBERS, encoding)
    assert marks.applied(LogIndex(log_index), digest) == []
    return marks


def _round(
    digests: dict[NodeId, int], encodings: dict[NodeId, int] | None = None
) -> dict[NodeId, StateMarks]:
    """Node 1 leads; everybody is at index 9 with these digests; all messages are delivered."""
    versions = encodings or {}
    replicas = {
        node: _at(node, 9, digest, versions.get(node, OLD)) for node, digest in digests.items()
    }
    waiting = [(ONE, *out) for out in replicas[ONE].ask(TERM, LogIndex(9), digests[ONE])]
    while waiting:
        sender, to, mark = waiting.pop(0)
        if to in replicas:
            waiting += [(to, *out) for out in replicas[to].received(sender, mark)]
    return replicas


def _diverged(digests: dict[NodeId, int]) -> list[NodeId]:
    return [node for node, marks in _round(digests).items() if marks.diverged]


def test_equal_states_are_left_alone() -> None:
    """Nobody is told anything when all three say the same."""
    assert _diverged({ONE: 5, TWO: 5, THREE: 5}) == []


def test_the_odd_one_out_is_told_whoever_it_is() -> None:
    """Two of three are right, also against the leader."""
    assert _diverged({ONE: 5, TWO: 6, THREE: 5}) == [TWO]
    assert _diverged({ONE: 5, TWO: 5, THREE: 6}) == [THREE]
    assert _diverged({ONE: 6, TWO: 5, THREE: 5}) == [ONE]


def test_without_a_quorum_nobody_is_condemned() -> None:
    """Two that differ, or three that all differ: the round is in doubt."""
    for digests in ({ONE: 5, TWO: 6}, {ONE: 5, TWO: 6, THREE: 7}):
        replicas = _round(digests)
        assert not any(marks.diverged for marks in replicas.values())
        assert replicas[ONE].undecided
    assert not _round({ONE: 5, TWO: 5})[ONE].undecided


def test_a_follower_behind_answers_when_it_gets_there() -> None:
    """The question waits for exactly its index."""
    marks = _at(TWO, 7, 70)
    assert marks.received(ONE, _mark(9, 90, MarkKind.QUESTION)) == []
    assert marks.applied(LogIndex(8), 80) == []
    assert marks.applied(LogIndex(9), 91) == [(ONE, _mark(9, 91, MarkKind.ANSWER))]
    assert marks.applied(LogIndex(10), 100) == []


def test_a_follower_ahead_answers_from_what_it_remembers() -> None:
    """The digest at the index asked for, not the newest one; silence when that is forgotten."""
    marks = _at(TWO, 9, 90)
    for log_index in range(10, 9 + REMEMBERED):
        marks.applied(LogIndex(log_index), 10 * log_index)
    assert marks.received(ONE, _mark(9, 1, MarkKind.QUESTION)) == [
        (ONE, _mark(9, 90, MarkKind.ANSWER))
    ]
    marks.applied(LogIndex(9 + REMEMBERED), 1)
    assert marks.received(ONE, _mark(9, 1, MarkKind.QUESTION)) == []


def test_a_verdict_on_something_else_means_nothing() -> None:
    """Only the digest that was told last can be judged; late answers of older rounds are not
    counted."""
    marks = _at(TWO, 9, 90)
    marks.received(ONE, _mark(9, 90, MarkKind.QUESTION))
    marks.received(ONE, _mark(8, 1, MarkKind.VERDICT))
    marks.received(ONE, _mark(9, 90, MarkKind.VERDICT))
    assert not marks.diverged
    leader = _at(ONE, 9, 90)
    leader.ask(TERM, LogIndex(9), 90)
    assert leader.received(TWO, _mark(8, 1, MarkKind.ANSWER)) == []
    assert leader.received(THREE, _mark(8, 1, MarkKind.ANSWER)) == []
    assert not leader.diverged


@pytest.mark.parametrize("new", MEMBERS)
def test_two_old_replicas_do_not_judge_one_of_a_new_encoding(new: NodeId) -> None:
    """The digest of the new one, the leader's or a follower's, is another one by right: there is no
    verdict against it and no doubt, in either direction."""
    digests = {node: 6 if node == new else 5 for node in MEMBERS}
    replicas = _round(digests, {new: NEW})
    assert not any(marks.diverged for marks in replicas.values())
    assert not replicas[ONE].undecided


def test_an_old_replica_that_is_wrong_is_told_beside_a_new_one() -> None:
    """Five members: the old ones are a quorum of all and judge among themselves; with fewer than
    that they are in doubt, and the one of the new encoding counts for neither side."""
    members = tuple(NodeId(number) for number in range(1, 6))

    def leader(odd: int) -> StateMarks:
        marks = StateMarks(ONE, members, OLD)
        marks.applied(LogIndex(9), 5)
        marks.ask(TERM, LogIndex(9), 5)
        told = []
        for node, digest, encoding in (
            (2, 5, OLD),
            (3, odd, OLD),
            (4, 77, NEW),
            (5, 5, OLD),
        ):
            told += marks.received(NodeId(node), _mark(9, digest, MarkKind.ANSWER, encoding))
        assert [to for to, mark in told if mark.kind is MarkKind.VERDICT] == (
            [THREE] if odd != 5 else []
        )
        return marks

    assert not leader(5).undecided
    assert not leader(6).undecided


def test_two_of_one_encoding_that_differ_are_in_doubt_whatever_a_third_says() -> None:
    """No quorum of one encoding has one state."""
    replicas = _round({ONE: 5, TWO: 6, THREE: 5}, {THREE: NEW})
    assert not any(marks.diverged for marks in replicas.values())
    assert replicas[ONE].undecided


def test_a_release_that_does_not_say_its_encoding_is_not_judged() -> None:
    """0 is nobody's encoding here: neither its answers nor its verdicts count."""
    replicas = _round({ONE: 5, TWO: 6, THREE: 5}, {TWO: 0})
    assert not any(marks.diverged for marks in replicas.values())
    marks = _at(TWO, 9, 90)
    marks.received(ONE, _mark(9, 90, MarkKind.QUESTION))
    marks.received(ONE, _mark(9, 91, MarkKind.VERDICT, 0))
    assert not marks.diverged
    marks.received(ONE, _mark(9, 91, MarkKind.VERDICT))
    assert marks.diverged


def test_releases_that_do_not_say_their_encoding_are_not_judged_by_one_another() -> None:
    """They need not be one release, and a quorum of them is none."""
    others = [NodeId(node) for node in (2, 3, 4, 5)]
    marks = StateMarks(ONE, (ONE, *others), OLD)
    marks.ask(TERM, LogIndex(9), 90)
    for node, digest in zip(others, (91, 91, 91, 92), strict=True):
        assert marks.received(node, _mark(9, digest, MarkKind.ANSWER, 0)) == []
    assert not marks.diverged
    assert not marks.undecided
