"""Which replica is wrong where what they hold differs."""

from __future__ import annotations

import random

from svc_cluster.base.ids import NodeId
from svc_cluster.replica.scrub_votes import Identity, Vote, judge

ONE, TWO, THREE, FOUR, FIVE = (NodeId(number) for number in range(1, 6))
A: Identity = (b"end", 1, 7)
B: Identity = (b"end", 2, 7)
C: Identity = (b"", 1, 7)


def test_equal_replicas_are_left_alone() -> None:
    """However few of them could be asked."""
    for nodes in ((ONE,), (ONE, TWO), (ONE, TWO, THREE)):
        found = judge(dict.fromkeys(nodes, Vote(A)), 3)
        assert (found.right, found.damaged) == (A, frozenset())


def test_the_third_is_damaged_where_two_are_equal() -> None:
    """Whoever it is; what counts is where the chunk ends, its digest, and how many rows it has."""
    for odd in (ONE, TWO, THREE):
        for other in (B, C, (b"end", 1, 6)):
            votes = {node: Vote(other if node == odd else A) for node in (ONE, TWO, THREE)}
            found = judge(votes, 3)
            assert (found.right, found.damaged) == (A, frozenset({odd}))


def test_nobody_is_convicted_without_a_majority_of_all_members() -> None:
    """Not by half of those that were asked, and not by two of five."""
    assert judge({ONE: Vote(A), TWO: Vote(B)}, 3).in_doubt
    assert judge({ONE: Vote(A), TWO: Vote(B), THREE: Vote(C)}, 3).in_doubt
    assert judge({ONE: Vote(A), TWO: Vote(A), THREE: Vote(B)}, 5).in_doubt
    votes = {ONE: Vote(A), TWO: Vote(A), THREE: Vote(A), FOUR: Vote(B), FIVE: Vote(C)}
    assert judge(votes, 5).damaged == {FOUR, FIVE}


def test_a_copy_does_not_add_to_a_majority() -> None:
    """Two of three are equal, and one of them has its state from the other: that may be what is
    damaged, so the last whole copy is not thrown away. Beside two origins it does no harm."""
    copy = Vote(A, copied_from=ONE)
    assert judge({ONE: Vote(A), TWO: copy, THREE: Vote(B)}, 3).in_doubt
    assert judge({ONE: Vote(B), TWO: copy, THREE: Vote(A)}, 3).damaged == {ONE}
    assert judge({ONE: Vote(A), TWO: Vote(B, copied_from=ONE), THREE: Vote(A)}, 3).damaged == {TWO}
    # a copy of a copy, two copies of one that is away, and copies of each other
    chain = {ONE: Vote(A), TWO: copy, THREE: Vote(A, copied_from=TWO), FOUR: Vote(B), FIVE: Vote(B)}
    assert judge(chain, 5).in_doubt
    away = {TWO: copy, THREE: copy, FOUR: Vote(A), FIVE: Vote(B)}
    assert judge(away, 5).in_doubt
    mutual = {ONE: Vote(A, copied_from=TWO), TWO: copy, THREE: Vote(B)}
    assert judge(mutual, 3).in_doubt


def test_nothing_becomes_right_that_its_holders_see_is_damaged() -> None:
    """Records are missing in two of three, equally: the third is not made like them. One that sees
    its own damage counts against nobody, copy or not."""
    hole = Vote(B, flawed=True)
    assert judge({ONE: hole, TWO: hole, THREE: Vote(A)}, 3).in_doubt
    assert judge({ONE: hole, TWO: hole, THREE: hole}, 3).in_doubt
    assert judge({ONE: hole}, 1).in_doubt
    votes = {ONE: Vote(A), TWO: Vote(A, copied_from=ONE), THREE: hole}
    assert judge(votes, 3).damaged == {THREE}


def test_no_one_alone_is_ever_able_to_convict() -> None:
    """Over all kinds of votes: whoever is convicted holds something else than a majority of the
    members, none of which sees damage in it."""
    rng = random.Random(1)
    for _ in range(20_000):
        members = rng.choice((1, 3, 5))
        nodes = [NodeId(number) for number in range(1, members + 1)]
        flawed = {identity: rng.random() < 0.2 for identity in (A, B, C)}
        votes = {}
        for node in rng.sample(nodes, rng.randint(1, members)):
            identity = rng.choice((A, A, B, C))
            source = rng.choice([None, None, *nodes])
            votes[node] = Vote(identity, flawed[identity], source)
        found = judge(votes, members)
        for node in found.damaged:
            assert found.right is not None
            assert votes[node].identity != found.right
            holders = [one for one, vote in votes.items() if vote.identity == found.right]
            assert len(holders) > members // 2
            assert not flawed[found.right]
