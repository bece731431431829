"""The directed history of a stale read: a leader that applies late while its successor serves."""

from __future__ import annotations

from contextlib import suppress

from svc_cluster.base.ids import Generation, LogIndex, NodeId
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.raft.feed import Feed
from svc_cluster.raft.group import NotLeaderError
from svc_cluster.raft.learner import Learner
from svc_cluster.raft.raft_settings import RaftSettings
from svc_cluster.raft.seal import GroupSeal
from tests.unit.raft.harness import GROUP, Cluster, Node, ack, become_leader, payload
from tests.unit.raft.sealing import members


def member_of_next(node_id: int, source: Node) -> Node:
    """A learner that was fed by a member which has applied the seal, as a member of the next."""
    next_one = source.group.seam.next_at(LogIndex(source.applied_index))
    assert next_one is not None
    one = Learner(
        recovered=RecoveredLog(GROUP, Generation(1), configuration=source.group.seam.configuration),
        applied_index=LogIndex(0),
        settings=RaftSettings(),
    )
    fed = source.group.seam.feed(LogIndex(0), LogIndex(source.applied_index))
    assert isinstance(fed, Feed)
    one.take(fed)
    while one.ready() is not None:
        pass
    return Node(node_id, list(next_one.nodes), one.end(next_one).recovered)


def test_a_leader_that_applies_late_answers_no_read_that_misses_what_its_successor_took() -> None:
    """The leader of three has sealed for itself and two newcomers, and has not begun that. One of
    the newcomers is elected by the other and acknowledges a write. A read that the old leader
    started now would be confirmed by the third, and would miss the write."""
    cluster = Cluster(3)
    leader = cluster.elect()
    leader.group.propose(payload("before"))
    cluster.settle()
    others = [node for node in cluster.nodes.values() if node is not leader]
    leader.group.seal(GroupSeal(1, members(leader.node_id, 4, 5)))
    cluster.settle()
    cluster.advance(0.2)
    fourth, fifth = (member_of_next(node_id, others[0]) for node_id in (4, 5))
    now = become_leader(fourth, cluster.now, [5])
    fourth.group.propose(payload("after"))
    fourth.drain()
    fourth.sync()
    fourth.receive(5, ack(fourth.group.term, fourth.group.last_index, 9))
    fourth.tick(now + 0.1)
    acknowledged = fourth.group.commit_index
    assert fourth.applied_texts()[-1] == "after"
    assert fifth.group.members == tuple(sorted((leader.node_id, NodeId(4), NodeId(5))))
    with suppress(NotLeaderError):
        leader.group.read_index()
    cluster.advance(0.3)
    found = [state.read_index for state in leader.read_states if state.read_index is not None]
    assert [index for index in found if index < acknowledged] == []
