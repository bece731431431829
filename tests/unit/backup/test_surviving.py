"""Which survivor a group goes on with, and whether something acknowledged may be missing."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from svc_cluster.backup.surviving import SurvivingReplica, choose
from svc_cluster.base.configuration import TERM_BITS
from svc_cluster.base.ids import LogIndex, NodeId, Term

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
ALL = (ONE, TWO, THREE)
LATER = 1 << TERM_BITS


def left(
    node: NodeId,
    term: int,
    index: int,
    *,
    is_whole: bool = True,
    members: tuple[NodeId, ...] | None = None,
    is_sealed: bool = False,
) -> SurvivingReplica:
    return SurvivingReplica(node, Term(term), LogIndex(index), is_whole, members, is_sealed)


def test_the_later_term_counts_before_the_longer_log() -> None:
    """The long log of an older term has a tail that nobody acknowledged."""
    chosen = choose([left(ONE, 4, 900), left(TWO, 5, 20)], ALL)
    assert (chosen.node_id, chosen.doubt) == (TWO, "")


def test_of_one_term_the_longer_log_counts() -> None:
    chosen = choose([left(ONE, 5, 20), left(TWO, 5, 21)], ALL)
    assert (chosen.node_id, chosen.doubt) == (TWO, "")


def test_equal_logs_are_the_first_nodes() -> None:
    assert choose([left(TWO, 5, 20), left(ONE, 5, 20)], ALL).node_id == ONE


@pytest.mark.parametrize(
    ("here", "of", "lacks_nothing"),
    [(1, 1, True), (1, 3, False), (2, 3, True), (3, 3, True), (2, 5, False), (3, 5, True)],
)
def test_nothing_is_missing_once_every_quorum_is_met(
    here: int, of: int, lacks_nothing: bool
) -> None:
    members = [NodeId(node) for node in range(1, of + 1)]
    chosen = choose([left(node, 2, 10) for node in members[:here]], members)
    assert (chosen.doubt == "") == lacks_nothing
    assert lacks_nothing or str(of) in chosen.doubt


def test_a_damaged_replica_neither_leads_nor_counts() -> None:
    """It may have forgotten what it had promised."""
    chosen = choose([left(ONE, 9, 99, is_whole=False), left(TWO, 2, 10)], ALL)
    assert chosen.node_id == TWO
    assert chosen.doubt.endswith("whole: 2")


def test_a_damaged_replica_is_better_than_none() -> None:
    chosen = choose([left(ONE, 2, 9, is_whole=False), left(TWO, 2, 10, is_whole=False)], ALL)
    assert (chosen.node_id, chosen.doubt) == (TWO, "what is left of it is damaged")


def test_a_replica_that_lacks_rows_is_taken_only_where_all_do() -> None:
    """What it lacks may have been acknowledged long ago, whatever its log has."""
    lacks = [
        replace(left(node, term, 9, is_whole=False), lacks_rows=True)
        for node, term in ((ONE, 9), (TWO, 8))
    ]
    read = left(THREE, 2, 9, is_whole=False)
    assert choose([*lacks, read], ALL).node_id == THREE
    assert choose(lacks, ALL).node_id == ONE


def test_who_is_no_member_does_not_count() -> None:
    """A learner has what it was told; it was asked for no acknowledgement."""
    chosen = choose([left(ONE, 2, 10), left(NodeId(4), 2, 10)], ALL)
    assert "only these" in chosen.doubt
    assert choose([left(ONE, 2, 10), left(NodeId(4), 2, 10)], (ONE, NodeId(4), TWO)).doubt == ""


def test_a_log_goes_by_the_members_that_it_names() -> None:
    others = (ONE, TWO, NodeId(5))
    replicas = [left(ONE, LATER, 10, members=others), left(NodeId(5), LATER, 9, members=others)]
    assert choose(replicas, ALL).doubt == ""


def test_replicas_of_an_ended_configuration_do_not_count() -> None:
    """A majority of the members before is none of those that went on."""
    chosen = choose([left(ONE, 7, 50), left(TWO, 7, 50)], (NodeId(4), NodeId(5), NodeId(6)), 1)
    assert "members were changed" in chosen.doubt
    old = choose([left(ONE, LATER, 50, members=ALL), left(TWO, 7, 60)], ALL, 1)
    assert (old.node_id, old.doubt != "") == (ONE, True)


def test_behind_a_seal_others_may_have_gone_on() -> None:
    chosen = choose([left(ONE, 7, 50, is_sealed=True), left(TWO, 7, 49)], ALL)
    assert chosen.node_id == ONE
    assert "members were changed" in chosen.doubt


def test_whatever_was_acknowledged_is_in_the_one_that_is_chosen() -> None:
    """Random lives of a group of three or five: leaders append, some of it reaches a quorum."""
    rng = random.Random(7)
    for _ in range(400):
        count = rng.choice((3, 5))
        quorum = count // 2 + 1
        logs: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        acknowledged: list[tuple[int, int]] = []
        for term in range(1, rng.randrange(2, 8)):
            voters = rng.sample(range(count), quorum)
            leader = max(
                voters, key=lambda one: (logs[one][-1][0] if logs[one] else 0, len(logs[one]))
            )
            for value in range(rng.randrange(4)):
                logs[leader].append((term, value))
                reached = rng.sample(range(count), rng.randrange(count + 1))
                for node in {*reached} - {leader}:
                    logs[node] = list(logs[leader])
                if len({*reached, leader}) >= quorum:
                    acknowledged = list(logs[leader])
        here = rng.sample(range(count), count - quorum + 1)
        members = [NodeId(node) for node in range(count)]
        chosen = choose(
            [
                left(NodeId(node), logs[node][-1][0] if logs[node] else 0, len(logs[node]))
                for node in here
            ],
            members,
        )
        assert chosen.doubt == ""
        assert logs[chosen.node_id][: len(acknowledged)] == acknowledged
