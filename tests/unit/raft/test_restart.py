"""What a replica makes of the log it finds, and life without the log's beginning."""

from __future__ import annotations

from dataclasses import replace

import pytest

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.base.log_ops import AppendEntries, LogEntry, SetCommit, TrimPrefix, TruncateSuffix
from svc_cluster.raft.group import EngineFault, PeerInstalled, Trim
from svc_cluster.raft.messages import AppendRequest, AppendResponse, VoteGranted, VoteRequest
from tests.unit.raft.harness import (
    Cluster,
    Node,
    append,
    become_leader,
    log_of,
    payload,
    terms_of,
)


def test_a_commit_index_reaches_the_disk_behind_what_it_commits() -> None:
    """After a crash that keeps only the first operation of a batch, an old divergent entry is not
    taken for committed (H5a)."""
    node = Node(1, [1, 2, 3], log_of(1, 1, 2))
    node.tick(1.0)
    node.receive(2, append(3, (2, 1)))
    node.sync()
    node.receive(2, append(3, (2, 1), 3, commit_index=3))
    (ready,) = node.unsynced
    kinds = [type(op) for op in ready.log_ops]
    assert kinds == [TruncateSuffix, AppendEntries, SetCommit]
    node.crash(surviving_ops=1)
    node.drain()
    assert [e.term for e in node.applied if e.log_index == 3] == []


def test_a_new_group_is_alike_on_every_node() -> None:
    """An empty log begins behind (0, 0); the first entry is the first leader's own."""
    for member in (1, 2, 3):
        node = Node(member, [1, 2, 3])
        assert (node.group.base_index, node.group.last_index, node.group.term_at(LogIndex(0))) == (
            0,
            0,
            0,
        )
        assert node.group.ready() is None


def test_a_restart_hands_out_what_the_store_lacks() -> None:
    """Committed entries behind the store's applied index come again, no others."""
    node = Node(1, [1, 2, 3], log_of(1, 1, 1, 1, commit_index=3), applied_index=1)
    node.drain()
    assert [e.log_index for e in node.applied] == [2, 3]
    assert node.group.commit_index == 3


def test_what_the_store_has_is_committed() -> None:
    """The store's applied index may be ahead of the commit index that survived."""
    node = Node(1, [1, 2, 3], log_of(1, 1, 1, commit_index=1), applied_index=2)
    assert node.group.commit_index == 2
    node.drain()
    assert node.applied == []


def test_a_restart_behind_a_trimmed_log_goes_on() -> None:
    """With a base behind the first entries, commits and their delivery go on (H5b)."""
    node = Node(1, [1, 2, 3], log_of(3, 3, base=(100, 2), commit_index=101), applied_index=100)
    node.tick(1.0)
    node.receive(2, append(3, (102, 3), 3, commit_index=103))
    node.sync()
    assert [e.log_index for e in node.applied] == [101, 102, 103]


def test_a_store_ahead_of_the_log_is_a_fault() -> None:
    """A log that ends before what is applied has lost committed entries."""
    with pytest.raises(EngineFault):
        Node(1, [1, 2, 3], log_of(1, 1), applied_index=3)


def test_a_store_behind_the_logs_beginning_is_a_fault() -> None:
    """Entries that the store needs are no longer in the log."""
    with pytest.raises(EngineFault):
        Node(1, [1, 2, 3], log_of(3, base=(10, 3)), applied_index=9)


def test_an_entry_of_unknown_type_is_a_fault() -> None:
    """A log may hold only what the engine does not look into."""
    recovered = log_of(1)
    recovered.entries = [LogEntry(LogIndex(1), Term(1), b"\x00pickle")]
    with pytest.raises(EngineFault):
        Node(1, [1, 2, 3], recovered)


def _voters_heard(node: Node, term: int) -> list[NodeId]:
    """Both others ask for the node's vote; to whom it was given, with everything synced."""
    last_index, last_term = node.group.last_index, node.group.term_at(node.group.last_index)
    assert last_term is not None
    for candidate in (2, 3):
        node.receive(candidate, VoteRequest(Term(term), last_index, last_term))
        node.sync()
    return [to for to, body in node.take_sent() if isinstance(body, VoteGranted)]


