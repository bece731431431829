"""What a seal in the log of a configuration ends: proposals, reads, and all that stands behind."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import LogIndex, Term
from svc_cluster.base.log_ops import LogEntry, SetCommit
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.group import EngineFault, Message, NotLeaderError, Role, Trim
from svc_cluster.raft.log_view import LogView
from svc_cluster.raft.messages import AppendRequest
from svc_cluster.raft.seal import SEAL_TYPE, GroupSeal, SealFormatError, decode_seal, encode_seal
from tests.unit.raft.harness import Cluster, Node, ack, answers, append, become_leader, log_of
from tests.unit.raft.sealing import committed_kinds, members, noop, seal_of, sealed


def request(term: int, *entries: LogEntry, commit_index: int) -> AppendRequest:
    """Entries that follow upon the first, which has term 1."""
    return AppendRequest(
        Term(term), LogIndex(1), Term(1), LogIndex(commit_index), tuple(entries), 1
    )


def follower() -> Node:
    node = Node(2, [1, 2, 3])
    node.receive(1, append(1, (0, 0), 1, commit_index=1))
    node.sync()
    return node


def sealing_leader() -> Node:
    """Leads term 1 of three; its first entry is committed, the seal is in its log."""
    node = Node(1, [1, 2, 3])
    become_leader(node, 10.0, [2])
    node.sync()
    node.receive(2, ack(1, 1, 1))
    assert node.group.commit_index == 1
    node.group.seal(seal_of(1, 4, 5))
    node.drain()
    return node


def test_a_leader_with_a_seal_proposes_nothing_and_starts_no_read() -> None:
    """Committed or not: its log is at its end. It goes on leading, so that the seal is decided."""
    node = sealing_leader()
    for _ in range(2):
        assert node.group.role is Role.LEADER
        assert not node.group.can_propose
        with pytest.raises(NotLeaderError):
            node.group.propose(b"\x09more")
        with pytest.raises(NotLeaderError):
            node.group.seal(seal_of(1, 2, 3))
        with pytest.raises(NotLeaderError):
            node.group.read_index()
        node.sync()
        node.receive(2, ack(1, 2, 9))
    assert node.group.commit_index == 2


def test_a_read_that_has_begun_may_end_behind_the_seal() -> None:
    """Nobody else can have been elected when its round is answered."""
    node = Node(1, [1, 2, 3])
    become_leader(node, 10.0, [2])
    node.sync()
    node.receive(2, ack(1, 1, 1))
    node.group.read_index()
    node.group.seal(seal_of(1, 4, 5))
    node.drain()
    node.sync()
    node.receive(2, ack(1, 2, 9))
    assert [state.read_index for state in node.read_states] == [1]


def test_a_later_leader_that_has_the_seal_proposes_nothing() -> None:
    """What it finds in its log counts as what it would have proposed."""
    disk = log_of(1, 1)
    disk.entries[1] = sealed(2, 1, 1, 4, 5)
    node = Node(1, [1, 2, 3], disk)
    become_leader(node, 10.0, [2])
    node.sync()
    assert node.group.role is Role.LEADER
    assert not node.group.can_propose
    node.receive(2, ack(2, 3, 9))
    with pytest.raises(NotLeaderError):
        node.group.read_index()


def test_what_is_committed_behind_a_seal_is_no_part_of_the_group() -> None:
    """A new leader's first entry: neither handed out, nor told, nor kept as committed."""
    node = follower()
    node.receive(1, request(2, sealed(2, 1, 1, 4, 5), noop(3, 2), commit_index=3))
    node.sync()
    node.receive(1, append(2, (3, 2), commit_index=3, read_sequence=2))
    node.sync()
    assert node.group.last_index == 3
    assert node.group.commit_index == 2
    assert committed_kinds(node) == [9, SEAL_TYPE]
    assert node.disk.commit_index == 2


def test_a_leader_tells_no_commit_behind_the_seal() -> None:
    """Its own first entry may be decided in the engine; it says so to nobody."""
    disk = log_of(1, 1)
    disk.entries[1] = sealed(2, 1, 1, 4, 5)
    node = Node(1, [1, 2, 3], disk)
    now = become_leader(node, 10.0, [2])
    node.sync()
    node.receive(2, ack(2, 3, 9))
    node.take_sent()
    node.tick(now + 0.2)
    told = [body for _, body in node.take_sent() if isinstance(body, AppendRequest)]
    assert {body.commit_index for body in told} == {2}
    assert node.group.commit_index == 2


