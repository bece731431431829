"""A leader whose way to a peer is full, of whichever group: no entries, but heartbeats that the
peer accepts; and all that was held back when there is room again."""

from __future__ import annotations

from svc_cluster.base.ids import LogIndex, NodeId
from svc_cluster.raft.group import PeerRoom, Role
from svc_cluster.raft.messages import AppendRequest
from svc_cluster.raft.raft_settings import RaftSettings
from tests.unit.raft.harness import Cluster, Node, ack, become_leader, payload

PEER = NodeId(2)
HEARTBEAT = RaftSettings().heartbeat


def leading() -> tuple[Node, float]:
    """Node 1 of three leads; both peers have its first entry."""
    node = Node(1, [1, 2, 3])
    now = become_leader(node, 10.0, [3])
    node.sync()
    for peer in (2, 3):
        node.receive(peer, ack(node.group.term, node.group.last_index))
    node.tick(now + 0.01)
    node.take_sent()
    return node, now + 0.01


def requests(node: Node, peer: int) -> list[AppendRequest]:
    """What was sent to `peer` since the last look, which clears what went to all."""
    sent = node.take_sent()
    return [body for to, body in sent if to == peer and isinstance(body, AppendRequest)]


def test_a_peer_without_room_is_sent_heartbeats_and_no_entry() -> None:
    """However many are proposed: a heartbeat in time, behind the last entry that has left, which
    the peer has here."""
    node, now = leading()
    has = node.group.last_index
    node.full.add(PEER)
    for number in range(5):
        node.group.propose(payload(f"held back {number}"))
        node.drain()
    node.sync()
    found = requests(node, 2)
    for _ in range(10):
        now += 1.01 * HEARTBEAT
        node.tick(now)
        beats = requests(node, 2)
        assert len(beats) == 1
        found += beats
        for peer in (2, 3):
            node.receive(peer, ack(node.group.term, has, beats[0].read_sequence))
    assert all(request.entries == () for request in found)
    assert {request.previous_index for request in found} <= {has}
    assert node.group.role is Role.LEADER


def test_room_is_used_at_once_and_all_that_was_held_back_leaves() -> None:
    """`PeerRoom` is enough: the next message carries every entry behind what the peer has, in
    order, and nothing twice."""
    node, now = leading()
    has = node.group.last_index
    node.full.add(PEER)
    for number in range(5):
        node.group.propose(payload(f"held back {number}"))
        node.drain()
    node.sync()
    node.tick(now + HEARTBEAT)
    node.take_sent()
    node.full.clear()
    node.group.step(PeerRoom(PEER))
    node.drain()
    sent = [entry for request in requests(node, 2) for entry in request.entries]
    assert [entry.log_index for entry in sent] == list(range(has + 1, node.group.last_index + 1))
    node.receive(2, ack(node.group.term, node.group.last_index))
    assert node.group.commit_index == node.group.last_index


def test_room_that_nobody_told_of_is_found_at_the_next_tick() -> None:
    """A telling that was lost costs a tick, no more; one without room changes nothing."""
    node, now = leading()
    node.full.add(PEER)
    node.group.propose(payload("held back"))
    node.drain()
    node.sync()
    node.group.step(PeerRoom(PEER))
    node.drain()
    assert all(request.entries == () for request in requests(node, 2))
    node.full.clear()
    node.tick(now + HEARTBEAT)
    assert [len(request.entries) for request in requests(node, 2) if request.entries] == [1]


def test_one_full_peer_holds_up_neither_the_other_nor_the_group() -> None:
    """Node 3 makes the quorum; node 2 is caught up behind."""
    cluster = Cluster(3)
    leader = cluster.elect()
    full, other = (n for n in cluster.nodes.values() if n.node_id != leader.node_id)
    leader.full.add(full.node_id)
    for number in range(20):
        leader.group.propose(payload(f"entry {number}"))
        cluster.advance(0.05)
    last = leader.group.last_index
    assert leader.group.commit_index == last == other.group.last_index
    assert len(leader.applied_texts()) == 20
    assert full.group.last_index < last
    cluster.advance(5.0)
    assert leader.group.role is Role.LEADER, "its heartbeats keep the full peer from standing"
    assert full.group.role is Role.FOLLOWER and full.group.last_index < last
    leader.full.clear()
    leader.group.step(PeerRoom(full.node_id))
    cluster.settle()
    cluster.advance(0.2)
    assert full.group.last_index == last == LogIndex(leader.group.last_index)
    assert full.applied_texts() == leader.applied_texts()


def test_a_group_without_room_to_anybody_commits_nothing_and_keeps_its_leader() -> None:
    """And goes on where it stopped."""
    cluster = Cluster(3)
    leader = cluster.elect()
    leader.full |= {node for node in cluster.nodes if node != leader.node_id}
    before = leader.group.commit_index
    leader.group.propose(payload("waits"))
    cluster.advance(5.0)
    assert leader.group.role is Role.LEADER
    assert leader.group.commit_index == before < leader.group.last_index
    leader.full.clear()
    for node in cluster.nodes:
        if node != leader.node_id:
            leader.group.step(PeerRoom(node))
    cluster.settle()
    cluster.advance(0.2)
    assert all(node.applied_texts() == ["waits"] for node in cluster.nodes.values())