def test_the_vote_survives_and_the_term_is_at_least_the_last_entrys() -> None:
    """The hard state is taken from the log: in its term nobody gets the vote but who has it. A
    log's last term raises it, and in that term no vote was given."""
    node = Node(1, [1, 2, 3], log_of(1, term=6, voted_for=3))
    node.tick(1.0)
    assert node.group.term == 6
    assert NodeId(2) not in _voters_heard(node, 6)
    assert (node.disk.term, node.disk.voted_for) == (6, 3)
    node = Node(1, [1, 2, 3], log_of(1, 4, term=2, voted_for=3))
    node.tick(1.0)
    assert node.group.term == 4
    assert _voters_heard(node, 4) == [2]
    assert (node.disk.term, node.disk.voted_for) == (4, 2)


def test_a_vote_in_a_term_that_was_known_before_is_kept() -> None:
    """The term is on the disk already, and only the vote is new: it is written, and waited for,
    like any other, and a restart remembers it."""
    node = Node(1, [1, 2, 3], log_of(1, term=6))
    node.tick(1.0)
    node.receive(2, VoteRequest(Term(6), LogIndex(1), Term(1)))
    assert [body for _, body in node.take_sent() if isinstance(body, VoteGranted)] == []
    node.sync()
    assert [to for to, body in node.take_sent() if isinstance(body, VoteGranted)] == [2]
    assert (node.disk.term, node.disk.voted_for) == (6, 2)
    node.crash()
    node.tick(2.0)
    assert NodeId(3) not in _voters_heard(node, 6)
    assert (node.disk.term, node.disk.voted_for) == (6, 2)


def test_trimming_keeps_only_what_is_behind_it() -> None:
    """Trim writes the new base with its term and the log still answers for it."""
    node = Node(1, [1, 2, 3], log_of(1, 1, 2, 2, commit_index=4))
    node.drain()
    node.group.step(Trim(LogIndex(3)))
    node.group.step(Trim(LogIndex(2)))
    node.drain()
    (ready,) = node.unsynced
    assert ready.log_ops == [TrimPrefix(LogIndex(3), Term(2))]
    assert (node.group.base_index, node.group.last_index) == (3, 4)
    assert node.group.term_at(LogIndex(3)) == 2
    assert node.group.term_at(LogIndex(2)) is None
    node.sync()
    node.crash()
    assert (node.group.base_index, terms_of(node)) == (3, [2])


def test_trimming_beyond_what_was_handed_out_is_a_fault() -> None:
    """Only what the state machine has got can be in the store."""
    node = Node(1, [1, 2, 3], log_of(1, 1, commit_index=1))
    node.drain()
    with pytest.raises(EngineFault):
        node.group.step(Trim(LogIndex(2)))


def test_a_peer_behind_the_log_is_reported_and_gets_heartbeats_not_a_flood() -> None:
    """Whom only a snapshot can help is named in each Ready; it gets one message a heartbeat, and
    its answers keep the leader in office."""
    node = Node(1, [1, 2, 3], log_of(*[1] * 20, base=(50, 1), commit_index=70), applied_index=70)
    now = become_leader(node, 10.0, [3])
    node.sync()
    node.take_sent()
    lost = AppendResponse(node.group.term, LogIndex(5), False, True, 99)
    node.receive(2, lost)
    sent = 0
    for step in range(1, 31):
        node.tick(now + step / 10)
        requests = [body for to, body in node.take_sent() if to == NodeId(2)]
        sent += len(requests)
        for request in requests:
            assert isinstance(request, AppendRequest)
            assert request.previous_index == 50
            assert request.entries == ()
            sequence = request.read_sequence
            node.receive(2, AppendResponse(node.group.term, LogIndex(5), False, True, sequence))
    assert 10 <= sent <= 40
    assert NodeId(2) in node.snapshot_wanted
    assert NodeId(3) not in node.snapshot_wanted
    assert node.group.can_propose