@pytest.mark.parametrize("behind", [LogEntry(LogIndex(3), Term(2), b"\x09x"), sealed(3, 2, 1)])
def test_anything_but_a_first_entry_behind_a_seal_is_a_fault(behind: LogEntry) -> None:
    """From a leader, and in a log that is found: no rule of ours makes it."""
    node = follower()
    with pytest.raises(EngineFault, match="behind the seal"):
        node.receive(1, request(2, sealed(2, 1, 1, 4, 5), behind, commit_index=1))
    disk = log_of(1, 1, 2)
    disk.entries[1:] = [sealed(2, 1, 1, 4, 5), behind]
    with pytest.raises(EngineFault, match="behind the seal"):
        Node(1, [1, 2, 3], disk)


def test_a_seal_that_loses_ends_nothing() -> None:
    """The next leader has another entry in its place, and the group goes on."""
    node = follower()
    node.receive(1, request(1, sealed(2, 1, 1, 4, 5), commit_index=1))
    node.sync()
    assert node.group.last_index == 2
    node.receive(3, append(2, (1, 1), 2, 2, commit_index=3, read_sequence=5))
    node.sync()
    assert node.group.commit_index == 3
    assert committed_kinds(node) == [9, 9, 9]


def test_the_seal_stays_in_the_log_until_the_configuration_has_ended() -> None:
    """A trim that reaches it stops before it: a restart has to know that there is an end."""
    node = follower()
    node.receive(1, request(1, sealed(2, 1, 1, 4, 5), commit_index=2))
    node.sync()
    assert committed_kinds(node) == [9, SEAL_TYPE]
    node.group.step(Trim(LogIndex(2)))
    node.drain()
    node.sync()
    assert node.group.base_index == 1
    node.start()
    assert not node.group.can_propose
    with pytest.raises(EngineFault, match="behind the seal"):
        node.receive(1, append(2, (2, 1), 2, commit_index=2))


def test_a_group_of_one_seals_by_itself() -> None:
    """No other acknowledgement is needed than its own disk's."""
    cluster = Cluster(1)
    leader = cluster.elect()
    leader.group.seal(seal_of(1, 2, 3))
    cluster.settle()
    assert committed_kinds(leader)[-1] == SEAL_TYPE
    assert leader.group.commit_index == leader.group.last_index


def test_seals_survive_their_encoding() -> None:
    """Of one member and of as many as there may be; with the change's number."""
    for seal in (GroupSeal(0, members(3)), GroupSeal(2**62, members(1, 2, 3, 4, 5, 6, 7))):
        assert decode_seal(encode_seal(seal)) == seal


@pytest.mark.parametrize(
    "payload",
    [
        b"\x0a",
        b"\x0a\x02" + encode_seal(seal_of(1))[2:],
        encode_seal(seal_of(1)) + b"x",
        encode_seal(GroupSeal(1, members(1) * 2)),
        encode_seal(GroupSeal(1, members(2, 1))),
        encode_seal(GroupSeal(1, members(*range(8)))),
        encode_seal(GroupSeal(1, ())),
    ],
    ids=["short", "format", "long", "twice", "order", "many", "none"],
)
def test_what_is_no_seal_is_refused(payload: bytes) -> None:
    """Neither taken from a leader nor found in a log: it could end what it does not name."""
    with pytest.raises(SealFormatError):
        decode_seal(payload)
    node = follower()
    answers(node)
    node.receive(1, request(1, LogEntry(LogIndex(2), Term(1), payload), commit_index=1))
    assert node.group.last_index == 1
    assert answers(node) == []
    disk = log_of(1, 1)
    disk.entries[1] = LogEntry(LogIndex(2), Term(1), payload)
    with pytest.raises(EngineFault, match="no known type"):
        Node(1, [1, 2, 3], disk)


def test_a_commit_index_is_written_up_to_the_seal() -> None:
    """Whatever the engine counts behind it."""
    disk = log_of(1, 1)
    disk.entries[1] = sealed(2, 1, 4)
    log = LogView(disk, LogIndex(0))
    log.append(b"\x01", 3, 2)
    log.set_commit(3)
    assert SetCommit(LogIndex(2)) in log.take(1)


def test_a_message_to_a_group_without_a_seal_is_what_it_was() -> None:
    """Terms of a configuration that nobody has begun are heard by nobody."""
    group: EngineGroup = follower().group
    before = group.term
    group.step(Message(group.members[0], append(1 << 41, (1, 1), 1)))
    assert group.term == before
    assert group.last_index == 1
