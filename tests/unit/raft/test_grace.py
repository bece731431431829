"""A node with very much to do takes nobody's silence for an end, for a while."""

from __future__ import annotations

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.raft.group import PeerDown, Role
from svc_cluster.raft.messages import PreVoteRequest, PreVoteResponse
from svc_cluster.raft.raft_settings import RaftSettings
from tests.unit.raft.harness import Cluster, Node, append

GRACE = 2.0
SETTINGS = RaftSettings()


def asked_for_votes(node: Node) -> bool:
    return any(isinstance(body, PreVoteRequest) for _, body in node.take_sent())


def follower() -> Node:
    """Node 1 of three, which has heard node 2 as its leader at second 1."""
    node = Node(1, [1, 2, 3])
    node.tick(1.0, GRACE)
    node.receive(2, append(4, (0, 0)))
    node.sync()
    node.take_sent()
    return node


def leads(node: Node) -> bool:
    return node.group.role is Role.LEADER


def test_a_follower_stands_behind_its_time_and_the_grace() -> None:
    """What its leader has sent may wait here. Without the grace it stands at once."""
    node = follower()
    for now in (2.1, 1.0 + SETTINGS.election_min + GRACE - 0.01):
        node.tick(now, GRACE)
        assert not asked_for_votes(node), now
    assert (node.group.role, node.group.leader) == (Role.FOLLOWER, 2)
    node.tick(1.0 + SETTINGS.election_max + GRACE + 0.01, GRACE)
    assert asked_for_votes(node)

    other = follower()
    other.tick(2.1)
    assert asked_for_votes(other), "the grace is that of the last tick"


def test_a_voter_with_a_grace_says_no_for_longer() -> None:
    """Its leader is not taken for gone because others, with less to do, have asked."""
    node = follower()
    question = PreVoteRequest(Term(4), Term(5), LogIndex(0), Term(0))
    last = 1.0 + SETTINGS.election_min - SETTINGS.heartbeat + GRACE
    answers = []
    for now, grace in ((1.6, GRACE), (3.0, GRACE), (3.01, 0.0), (3.02, GRACE), (last, GRACE)):
        node.tick(now, grace)
        node.receive(3, question)
        answers += [one for one in node.take_sent() if isinstance(one[1], PreVoteResponse)]
    assert answers == [
        (NodeId(3), PreVoteResponse(Term(4), Term(5), granted=granted))
        for granted in (False, False, True, False, True)
    ]


def test_a_leader_that_asks_for_votes_is_believed() -> None:
    """It leads no more, whatever was heard of it: without that, its group would have no leader for
    as long as its voters have patience."""
    node = follower()
    node.tick(1.1, GRACE)
    question = PreVoteRequest(Term(4), Term(5), LogIndex(0), Term(0))
    for asks, granted in ((3, False), (2, True)):
        node.receive(asks, question)
        assert node.take_sent() == [
            (NodeId(asks), PreVoteResponse(Term(4), Term(5), granted=granted))
        ]
    assert node.group.term == 4, "nothing is promised by it"


def test_a_leader_whose_connection_ends_has_no_grace() -> None:
    """Nothing that it has sent waits here: its node was killed, and another is elected as soon as
    where nothing is awake."""
    node = follower()
    node.tick(1.1, GRACE)
    node.group.step(PeerDown(NodeId(2)))
    node.tick(1.0 + SETTINGS.election_max + 0.01, GRACE)
    assert asked_for_votes(node)
    question = PreVoteRequest(Term(4), Term(5), LogIndex(0), Term(0))
    node.receive(3, question)
    assert (NodeId(3), PreVoteResponse(Term(4), Term(5), granted=True)) in node.take_sent()


def test_a_leader_with_a_grace_steps_down_later() -> None:
    """Answers of the others may wait here too; without a quorum it does step down in the end."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.advance(0.5, grace=GRACE)
    cluster.isolate(leader.node_id)
    cluster.advance(SETTINGS.leader_fallback + GRACE - 0.3, grace=GRACE)
    assert leads(leader)
    cluster.advance(0.6, grace=GRACE)
    assert not leads(leader)

    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.advance(0.5, grace=GRACE)
    cluster.isolate(leader.node_id)
    cluster.advance(SETTINGS.leader_fallback + 0.3)
    assert not leads(leader), "the grace is over with the next tick"


def test_a_grace_keeps_nobody_from_electing() -> None:
    """A cluster all of whose nodes have one elects a leader, and another when that is lost."""
    cluster = Cluster(3)
    cluster.advance(10.0, grace=GRACE)
    (first,) = [node for node in cluster.nodes.values() if node.group.can_propose]
    cluster.isolate(first.node_id)
    cluster.advance(SETTINGS.election_max + GRACE + 1.5, grace=GRACE)
    others = [node for node in cluster.nodes.values() if node is not first]
    assert sum(node.group.can_propose for node in others) == 1
