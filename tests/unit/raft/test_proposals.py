"""A proposal is in the log when `propose` returns, or nothing has happened."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.raft.group import (
    ENTRY_BYTES_MAX,
    NotLeaderError,
    PeerDown,
    PeerUp,
    Role,
    Tick,
    is_noop,
)
from svc_cluster.raft.messages import AppendRequest, AppendResponse
from svc_cluster.raft.raft_settings import RaftSettings
from tests.unit.raft.harness import (
    Cluster,
    Node,
    ack,
    append,
    become_leader,
    log_of,
    payload,
    terms_of,
)


def test_no_proposal_outlives_the_leadership_it_was_made_in() -> None:
    """A leader that steps down in the same tick and leads again terms later has not kept the
    proposal to append it then (H9e)."""
    node = Node(1, [1, 2, 3])
    now = become_leader(node, 10.0, [3])
    node.sync()
    term = node.group.term
    position = node.group.propose(payload("once"))
    assert node.group.term_at(position.log_index) == term
    node.group.step(Tick(now + 2.0))
    assert node.group.role is Role.FOLLOWER
    node.drain()
    node.sync()
    before = node.group.last_index
    now = become_leader(node, now + 2.0, [3])
    node.sync()
    node.tick(now + 0.2)
    later = terms_of(node)[before:]
    assert later == [node.group.term]


def test_who_does_not_lead_refuses_and_names_the_leader() -> None:
    """NotLeaderError, without effect."""
    node = Node(1, [1, 2, 3])
    node.tick(1.0)
    with pytest.raises(NotLeaderError) as unknown:
        node.group.propose(payload("x"))
    assert unknown.value.leader is None
    node.receive(2, append(1, (0, 0)))
    with pytest.raises(NotLeaderError) as known:
        node.group.propose(payload("x"))
    assert known.value.leader == 2
    assert node.group.last_index == 0


def test_the_position_is_that_of_the_entry() -> None:
    """Positions follow each other and name the leader's term; the engine's own entry is a no-op."""
    node = Node(1, [1, 2, 3])
    become_leader(node, 10.0, [3])
    positions = [node.group.propose(payload(str(number))) for number in range(3)]
    assert [p.log_index for p in positions] == [2, 3, 4]
    assert {p.term for p in positions} == {1}
    node.sync()
    assert is_noop(node.disk.entries[0].payload)
    assert not is_noop(payload("x"))


def test_an_entry_of_the_greatest_length_travels_in_one_message() -> None:
    """The library's splitting of entries is never reached (H8)."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.settle()
    greatest = b"\x09" * ENTRY_BYTES_MAX
    leader.group.propose(greatest)
    cluster.settle()
    cluster.advance(0.3)
    for node in cluster.nodes.values():
        assert node.applied[-1].payload is greatest
    with pytest.raises(AssertionError):
        leader.group.propose(greatest + b"\x09")


@pytest.mark.parametrize("bad", [b"\x00x", b"\x01", b"\x02x"])
def test_only_opaque_payloads_are_proposed(bad: bytes) -> None:
    """A payload of a type that the library would look into is our own bug."""
    node = Node(1, [1, 2, 3])
    become_leader(node, 10.0, [3])
    with pytest.raises(AssertionError):
        node.group.propose(bad)


def small_window() -> RaftSettings:
    return RaftSettings(append_batch_bytes=100, entry_bytes_max=48, in_flight_bytes_max=200)


def entries_to(node: Node, peer: int) -> tuple[int, int]:
    """Messages and entries sent to `peer` since the last look."""
    bodies = [b for to, b in node.take_sent() if to == peer and isinstance(b, AppendRequest)]
    return len(bodies), sum(len(body.entries) for body in bodies)


def test_a_peer_is_sent_no_more_than_the_window() -> None:
    """Behind the bytes in flight there are only heartbeats until something is acknowledged."""
    node = Node(1, [1, 2, 3], settings=small_window())
    now = become_leader(node, 10.0, [3])
    node.sync()
    term = node.group.term
    node.receive(2, ack(term, 1))
    node.take_sent()
    for _ in range(50):
        node.group.propose(b"\x09" + b"x" * 39)
    node.drain()
    node.sync()
    _, entries = entries_to(node, 2)
    assert 5 <= entries <= 8
    for step in range(1, 9):
        node.receive(3, AppendResponse(term, LogIndex(1), True, False, 0))
        node.tick(now + step * 0.11)
    messages, more = entries_to(node, 2)
    assert more == 0
    assert 6 <= messages <= 10
    node.receive(2, ack(term, 1 + entries))
    assert entries_to(node, 2)[1] >= 5


