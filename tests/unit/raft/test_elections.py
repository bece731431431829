"""Elections that do not disturb, and leaders that notice that they are alone."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.raft.group import Role
from svc_cluster.raft.messages import (
    PreVoteRequest,
    PreVoteResponse,
    StaleTerm,
    TimeoutNow,
    VoteGranted,
    VoteRequest,
)
from tests.unit.raft.harness import Cluster, Node, append, become_leader, log_of


def test_a_node_that_was_cut_off_does_not_raise_its_term() -> None:
    """Without a majority's consent no term is begun, so nobody is deposed on return (H7)."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.advance(0.5)
    term = leader.group.term
    lonely = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.isolate(lonely.node_id)
    cluster.advance(10.0)
    assert lonely.group.term == term
    cluster.heal()
    cluster.advance(3.0)
    assert leader.group.can_propose and leader.group.term == term


def test_a_node_that_hears_its_leader_says_no() -> None:
    """A voter in touch with a leader refuses, and says yes after silence."""
    node = Node(1, [1, 2, 3])
    node.tick(1.0)
    node.receive(2, append(4, (0, 0)))
    node.sync()
    node.take_sent()
    question = PreVoteRequest(Term(4), Term(5), LogIndex(0), Term(0))
    node.receive(3, question)
    node.tick(1.45)
    node.receive(3, question)
    assert node.take_sent() == [
        (NodeId(3), PreVoteResponse(Term(4), Term(5), granted=False)),
        (NodeId(3), PreVoteResponse(Term(4), Term(5), granted=True)),
    ]
    assert node.group.term == 4


@pytest.mark.parametrize(
    ("last_index", "last_term", "granted"),
    [(3, 2, True), (2, 2, False), (9, 1, False), (1, 3, True)],
)
def test_consent_depends_on_the_candidates_log(
    last_index: int, last_term: int, granted: bool
) -> None:
    """A voter consents only to a log at least as new as its own."""
    node = Node(1, [1, 2, 3], log_of(1, 2, 2))
    node.tick(1.0)
    node.receive(2, PreVoteRequest(Term(2), Term(3), LogIndex(last_index), Term(last_term)))
    assert node.take_sent() == [(NodeId(2), PreVoteResponse(Term(2), Term(3), granted))]


def test_a_candidate_that_is_behind_learns_the_newer_term() -> None:
    """A refusal carries the voter's term, so that the next question is a useful one."""
    node = Node(1, [1, 2, 3])
    node.tick(1.0)
    node.tick(2.1)
    node.receive(2, PreVoteResponse(Term(7), Term(1), granted=False))
    assert node.group.term == 7
    node.sync()
    node.take_sent()
    node.tick(3.3)
    asked = [body for _, body in node.take_sent() if isinstance(body, PreVoteRequest)]
    assert {body.next_term for body in asked} == {8}


@pytest.mark.parametrize(
    "late", [append(3, (0, 0)), VoteRequest(Term(3), LogIndex(9), Term(3))], ids=["append", "vote"]
)
def test_a_message_of_an_older_term_is_answered_with_the_newer_one(late: object) -> None:
    """A stale leader or candidate is told, instead of being ignored for ever (H7)."""
    node = Node(1, [1, 2, 3], log_of(1, term=5))
    node.tick(1.0)
    node.receive(2, late)  # type: ignore[arg-type]
    assert node.take_sent() == [(NodeId(2), StaleTerm(Term(5)))]
    assert node.group.last_index == 1


def test_a_leader_that_is_told_of_a_newer_term_steps_down_without_voting() -> None:
    """StaleTerm changes the term and nothing else: the vote is still free."""
    node = Node(1, [1, 2, 3])
    become_leader(node, 10.0, [3])
    node.sync()
    node.receive(2, StaleTerm(Term(9)))
    assert (node.group.role, node.group.term) == (Role.FOLLOWER, 9)
    node.sync()
    assert (node.disk.term, node.disk.voted_for) == (9, None)


def test_a_leader_without_a_quorum_steps_down() -> None:
    """Nobody answers for the fallback time: it leads no more, in the same term."""
    node = Node(1, [1, 2, 3])
    now = become_leader(node, 10.0, [3])
    node.sync()
    term = node.group.term
    node.tick(now + 1.4)
    assert (node.group.can_propose, node.group.role) == (True, Role.LEADER)
    node.tick(now + 1.6)
    assert (node.group.can_propose, node.group.role) == (False, Role.FOLLOWER)
    assert node.group.term == term
    assert node.group.leader is None


def test_only_the_leader_can_hand_over() -> None:
    """TimeoutNow begins an election at once when it comes from the leader of this term."""
    node = Node(1, [1, 2, 3])
    node.tick(1.0)
    node.receive(2, append(1, (0, 0)))
    node.sync()
    node.take_sent()
    node.receive(3, TimeoutNow(Term(1)))
    node.receive(2, TimeoutNow(Term(0)))
    assert node.group.role is Role.FOLLOWER
    node.receive(2, TimeoutNow(Term(1)))
    assert (node.group.role, node.group.term) == (Role.CANDIDATE, 2)


def test_a_leader_hands_over_only_to_a_peer_that_has_everything() -> None:
    """A follower that lacks entries would lose the election: nothing is sent to it."""
    node = Node(1, [1, 2, 3])
    become_leader(node, 10.0, [3])
    node.sync()
    node.take_sent()
    node.group.transfer_leadership(NodeId(2))
    node.drain()
    assert node.take_sent() == []


def test_votes_of_an_older_election_elect_nobody() -> None:
    """A vote counts in the term it was given in."""
    node = Node(1, [1, 2, 3])
    node.tick(1.0)
    for step, term in ((2.1, 1), (3.3, 2)):
        node.tick(step)
        node.receive(2, PreVoteResponse(Term(term - 1), Term(term), granted=True))
        node.sync()
    assert node.group.term == 2
    node.receive(2, VoteGranted(Term(1)))
    assert node.group.role is Role.CANDIDATE


def test_no_campaign_before_any_peer_can_be_sent_to() -> None:
    """A node whose peers are all down asks nobody and raises no term."""
    cluster = Cluster(3)
    node = cluster.nodes[NodeId(1)]
    cluster.disconnect(1, 2)
    cluster.disconnect(1, 3)
    for step in range(100):
        node.tick(100 + step / 10)
    assert node.take_sent() == []
    assert node.group.term == 0


def test_time_may_begin_anywhere() -> None:
    """The first tick starts the election timeout, whatever the clock shows."""
    node = Node(1, [1, 2, 3])
    node.tick(1_000_000.0)
    node.tick(1_000_000.4)
    assert node.take_sent() == []
    node.tick(1_000_001.1)
    assert [type(body) for _, body in node.take_sent()] == [PreVoteRequest, PreVoteRequest]


def test_a_node_may_be_told_to_stand_at_once() -> None:
    """campaign() asks for consent without waiting for the timeout, once time is known."""
    node = Node(1, [1, 2, 3])
    node.group.campaign()
    node.drain()
    assert node.take_sent() == []
    node.tick(1.0)
    node.group.campaign()
    node.drain()
    assert [type(body) for _, body in node.take_sent()] == [PreVoteRequest, PreVoteRequest]
    assert node.group.term == 0
