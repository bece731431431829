"""A replica that has lost part of what it promised: it counts for nothing until it is repaired."""

from __future__ import annotations

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.raft.group import NotLeaderError, Role
from svc_cluster.raft.messages import AppendRequest, AppendResponse, TimeoutNow
from tests.unit.raft.harness import Cluster, Node, ack, become_leader, log_of, payload


def _damage(node: Node, recovered: RecoveredLog | None = None) -> None:
    """Restart with a log that has lost its end, and everything that was voted."""
    node.disk = recovered or log_of(1)
    node.disk.damaged = True
    node.start()


def _repair(lost: Node, leader: Node, log_index: int) -> None:
    """What installing a snapshot of the leader's state at `log_index` makes of the replica."""
    term = leader.group.term_at(LogIndex(log_index))
    assert term is not None
    lost.disk = log_of(base=(log_index, int(term)), term=int(lost.group.term))
    lost.applied_index = log_index
    lost.start()


def _others(cluster: Cluster, leader: Node) -> tuple[Node, Node]:
    one, two = (node for node in cluster.nodes.values() if node is not leader)
    return one, two


def _ask(leader: Node, peer: int, recovery: int = 77) -> None:
    leader.receive(
        peer, AppendResponse(leader.group.term, LogIndex(0), False, False, 10**6, recovery)
    )


def _last_sequence(node: Node) -> int:
    return max(
        body.read_sequence for _, body in node.take_sent() if isinstance(body, AppendRequest)
    )


def _leader() -> tuple[Node, float]:
    """Node 1 of 1, 2, 3 leads; its first entry is on its own disk only."""
    node = Node(1, [1, 2, 3], log_of(1, 1))
    now = become_leader(node, 10.0, [2])
    node.sync()
    return node, now


def test_a_recovering_peer_counts_for_no_commit_and_no_read() -> None:
    """Its answers confirm neither the leader's entries nor its leadership, and keep it nowhere."""
    node, now = _leader()
    node.receive(3, ack(2, 3, _last_sequence(node)))
    assert node.group.commit_index == 3
    node.group.read_index()
    node.drain()
    _ask(node, 2)
    assert node.read_states == []
    assert node.group.match_index(NodeId(2)) == 0
    for step in range(1, 40):
        node.tick(now + step / 10)
        _ask(node, 2)
    assert node.group.role is Role.FOLLOWER, "one whole replica of three cannot stay in office"
    assert [state.read_index for state in node.read_states] == [None]


def test_a_recovering_peer_is_sent_heartbeats_without_entries() -> None:
    """What it cannot keep is not sent; it hears that there is a leader."""
    node, now = _leader()
    _ask(node, 2)
    node.take_sent()
    sent = []
    for step in range(1, 11):
        node.receive(3, ack(2, 3))
        node.group.propose(payload(f"{step}"))
        node.tick(now + step / 10)
        sent += [body for to, body in node.take_sent() if to == 2]
    assert 5 <= len(sent) <= 15
    assert all(isinstance(body, AppendRequest) and body.entries == () for body in sent)


def test_a_leader_repairs_only_when_all_other_whole_replicas_have_answered_since() -> None:
    """An answer to a message sent before the peer asked proves nothing about newer leaders."""
    node, now = _leader()
    before = _last_sequence(node)
    _ask(node, 2)
    node.receive(3, ack(2, 3, before))
    _ask(node, 2)
    repair = node.group.repair_of(NodeId(2))
    assert repair is not None
    assert (repair.recovery, repair.least_index, repair.confirmed) == (77, 3, False)
    assert node.snapshot_wanted == []
    node.tick(now + 0.2)
    node.receive(3, ack(2, 3, _last_sequence(node)))
    _ask(node, 2)
    assert node.snapshot_wanted == [2]
    _ask(node, 2, recovery=78)
    repair = node.group.repair_of(NodeId(2))
    assert repair is not None
    assert (repair.recovery, repair.confirmed) == (78, False), "damaged again: asked anew"


def test_two_recovering_peers_of_three_are_not_repaired() -> None:
    """One whole replica cannot know what the two others have agreed on without it."""
    node, now = _leader()
    for step in range(1, 10):
        node.tick(now + step / 10)
        _ask(node, 2)
        _ask(node, 3, recovery=78)
    assert node.snapshot_wanted == []