def test_a_peer_is_sent_no_more_tiny_entries_than_the_window() -> None:
    """Behind the number of entries in flight there are only heartbeats, no message has more than
    its share, and what follows upon an acknowledgement follows upon the last entry sent."""
    settings = RaftSettings(append_entries_max=4, in_flight_entries_max=10)
    node = Node(1, [1, 2, 3], settings=settings)
    now = become_leader(node, 10.0, [3])
    node.sync()
    term, has = node.group.term, 1
    node.receive(2, ack(term, has))
    node.take_sent()
    for _ in range(50):
        node.group.propose(b"\x09")
    node.drain()
    node.sync()
    last = node.group.last_index
    rounds = 0
    while has < last:
        rounds += 1
        bodies = [b for to, b in node.take_sent() if to == 2 and isinstance(b, AppendRequest)]
        assert all(len(body.entries) <= 4 for body in bodies)
        sent = [entry.log_index for body in bodies for entry in body.entries]
        assert sent == list(range(has + 1, min(last, has + 12) + 1)), "10, and the message's rest"
        for _ in range(3):
            now += 0.11
            node.tick(now)
            assert entries_to(node, 2)[1] == 0
            node.receive(3, AppendResponse(term, LogIndex(1), True, False, 0))
        has = sent[-1]
        node.receive(2, ack(term, has))
    assert rounds == 5
    assert node.group.commit_index == last


def test_a_follower_cuts_its_whole_tail_however_few_entries_a_message_has() -> None:
    """What stands behind the place that a message follows goes, all of it."""
    settings = RaftSettings(append_entries_max=2, in_flight_entries_max=1)
    leader = Node(1, [1, 2, 3], log_of(1, *[2] * 7), settings=settings)
    other = Node(2, [1, 2, 3], log_of(1, *[1] * 30), settings=settings)
    now = become_leader(leader, 10.0, [3])
    other.tick(now)
    leader.sync()
    for _ in range(30):
        now += 0.11
        leader.tick(now)
        while requests := [b for to, b in leader.take_sent() if to == 2]:
            for request in requests:
                other.receive(1, request)
                other.sync()
            for to, response in other.take_sent():
                assert to == 1
                leader.receive(2, response)
        leader.receive(3, ack(leader.group.term, leader.group.last_index))
    assert other.disk.entries == leader.disk.entries
    assert other.group.commit_index == leader.group.last_index


def test_a_new_connection_starts_with_an_empty_window() -> None:
    """What was in flight on a lost connection is found missing and sent again."""
    node = Node(1, [1, 2, 3], settings=small_window())
    become_leader(node, 10.0, [3])
    node.sync()
    term = node.group.term
    node.receive(2, ack(term, 1))
    node.take_sent()
    for _ in range(50):
        node.group.propose(b"\x09" + b"x" * 39)
    node.drain()
    assert entries_to(node, 2)[1] >= 5
    node.group.step(PeerDown(NodeId(2)))
    node.drain()
    assert entries_to(node, 2) == (0, 0)
    node.group.step(PeerUp(NodeId(2)))
    node.drain()
    bodies = [b for to, b in node.take_sent() if to == 2 and isinstance(b, AppendRequest)]
    assert bodies
    refusal = AppendResponse(Term(term), LogIndex(2), False, True, bodies[0].read_sequence)
    node.receive(2, refusal)
    again = [b for to, b in node.take_sent() if to == 2 and isinstance(b, AppendRequest)]
    assert again[0].previous_index == 1
    assert len(again[0].entries) >= 2


def test_refusals_of_messages_sent_before_the_leader_went_back_are_ignored() -> None:
    """Each of many lost messages is refused; the tail is sent again once, not once for each."""
    node = Node(1, [1, 2, 3])
    become_leader(node, 10.0, [3])
    node.sync()
    term = node.group.term
    node.take_sent()
    sequences = []
    for number in range(10):
        node.group.propose(payload(str(number)))
        node.drain()
        bodies = [b for to, b in node.take_sent() if to == 2 and isinstance(b, AppendRequest)]
        sequences += [body.read_sequence for body in bodies]
    sent = 0
    for sequence in sequences:
        node.receive(2, AppendResponse(term, LogIndex(1), False, True, sequence))
        sent += entries_to(node, 2)[1]
    assert sent == 11
