"""A few replicas over perfect links: elections, proposals, restarts, snapshots, hand-over."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.raft.messages import AppendRequest
from tests.unit.raft.harness import Cluster, payload


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_cluster_elects_a_leader_and_commits_proposals_on_every_node(count: int) -> None:
    """A proposal reaches every replica's committed entries, at the position that was told."""
    cluster = Cluster(count)
    leader = cluster.elect()
    cluster.settle()
    positions = [leader.group.propose(payload(f"p{number}")) for number in range(20)]
    cluster.settle()
    cluster.advance(0.3)
    for node in cluster.nodes.values():
        assert node.applied_texts() == [f"p{number}" for number in range(20)]
    for position in positions:
        assert leader.group.term_at(position.log_index) == position.term


def test_a_cluster_survives_the_restart_of_every_node_at_once() -> None:
    """What was committed is there after all replicas lost what was in memory."""
    cluster = Cluster(3)
    leader = cluster.elect()
    leader.group.propose(payload("kept"))
    cluster.settle()
    cluster.advance(0.3)
    old_term = leader.group.term
    for node in cluster.nodes.values():
        node.crash()
    leader = cluster.elect()
    assert leader.group.term > old_term
    leader.group.propose(payload("after"))
    cluster.settle()
    cluster.advance(0.3)
    for node in cluster.nodes.values():
        assert node.applied_texts() == ["kept", "after"]


def test_several_proposals_before_a_ready_leave_in_one_message() -> None:
    """Batching happens where work queues up: one message per peer carries them all."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.settle()
    for number in range(10):
        leader.group.propose(payload(str(number)))
    leader.drain()
    sent = leader.take_sent()
    assert sorted(to for to, _ in sent) == [to for to in cluster.nodes if to != leader.node_id]
    assert [len(body.entries) for _, body in sent if isinstance(body, AppendRequest)] == [10, 10]


def test_a_leader_hands_over_to_a_follower_that_has_everything() -> None:
    """transfer_leadership makes the follower lead at once, in a newer term."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.advance(0.3)
    to = next(node for node in cluster.nodes if node != leader.node_id)
    term = leader.group.term
    leader.group.transfer_leadership(NodeId(to))
    cluster.settle()
    assert cluster.nodes[to].group.can_propose
    assert cluster.nodes[to].group.term == term + 1
    assert not leader.group.can_propose
