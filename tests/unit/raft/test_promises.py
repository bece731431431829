"""What leaves a node is still true after a crash, and counts only where it was meant."""

from __future__ import annotations

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.raft.group import Role
from svc_cluster.raft.messages import (
    AppendRequest,
    PreVoteResponse,
    VoteGranted,
    VoteRequest,
)
from tests.unit.raft.harness import (
    Node,
    ack,
    answers,
    append,
    become_leader,
    log_of,
    payload,
)


def test_an_acknowledgement_of_an_older_term_is_not_counted() -> None:
    """An answer created in an earlier term commits nothing in this one (H2)."""
    node = Node(1, [1, 2, 3])
    become_leader(node, 10.0, [3])
    node.group.propose(payload("new"))
    node.drain()
    node.sync()
    node.receive(2, ack(0, 2))
    assert node.group.match_index(NodeId(2)) == 0
    assert node.group.commit_index == 0


def test_a_leader_does_not_commit_before_its_own_disk_has_the_entry() -> None:
    """One follower and the leader's memory are no quorum; with the leader's disk they are (H3)."""
    node = Node(1, [1, 2, 3])
    become_leader(node, 10.0, [3])
    term = node.group.term
    node.group.propose(payload("x"))
    node.drain()
    node.receive(2, ack(term, 2))
    assert node.group.durable_index == 0
    assert node.group.commit_index == 0
    assert node.group.match_index(NodeId(2)) == 2
    node.sync()
    assert node.group.commit_index == 2
    assert node.applied_texts() == ["x"]


def test_a_group_of_one_commits_only_what_is_on_its_disk() -> None:
    """Without followers the leader's own sync is the quorum (H3)."""
    node = Node(1, [1])
    node.tick(1.0)
    assert (node.group.can_propose, node.group.role is Role.LEADER) == (False, False)
    node.sync()
    assert (node.group.can_propose, node.group.commit_index) == (True, 1)
    node.group.propose(payload("x"))
    node.drain()
    assert node.group.commit_index == 1
    assert node.applied_texts() == []
    node.sync()
    assert node.group.commit_index == 2
    assert node.applied_texts() == ["x"]


def test_a_group_of_one_commits_while_more_is_proposed() -> None:
    """An entry is committed when it is durable, also if newer ones are not."""
    node = Node(1, [1])
    node.tick(1.0)
    node.sync()
    for number in range(5):
        node.group.propose(payload(str(number)))
        batches = node.unsynced
        node.drain()
        node.group.propose(payload(f"later {number}"))
        assert node.unsynced is batches
        node.sync()
        node.drain()
        assert str(number) in node.applied_texts()
        assert f"later {number}" not in node.applied_texts()
        node.sync()


def test_append_entries_leave_before_the_leaders_own_sync() -> None:
    """Followers write in parallel with the leader."""
    node = Node(1, [1, 2, 3])
    become_leader(node, 10.0, [3])
    node.take_sent()
    node.group.propose(payload("x"))
    node.drain()
    requests = [body for _, body in node.take_sent() if isinstance(body, AppendRequest)]
    assert len(requests) == 2
    assert all(len(body.entries) == 1 for body in requests)


def test_an_acknowledgement_waits_for_the_disk() -> None:
    """A follower tells its leader only of what is durable."""
    node = Node(1, [1, 2, 3])
    node.tick(1.0)
    node.receive(2, append(1, (0, 0)))
    node.sync()
    answers(node)
    node.receive(2, append(1, (0, 0), 1, 1, read_sequence=2))
    told = max((answer.next_index - 1 for answer in answers(node)), default=0)
    assert told == 0
    node.sync()
    assert [answer.next_index for answer in answers(node)] == [3]


def test_a_slow_disk_does_not_silence_the_answers_to_heartbeats() -> None:
    """Heartbeats are answered at once, with what is durable so far."""
    node = Node(1, [1, 2, 3])
    node.tick(1.0)
    node.receive(2, append(1, (0, 0), 1))
    node.sync()
    answers(node)
    node.receive(2, append(1, (1, 1), 1, 1))
    node.tick(1.2)
    node.receive(2, append(1, (3, 1), read_sequence=9))
    heartbeat = answers(node)[-1]
    assert (heartbeat.success, heartbeat.next_index, heartbeat.read_sequence) == (True, 2, 9)
    node.sync()
    assert answers(node)[-1].next_index == 4


