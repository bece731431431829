"""Linearizable reads: confirmed by a quorum that answered after they began."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import NodeId, Term
from svc_cluster.raft.group import NotLeaderError, Role
from svc_cluster.raft.messages import AppendRequest, StaleTerm
from svc_cluster.raft.raft_settings import RaftSettings
from tests.unit.raft.harness import (
    Cluster,
    Node,
    ack,
    answers,
    append,
    become_leader,
    payload,
)


def serving_leader() -> tuple[Node, float]:
    """Node 1 of three leads, its first entry is committed."""
    node = Node(1, [1, 2, 3])
    now = become_leader(node, 10.0, [3])
    node.sync()
    node.receive(2, ack(node.group.term, 1))
    assert node.group.commit_index == 1
    node.take_sent()
    return node, now


def last_sequence(node: Node, to: int) -> int:
    requests = [
        body for peer, body in node.take_sent() if peer == to and isinstance(body, AppendRequest)
    ]
    return requests[-1].read_sequence


def test_a_read_waits_for_an_answer_to_a_message_sent_after_it() -> None:
    """Answers to older messages say nothing about now: the leader may be deposed (H4)."""
    node, _ = serving_leader()
    old = node.group.read_index()
    node.drain()
    sequence = last_sequence(node, 2)
    node.receive(2, ack(node.group.term, 1, sequence))
    assert [state.ticket for state in node.read_states] == [old]
    ticket = node.group.read_index()
    node.receive(2, ack(node.group.term, 1, sequence))
    confirmed = [state.ticket for state in node.read_states]
    assert ticket not in confirmed
    node.drain()
    node.receive(2, ack(node.group.term, 1, last_sequence(node, 2)))
    assert [state.ticket for state in node.read_states] == [old, ticket]
    assert all(state.read_index == 1 for state in node.read_states)


def test_many_reads_share_a_round() -> None:
    """Reads that begin while a round is under way wait together for the next one."""
    node, _ = serving_leader()
    first = node.group.read_index()
    node.drain()
    sequence = last_sequence(node, 2)
    later = [node.group.read_index() for _ in range(10)]
    node.drain()
    assert node.take_sent() == []
    node.receive(2, ack(node.group.term, 1, sequence))
    assert [state.ticket for state in node.read_states] == [first]
    node.receive(2, ack(node.group.term, 1, last_sequence(node, 2)))
    assert [state.ticket for state in node.read_states] == [first, *later]


def test_no_read_before_an_entry_of_the_own_term_is_committed() -> None:
    """A new leader does not know the commit index before its first entry is committed."""
    node = Node(1, [1, 2, 3])
    become_leader(node, 10.0, [3])
    node.sync()
    with pytest.raises(NotLeaderError):
        node.group.read_index()
    node.receive(2, ack(node.group.term, 1))
    assert node.group.read_index()


def test_reads_fail_when_leadership_is_lost() -> None:
    """A deposed leader answers its open tickets with a refusal."""
    node, _ = serving_leader()
    ticket = node.group.read_index()
    node.receive(3, StaleTerm(Term(9)))
    assert node.group.role is Role.FOLLOWER
    assert [(state.ticket, state.read_index) for state in node.read_states] == [(ticket, None)]
    with pytest.raises(NotLeaderError):
        node.group.read_index()


def test_reads_fail_when_no_quorum_answers() -> None:
    """A leader in a minority refuses within the fallback time and leads no more."""
    node, now = serving_leader()
    ticket = node.group.read_index()
    for step in range(1, 20):
        node.tick(now + step / 10)
    assert [(state.ticket, state.read_index) for state in node.read_states] == [(ticket, None)]
    assert not node.group.can_propose


def test_a_leader_that_was_cut_off_serves_no_read_after_a_new_one_is_elected() -> None:
    """The old leader's ticket is never confirmed while the others have gone on without it."""
    settings = RaftSettings(leader_fallback=60.0)
    cluster = Cluster(3, settings=settings)
    old = cluster.elect()
    cluster.advance(0.5)
    cluster.isolate(old.node_id)
    ticket = old.group.read_index()
    cluster.advance(3.0)
    new = next(
        node
        for node in cluster.nodes.values()
        if node.node_id != old.node_id and node.group.can_propose
    )
    new.group.propose(payload("newer"))
    cluster.settle()
    assert new.applied_texts() == ["newer"]
    assert old.group.role is Role.LEADER
    assert ticket not in [state.ticket for state in old.read_states]
    cluster.heal()
    cluster.advance(0.5)
    assert [(s.ticket, s.read_index) for s in old.read_states] == [(ticket, None)]


def test_a_group_of_one_confirms_reads_alone() -> None:
    """The only voter is a quorum, once its term is durable and its first entry committed."""
    node = Node(1, [1])
    node.tick(1.0)
    with pytest.raises(NotLeaderError):
        node.group.read_index()
    node.sync()
    ticket = node.group.read_index()
    node.drain()
    assert [(s.ticket, s.read_index) for s in node.read_states] == [(ticket, 1)]


def test_a_follower_answers_with_the_sequence_it_was_sent() -> None:
    """The echo is what the leader's rounds are confirmed by."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.advance(0.3)
    leader.group.read_index()
    leader.drain()
    for to, body in leader.take_sent():
        assert isinstance(body, AppendRequest)
        cluster.nodes[to].receive(leader.node_id, body)
        echoes = [answer for _, answer in cluster.nodes[NodeId(to)].take_sent()]
        assert [getattr(answer, "read_sequence", None) for answer in echoes] == [body.read_sequence]


def test_the_echo_of_an_older_leader_is_not_sent_to_its_successor() -> None:
    """A follower whose disk is slow tells a new leader what became durable with the new leader's
    last number. The old leader's, which is higher, would confirm reads that began since."""
    node = Node(1, [1, 2, 3])
    node.tick(1.0)
    node.receive(2, append(1, (0, 0), 1, read_sequence=50))
    node.sync()
    answers(node)
    node.receive(2, append(1, (1, 1), 1, read_sequence=60))
    node.receive(3, append(2, (2, 1), 2, read_sequence=3))
    node.sync()
    told = [answer for answer in answers(node) if answer.sender_term == 2]
    assert told
    assert {answer.read_sequence for answer in told} == {3}
    assert told[-1].next_index == 4
