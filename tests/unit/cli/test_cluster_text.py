"""What `svc-cluster admin` prints of the cluster, of a basin's replicas and of leads that move."""

from __future__ import annotations

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster.cli.admin import cluster_text

MIB = 1024 * 1024
UP = pb.ClusterNode(
    node_id=1,
    standing="up",
    release="0.3",
    groups=7,
    groups_led=3,
    lag_entries=2,
    wal_bytes=32 * MIB,
    free_bytes=100 * MIB,
    memory_bytes=MIB,
    memory_bytes_max=320 * MIB,
)


def test_the_page_of_a_cluster() -> None:
    """A node that does not answer has dashes, and what is wrong and what waits stand below."""
    answer = pb.ClusterResponse(
        cluster_id="c",
        active_version=2,
        newest_version=3,
        basins=6,
        nodes=[UP, pb.ClusterNode(node_id=2, standing="absent")],
        problems=["one"],
        outstanding=["two"],
    )
    assert cluster_text.status(answer) == [
        "cluster c: 1 problem",
        "version    2 (release 0.2) is active, 3 is spoken",
        "basins     6",
        "catalog    led by nobody",
        "NODE  STANDING  RELEASE  GROUPS  LED  LAG  LOG MIB  FREE MIB  MEMORY MIB",
        "1     up        0.3      7       3    2    32       100       1 of 320",
        "2     absent    -        -       -    -    -        -         -",
        "wrong      one",
        "waits      two",
    ]
    assert cluster_text.health(answer) == ["1 problem", "wrong      one"]
    assert cluster_text.health(pb.ClusterResponse()) == ["healthy"]
    assert cluster_text.health(pb.ClusterResponse(problems=["a", "b"]))[0] == "2 problems"


def replica(node: int, **fields: object) -> pb.BasinReplica:
    row = pb.BasinReplica(node_id=node, role="follower", applied_index=4, digest="00", term=2)
    row.MergeFrom(pb.BasinReplica(**fields))  # type: ignore[arg-type]
    return row


def test_the_replicas_of_a_basin_and_what_is_wrong_with_them() -> None:
    """Each fault is a sentence; none where all is well."""
    well = pb.BasinResponse(
        basin="b", group_id=7, leader=1, replicas=[replica(1, role="leader"), replica(2)]
    )
    assert cluster_text.basin_faults(well) == []
    assert cluster_text.basin(well) == [
        "basin b: group 7, led by node 1",
        "NODE  ROLE      TERM  APPLIED  COMMIT  LAST  LOG MIB  DIGEST  STORED MIB",
        "1     leader    2     4        0       0     0        00      0",
        "2     follower  2     4        0       0     0        00      0",
    ]
    ill = pb.BasinResponse(
        replicas=[
            pb.BasinReplica(node_id=1, role="absent"),
            pb.BasinReplica(node_id=2, role="stopped", reason="why"),
            replica(3, recovering=True),
        ],
        diverged=True,
    )
    assert cluster_text.basin_faults(ill) == [
        "nobody leads it",
        "replicas that have applied the same entries hold different things",
        "the replica on node 1 is absent",
        "the replica on node 2 is stopped: why",
        "the replica on node 3 is being made whole",
    ]


def test_leads_and_their_moves() -> None:
    """By node, and by group; what could not be moved is named."""
    rows = [
        pb.GroupLeader(group_id=1, leader=2, members=[1, 2]),
        pb.GroupLeader(group_id=2, basin="b", members=[1, 2]),
    ]
    assert cluster_text.leaders(pb.LeadersResponse(groups=rows)) == [
        "nobody leads 1",
        "node 2 leads 1",
        "GROUP  BASIN  LEADER  MEMBERS",
        "1      -      2       1,2",
        "2      b      -       1,2",
    ]
    answer = pb.BalanceLeadersResponse(
        counts=[pb.LeadCount(node_id=1, led=4), pb.LeadCount(node_id=2, avoids_leads=True)],
        moves=[
            pb.LeadMove(group_id=5, basin="b", from_node=1, to_node=3),
            pb.LeadMove(group_id=6, basin="c", from_node=1, to_node=3, done=True),
        ],
        moved=1,
    )
    assert cluster_text.balanced(answer) == [
        "node 1 led 4",
        "node 2 led 0, and takes none now",
        "1 leads moved",
        "1 could not be moved:",
        "GROUP  BASIN  FROM  TO",
        "5      b      1     3",
    ]
    assert cluster_text.balance_plan(pb.BalanceLeadersResponse()) == ["there is nothing to move"]
    moved = pb.TransferLeaderResponse(group_id=5, from_node=1, leader=3)
    assert cluster_text.moved(moved) == ["group 5 is led by node 3, no longer by 1"]
    moved.from_node = 3
    assert cluster_text.moved(moved) == ["group 5 is led by node 3 already"]


def test_what_is_being_moved_is_told_with_its_reason() -> None:
    """By whomever it was ordered; and whether all is where it should be."""
    answer = pb.PlanPlacementResponse(begun=3, given_up=1, waits="node 4 is away")
    answer.open.add(group_id=7, basin="logs", to=[1, 2, 4], reason="by hand", given_up=True)
    lines = cluster_text.rebalanced(answer)
    assert lines[0] == "3 moves begun, 1 of all moves are open, 1 given up; node 4 is away"
    assert "logs" in lines[2] and "1,2,4" in lines[2] and "by hand, being given up" in lines[2]
    assert cluster_text.placement(answer) == lines
    done = cluster_text.rebalanced(pb.PlanPlacementResponse(begun=3, done=True))
    assert done == ["every replica is where it should be: 3 moves begun, 0 of all moves are open"]


def test_how_the_last_move_ended_is_told_where_its_leader_gave_it_up() -> None:
    """Below the basin; nothing where it was not, or nobody knows any more."""
    told = "the move to 1, 2, 4 was given up: the new replica on node 4 is damaged"
    shown = cluster_text.basin(pb.BasinResponse(basin="b", group_id=2, leader=1, last_move=told))
    assert shown[:2] == ["basin b: group 2, led by node 1", told]
    assert told not in cluster_text.basin(pb.BasinResponse(basin="b", group_id=2, leader=1))
