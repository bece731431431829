"""How far a round has come: chunks, answers that count, and who goes on with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.model.content import CONTENT_VERSION, Chunk
from svc_cluster.raft.messages import ScrubAnswer, ScrubOutcome, ScrubQuestion
from svc_cluster.replica.scrub_round import (
    AGAIN_SECONDS,
    TRIES_MAX,
    GroupScrub,
    Settled,
    comparable_peers,
)

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
MEMBERS = (ONE, TWO, THREE)
TERM = Term(4)
ENCODING = 1
HOUR = 3600.0
SAME = Chunk(b"k1", 5, 3)
LAST = Chunk(b"", 6, 2)
ODD = Chunk(b"k1", 9, 3)


class Cluster:
    """Three replicas, of which node 1 leads."""

    def __init__(self) -> None:
        self.scrubs = {node: GroupScrub(node, ENCODING) for node in MEMBERS}
        self.now = 10.0

    def ask(self) -> ScrubQuestion:
        leader = self.scrubs[ONE]
        question = leader.ask(TERM, LogIndex(9), MEMBERS, 100, self.now, HOUR)
        for node in (TWO, THREE):
            self.scrubs[node].heard(question, self.now, HOUR)
        return question

    def chunk(self, one: Chunk, two: Chunk | None, three: Chunk | None) -> Settled:
        """What becomes of one chunk; None: nothing comes from there."""
        question, leader = self.ask(), self.scrubs[ONE]
        leader.own(one)
        for node, found in ((TWO, two), (THREE, three)):
            if found is not None:
                assert leader.answered(node, self.scrubs[node].answer(question, found))
        return leader.settle(self.now, HOUR)


def test_a_round_goes_from_chunk_to_chunk_and_is_complete() -> None:
    """The next one begins an interval after this one began, and no earlier."""
    cluster = Cluster()
    leader = cluster.scrubs[ONE]
    assert leader.is_due(cluster.now)
    first = cluster.chunk(SAME, SAME, SAME)
    assert (first.ended_round, first.verdict, leader.after) == (False, None, b"k1")
    cluster.now += 7
    assert leader.is_due(cluster.now)
    last = cluster.chunk(LAST, LAST, LAST)
    assert (last.ended_round, last.was_complete) == (True, True)
    assert (leader.completed_round, leader.completed_at) == (1, cluster.now)
    assert not leader.is_due(10.0 + HOUR - 1)
    assert leader.is_due(10.0 + HOUR)


def test_a_round_that_somebody_missed_is_not_complete_and_repeated_soon() -> None:
    """Also where it was one chunk of many."""
    cluster = Cluster()
    leader = cluster.scrubs[ONE]
    assert not cluster.chunk(SAME, SAME, None).ended_round
    last = cluster.chunk(LAST, LAST, LAST)
    assert (last.ended_round, last.was_complete) == (True, False)
    assert leader.completed_at is None
    assert not leader.is_due(cluster.now + AGAIN_SECONDS - 1)
    assert leader.is_due(cluster.now + AGAIN_SECONDS)


def test_the_damaged_one_is_told_and_knows_that_it_is_meant() -> None:
    """The others, who get no verdict, would not take it for theirs; nor would it later."""
    cluster = Cluster()
    settled = cluster.chunk(SAME, SAME, ODD)
    assert settled.judgement.damaged == {THREE}
    assert settled.verdict is not None
    assert cluster.scrubs[THREE].convicts(settled.verdict)
    assert not cluster.scrubs[TWO].convicts(settled.verdict)
    for other in (
        replace(settled.verdict, chunk=settled.verdict.chunk + 1),
        replace(settled.verdict, sender_term=Term(TERM + 1)),
        replace(settled.verdict, version=CONTENT_VERSION + 1),
        replace(settled.verdict, encoding=ENCODING + 1),
    ):
        assert not cluster.scrubs[THREE].convicts(other)
    cluster.scrubs[THREE].copied(ONE)
    assert not cluster.scrubs[THREE].convicts(settled.verdict), "that state is gone"


def test_the_round_goes_on_behind_what_the_quorum_holds() -> None:
    """Not where the damaged leader's own chunk ends."""
    cluster = Cluster()
    settled = cluster.chunk(Chunk(b"k7", 1, 3), SAME, SAME)
    assert settled.judgement.damaged == {ONE}
    assert cluster.scrubs[ONE].after == b"k1"


def test_doubt_is_said_once_a_round_and_stays_until_one_is_without() -> None:
    """Nobody is told to be wrong."""
    cluster = Cluster()
    leader = cluster.scrubs[ONE]
    first = cluster.chunk(SAME, ODD, Chunk(b"k1", 8, 3))
    assert (first.newly_in_doubt, first.verdict, leader.is_in_doubt) == (True, None, True)
    assert not cluster.chunk(SAME, ODD, Chunk(b"k1", 8, 3)).newly_in_doubt
    cluster.chunk(LAST, LAST, LAST)
    assert leader.is_in_doubt
    cluster.now += AGAIN_SECONDS
    assert cluster.chunk(SAME, ODD, Chunk(b"k1", 8, 3)).newly_in_doubt
    cluster.chunk(LAST, LAST, LAST)
    cluster.now += AGAIN_SECONDS
    cluster.chunk(LAST, LAST, LAST)
    assert not leader.is_in_doubt