@pytest.mark.parametrize("is_told", [True, False])
def test_a_refusal_from_before_an_install_asks_for_no_second_snapshot(is_told: bool) -> None:
    """It was under way when the peer said that it has the snapshot: entries behind that follow. One
    to what was sent since speaks of the peer as it is."""
    log = log_of(base=(50, 1), term=1)
    node = Node(1, [1, 2, 3], log, applied_index=50)
    now = become_leader(node, 10.0, [3])
    node.sync()
    node.receive(2, AppendResponse(node.group.term, LogIndex(5), False, True, 99))
    node.tick(now + 0.2)
    late = max(b.read_sequence for _, b in node.take_sent() if isinstance(b, AppendRequest))
    node.snapshot_wanted.clear()
    if is_told:
        node.group.step(PeerInstalled(NodeId(2), LogIndex(50)))
        node.drain()
    refusal = AppendResponse(node.group.term, LogIndex(5), False, True, late)
    node.receive(2, refusal)
    now += 0.4
    node.tick(now)
    sent = [b for to, b in node.take_sent() if to == 2 and isinstance(b, AppendRequest)]
    assert (NodeId(2) in node.snapshot_wanted) is not is_told
    assert any(request.entries for request in sent) is is_told
    assert all(request.previous_index >= 50 for request in sent)
    newest = max(request.read_sequence for request in sent)
    node.snapshot_wanted.clear()
    node.receive(2, replace(refusal, read_sequence=newest))
    node.tick(now + 0.4)
    assert NodeId(2) in node.snapshot_wanted


def test_a_peer_rebuilt_on_a_snapshot_catches_up() -> None:
    """A group built on a base alone takes the entries behind it and counts for the quorum."""
    cluster = Cluster(3)
    leader = cluster.elect()
    lost = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.isolate(lost.node_id)
    for number in range(10):
        leader.group.propose(payload(str(number)))
    cluster.settle()
    applied = leader.applied_index
    assert applied >= 10
    for node in cluster.nodes.values():
        if node is not lost:
            node.group.step(Trim(LogIndex(node.applied_index)))
    cluster.heal()
    cluster.advance(0.5)
    assert lost.node_id in leader.snapshot_wanted
    term = leader.group.term_at(LogIndex(applied))
    assert term is not None
    lost.disk = log_of(base=(applied, int(term)), term=int(lost.group.term))
    lost.applied_index = applied
    lost.start()
    cluster.advance(0.3)
    leader.snapshot_wanted.clear()
    leader.group.propose(payload("after"))
    cluster.settle()
    cluster.advance(0.3)
    assert lost.applied_texts() == ["after"]
    assert leader.snapshot_wanted == []
    assert leader.group.match_index(lost.node_id) == leader.group.last_index


def test_what_is_committed_is_handed_out_in_bounded_portions() -> None:
    """A long backlog after a restart does not come in one Ready."""
    node = Node(1, [1, 2, 3], log_of(*[1] * 100, commit_index=100))
    node.settings = type(node.settings)(committed_bytes_max=20)
    node.start()
    portions = []
    while (ready := node.group.ready()) is not None:
        portions.append(len(ready.committed))
    assert sum(portions) == 100
    assert max(portions) <= 7


def test_acknowledged_entries_survive_an_election_without_the_old_leader() -> None:
    """What a quorum has on disk is in the next leader's log."""
    cluster = Cluster(3)
    old = cluster.elect()
    old.group.propose(payload("kept"))
    cluster.settle()
    assert old.applied_texts() == ["kept"]
    cluster.isolate(old.node_id)
    cluster.advance(3.0)
    others = [node for node in cluster.nodes.values() if node is not old]
    assert any(node.group.can_propose for node in others)
    assert all(node.applied_texts() == ["kept"] for node in others)
    assert not old.group.can_propose
