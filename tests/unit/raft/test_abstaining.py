"""A replica that cannot apply what is decided: it takes part in everything but leading."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.raft.group import NotLeaderError, Role
from svc_cluster.raft.messages import PreVoteRequest, PreVoteResponse, TimeoutNow, VoteRequest
from tests.unit.raft.harness import Cluster, Node, become_leader, payload


def _led() -> tuple[Cluster, Node, list[Node]]:
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.advance(0.5)
    return cluster, leader, [node for node in cluster.nodes.values() if node is not leader]


def test_it_logs_and_acknowledges_what_the_leader_commits_with_it() -> None:
    """Leader and abstaining follower are the quorum: the entry is committed, and both have it."""
    cluster, leader, (one, two) = _led()
    one.group.abstain()
    cluster.isolate(int(two.node_id))
    leader.group.propose(payload("x"))
    cluster.advance(0.5)
    assert leader.applied_texts() == one.applied_texts() == ["x"]
    assert one.disk.entries[-1].payload == payload("x")


def test_a_leader_that_abstains_steps_down_and_another_one_leads() -> None:
    """At once, in a newer term; the old one votes for the next, follows it, and never stands."""
    cluster, leader, _ = _led()
    term = leader.group.term
    leader.group.abstain()
    assert leader.group.role is Role.FOLLOWER
    with pytest.raises(NotLeaderError):
        leader.group.propose(payload("x"))
    successor = cluster.elect()
    assert successor is not leader
    assert successor.group.term > term
    cluster.advance(1.0)
    assert leader.group.leader == successor.node_id


def test_it_neither_stands_nor_takes_over_however_long_there_is_no_leader() -> None:
    """No time-out, wish of its leader, or order makes it ask for a vote; who leads is not said any
    more once the leader has been silent."""
    cluster, leader, (one, two) = _led()
    one.group.abstain()
    two.group.abstain()
    assert one.group.leader == leader.node_id
    cluster.isolate(int(leader.node_id))
    one.receive(int(leader.node_id), TimeoutNow(one.group.term))
    one.group.campaign()
    term = one.group.term
    cluster.advance(20.0)
    for node in (one, two):
        assert node.group.role is Role.FOLLOWER
        assert node.group.term == term
        assert node.group.leader is None
    cluster.heal()
    cluster.elect()
    cluster.advance(0.5)
    assert one.group.leader == two.group.leader == leader.node_id


def test_it_asks_nobody_whether_it_may_stand() -> None:
    """Not even the question leaves, which would keep a voter from answering another candidate."""
    node = Node(1, [1, 2, 3])
    node.tick(10.0)
    node.group.abstain()
    for seconds in range(1, 60):
        node.tick(10.0 + seconds)
    node.group.campaign()
    node.drain()
    node.sync()
    assert node.take_sent() == []


def test_answers_to_its_own_question_make_no_candidate_of_it() -> None:
    """It asked before it abstained, and the answers come afterwards."""
    node = Node(1, [1, 2, 3])
    node.tick(10.0)
    node.tick(10.0 + node.settings.election_max + 0.05)
    asked = [body for _, body in node.take_sent() if isinstance(body, PreVoteRequest)]
    assert asked
    node.group.abstain()
    node.receive(2, PreVoteResponse(node.group.term, asked[0].next_term, granted=True))
    node.sync()
    assert not any(isinstance(body, VoteRequest) for _, body in node.take_sent())
    assert node.group.role is Role.FOLLOWER


def test_a_candidate_that_abstains_is_not_elected_by_votes_under_way() -> None:
    """The term moves on, and so the votes count for nothing."""
    node = Node(1, [1, 2, 3])
    now = become_leader(node, 10.0, [2])
    node.group.abstain()
    assert node.group.role is Role.FOLLOWER
    node.tick(now + 60)
    assert node.group.role is Role.FOLLOWER


def test_the_only_member_has_nobody_to_leave_the_lead_to() -> None:
    """Nothing raises; it stays what it is."""
    node = Node(1, [1])
    node.tick(10.0)
    node.sync()
    node.tick(10.3)
    assert node.group.leader == NodeId(1)
    node.group.abstain()
    node.tick(20.0)
    assert node.group.leader == NodeId(1)