def test_an_old_leader_cannot_repair_behind_the_newest_ones_back() -> None:
    """A replica that forgot a term and what it acknowledged in it is offered nothing by the leader
    of an older term: the third replica's silence withholds the proof."""
    cluster = Cluster(3)
    old = cluster.elect()
    lost, third = _others(cluster, old)
    cluster.isolate(old.node_id)
    for _ in range(200):
        cluster.now += 0.05
        for node in (lost, third):  # the old leader is frozen
            node.tick(cluster.now)
        cluster.settle()
    newest = third if third.group.can_propose else lost
    lost = lost if newest is third else third
    newest.group.propose(payload("kept"))
    cluster.settle()
    assert newest.applied_texts() == ["kept"]
    assert old.group.can_propose, "it knows of nothing newer"
    cluster.heal()
    cluster.isolate(newest.node_id)
    _damage(lost)
    request = AppendRequest(Term(1), LogIndex(1), Term(1), LogIndex(1), (), 10**6)
    for _ in range(3):
        lost.receive(old.node_id, request)
        lost.sync()
        for to, body in lost.take_sent():
            assert to == old.node_id
            old.receive(lost.node_id, body)
    assert old.group.can_propose
    assert old.group.repair_of(lost.node_id) is not None, "it was asked"
    assert old.snapshot_wanted == []


def test_what_the_leader_and_a_damaged_replica_agreed_on_waits_for_the_leader() -> None:
    """Committed by two of three, one of which has lost it: without the other one nobody leads,
    rather than somebody who lacks it; when it is back, everything is there."""
    cluster = Cluster(3)
    leader = cluster.elect()
    lost, third = _others(cluster, leader)
    cluster.isolate(third.node_id)
    leader.group.propose(payload("kept"))
    cluster.settle()
    assert leader.applied_texts() == ["kept"]
    _damage(lost)
    cluster.heal()
    cluster.isolate(leader.node_id)
    cluster.advance(10.0)
    assert not third.group.can_propose
    assert not lost.group.can_propose
    assert third.group.term <= leader.group.term + 1, "asking changes no terms"
    cluster.heal()
    cluster.advance(3.0)
    again = cluster.elect()
    assert again is not lost
    cluster.advance(0.5)
    assert third.applied_texts() == ["kept"]


def test_a_repaired_replica_is_a_voter_again() -> None:
    """Behind a snapshot that reaches as far as it ever acknowledged, its word counts."""
    cluster = Cluster(3)
    leader = cluster.elect()
    lost, third = _others(cluster, leader)
    for number in range(5):
        leader.group.propose(payload(str(number)))
        cluster.settle()
    _damage(lost)
    cluster.advance(1.0)
    repair = leader.group.repair_of(lost.node_id)
    assert repair is not None
    assert repair.confirmed
    assert repair.recovery == lost.group.recovery
    assert repair.least_index == leader.group.last_index
    assert lost.node_id in leader.snapshot_wanted
    _repair(lost, leader, leader.applied_index)
    cluster.advance(0.5)
    assert leader.group.repair_of(lost.node_id) is None
    cluster.isolate(third.node_id)
    leader.group.propose(payload("after"))
    cluster.settle()
    cluster.advance(0.5)
    assert lost.applied_texts()[-1] == "after"
    cluster.heal()
    cluster.advance(0.5)
    cluster.isolate(leader.node_id)
    cluster.advance(4.0)
    assert third.group.can_propose or lost.group.can_propose


def test_replicas_that_are_all_damaged_elect_nobody() -> None:
    """There is nothing to repair from, and nothing is guessed."""
    cluster = Cluster(3)
    cluster.elect().group.propose(payload("x"))
    cluster.settle()
    for node in cluster.nodes.values():
        _damage(node)
    cluster.advance(10.0)
    for node in cluster.nodes.values():
        assert node.group.role is Role.FOLLOWER
        assert node.group.leader is None
        node.receive(1 + node.node_id % 3, TimeoutNow(node.group.term))
        assert node.group.role is Role.FOLLOWER


def test_a_leader_that_is_distrusted_steps_down_and_is_repaired_by_the_next() -> None:
    """Found wrong while it leads, a replica leaves the lead to the others at once."""
    cluster = Cluster(3)
    leader = cluster.elect()
    leader.group.propose(payload("x"))
    cluster.settle()
    leader.group.distrust()
    assert not leader.group.can_propose
    try:
        leader.group.propose(payload("y"))
    except NotLeaderError:
        pass
    else:
        raise AssertionError("a distrusted replica proposes nothing")
    cluster.advance(4.0)
    newest = cluster.elect()
    assert newest is not leader
    cluster.advance(1.0)
    assert leader.node_id in newest.snapshot_wanted


def test_a_log_that_begins_behind_the_store_is_no_fault_of_a_recovering_replica() -> None:
    """When the store was lost, entries between it and the log are missing until the snapshot."""
    recovered = log_of(3, 3, base=(10, 3), commit_index=12)
    recovered.damaged = True
    node = Node(1, [1, 2, 3], recovered, applied_index=0)
    node.tick(1.0)
    node.drain()
    assert node.applied == []
    assert node.group.recovery