def test_an_acknowledgement_is_clipped_to_what_is_durable() -> None:
    """A sync that covers part of what was received acknowledges that part."""
    node = Node(1, [1, 2, 3])
    node.tick(1.0)
    node.receive(2, append(1, (0, 0), 1))
    first = list(node.unsynced)
    node.receive(2, append(1, (1, 1), 1, 1))
    later = [ready for ready in node.unsynced if ready not in first]
    node.unsynced = first
    node.sync()
    assert answers(node)[-1].next_index == 2
    node.unsynced = later
    node.sync()
    assert answers(node)[-1].next_index == 4


def test_a_vote_waits_for_the_disk() -> None:
    """A vote that a crash could make the node forget has not left it."""
    node = Node(1, [1, 2, 3])
    node.tick(1.0)
    node.receive(2, VoteRequest(Term(1), LogIndex(0), Term(0)))
    votes = [body for _, body in node.take_sent() if isinstance(body, VoteGranted)]
    assert votes == []
    node.crash()
    node.tick(2.0)
    node.receive(3, VoteRequest(Term(1), LogIndex(0), Term(0)))
    node.sync()
    votes += [body for _, body in node.take_sent() if isinstance(body, VoteGranted)]
    assert len(votes) == 1


def test_a_held_vote_is_dropped_when_its_term_is_over() -> None:
    """By the time the disk is ready the candidate's term is history: no vote leaves for it."""
    node = Node(1, [1, 2, 3])
    node.tick(1.0)
    node.receive(2, VoteRequest(Term(1), LogIndex(0), Term(0)))
    node.receive(3, VoteRequest(Term(2), LogIndex(0), Term(0)))
    node.sync()
    votes = [(to, body) for to, body in node.take_sent() if isinstance(body, VoteGranted)]
    assert votes == [(NodeId(3), VoteGranted(Term(2)))]


def test_a_candidate_asks_for_votes_when_its_own_is_durable() -> None:
    """The candidate's vote for itself is on its disk before anyone is asked."""
    node = Node(1, [1, 2, 3])
    node.tick(1.0)
    node.tick(2.1)
    node.receive(2, PreVoteResponse(Term(0), Term(1), granted=True))
    assert not [body for _, body in node.take_sent() if isinstance(body, VoteRequest)]
    node.sync()
    assert (node.disk.term, node.disk.voted_for) == (1, 1)
    asked = [to for to, body in node.take_sent() if isinstance(body, VoteRequest)]
    assert asked == [2, 3]


def test_a_repeated_vote_elects_nobody() -> None:
    """One of five voters, heard twice, is one vote (H9a)."""
    node = Node(1, [1, 2, 3, 4, 5])
    node.tick(1.0)
    node.tick(2.1)
    for voter in (2, 3):
        node.receive(voter, PreVoteResponse(Term(0), Term(1), granted=True))
    node.sync()
    node.receive(2, VoteGranted(Term(1)))
    node.receive(2, VoteGranted(Term(1)))
    assert [node.group.role] == [Role.CANDIDATE]
    node.receive(3, VoteGranted(Term(1)))
    assert [node.group.role] == [Role.LEADER]


def test_a_stranger_is_not_listened_to() -> None:
    """Votes, requests and entries of a node that is no member change nothing."""
    node = Node(1, [1, 2, 3])
    node.tick(1.0)
    node.receive(9, append(5, (0, 0), 5))
    node.receive(9, VoteRequest(Term(9), LogIndex(7), Term(7)))
    node.receive(9, VoteGranted(Term(0)))
    assert node.group.term == 0
    assert node.group.last_index == 0
    assert node.take_sent() == []


def test_entries_are_handed_out_only_when_committed_and_durable() -> None:
    """A follower that hears of a commit before its own sync does not apply yet."""
    node = Node(1, [1, 2, 3])
    node.tick(1.0)
    node.receive(2, append(1, (0, 0), 1, 1, commit_index=2))
    assert node.group.commit_index == 2
    assert node.applied == []
    node.sync()
    assert [e.log_index for e in node.applied] == [1, 2]


def test_a_damaged_replica_neither_votes_nor_campaigns_nor_acknowledges() -> None:
    """Corruption may have taken what it promised, so its word counts for nothing."""
    recovered = log_of(1)
    recovered.damaged = True
    node = Node(1, [1, 2, 3], recovered)
    for step in range(100):
        node.tick(1.0 + step / 10)
    node.receive(2, VoteRequest(Term(2), LogIndex(9), Term(9)))
    node.sync()
    assert node.take_sent() == []
    node.receive(2, append(3, (1, 1), 3, commit_index=2))
    node.sync()
    (answer,) = answers(node)
    assert (answer.success, answer.next_index, answer.sender_term) == (False, 0, 3)
    assert answer.recovery == node.group.recovery > 0
    assert (node.group.leader, node.group.last_index, node.applied) == (2, 1, [])