@pytest.mark.parametrize(
    "change",
    [
        {"chunk": 7},
        {"sender_term": Term(3)},
    ],
)
def test_an_answer_to_something_else_is_none(change: dict[str, int]) -> None:
    """Late ones, of another chunk or term; and one by somebody who is no member."""
    cluster = Cluster()
    question, leader = cluster.ask(), cluster.scrubs[ONE]
    answer = cluster.scrubs[TWO].answer(question, ODD)
    assert not leader.answered(TWO, replace(answer, **change))  # type: ignore[arg-type]
    assert not leader.answered(NodeId(9), answer)
    leader.own(SAME)
    assert leader.silent(frozenset({TWO, THREE})) == {TWO, THREE}


@pytest.mark.parametrize("change", [{"version": CONTENT_VERSION + 1}, {"encoding": 2}])
def test_replicas_of_different_encodings_are_never_compared(change: dict[str, int]) -> None:
    """Neither with the leader nor counted with each other; the round is not complete."""
    cluster = Cluster()
    question, leader = cluster.ask(), cluster.scrubs[ONE]
    leader.own(SAME)
    for node in (TWO, THREE):
        answer = cluster.scrubs[node].answer(question, ODD)
        assert leader.answered(node, replace(answer, **change))  # type: ignore[arg-type]
    assert not leader.silent(frozenset({TWO, THREE}))
    settled = leader.settle(cluster.now, HOUR)
    assert (settled.judgement.damaged, settled.judgement.in_doubt) == (frozenset(), False)
    assert not leader.covered
    assert not cluster.scrubs[TWO].comparable(replace(question, **change))  # type: ignore[arg-type]
    said = {TWO: (CONTENT_VERSION, ENCODING), THREE: (0, ENCODING), NodeId(4): (9, ENCODING)}
    assert comparable_peers(said, ENCODING) == {TWO}
    assert comparable_peers(said, 2) == frozenset()


def test_whoever_was_busy_is_asked_again_but_not_for_ever() -> None:
    """And who is not fit is not waited for."""
    cluster = Cluster()
    leader = cluster.scrubs[ONE]
    for outcome, wanted in (
        (ScrubOutcome.BUSY, True),
        (ScrubOutcome.MISSED, True),
        (ScrubOutcome.UNFIT, False),
        (ScrubOutcome.OTHER_VERSION, False),
    ):
        question = cluster.ask()
        leader.answered(TWO, cluster.scrubs[TWO].refusal(question, outcome))
        assert leader.wants_again is wanted
        assert leader.silent(frozenset({TWO, THREE})) == {THREE}
        leader.drop()
    for _ in range(TRIES_MAX - 5):
        cluster.ask()
    question = cluster.ask()
    leader.answered(TWO, ScrubAnswer(TERM, 1, 1, question.chunk, ScrubOutcome.BUSY))
    assert not leader.wants_again


def test_the_next_leader_goes_on_where_the_round_is() -> None:
    """With what it has heard: how far, whether anybody was missing, and what was complete when."""
    cluster = Cluster()
    cluster.chunk(LAST, LAST, LAST)
    cluster.now += HOUR
    cluster.chunk(SAME, SAME, SAME)
    cluster.ask()  # and then it is gone
    follower = cluster.scrubs[TWO]
    cluster.now += 5
    assert follower.is_due(cluster.now)
    question = follower.ask(Term(5), LogIndex(9), MEMBERS, 100, cluster.now, HOUR)
    assert (question.after, question.round_number, question.covered) == (b"k1", 2, True)
    assert (question.completed_round, question.completed_ago_ms) == (1, round((HOUR + 5) * 1000))


def test_a_round_of_which_nothing_was_heard_for_long_is_not_gone_on_with() -> None:
    """It was ended since, or what it has compared is old: the next one begins when it is due."""
    cluster = Cluster()
    cluster.chunk(SAME, SAME, SAME)
    cluster.ask()
    follower, later = cluster.scrubs[TWO], cluster.now + AGAIN_SECONDS + 1
    assert not follower.is_due(later)
    assert follower.is_due(cluster.now + HOUR)
    question = follower.ask(Term(5), LogIndex(9), MEMBERS, 100, cluster.now + HOUR, HOUR)
    assert (question.after, question.round_number) == (b"", 2)


def test_a_copy_is_one_until_a_whole_round_behind_it() -> None:
    """The round in which it came does not count: some of that was compared before."""
    cluster = Cluster()
    cluster.chunk(SAME, SAME, SAME)
    follower = cluster.scrubs[TWO]
    follower.copied(ONE)
    assert cluster.chunk(LAST, LAST, LAST).was_complete
    cluster.now += HOUR
    assert follower.answer(cluster.ask(), SAME).copied_from == ONE
    cluster.scrubs[ONE].drop()
    assert cluster.chunk(LAST, LAST, LAST).was_complete
    cluster.now += HOUR
    assert follower.answer(cluster.ask(), SAME).copied_from == 0
