"""What is said to be wrong with a cluster, and what waits, by what its nodes say."""

from __future__ import annotations

from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster.administration.cluster_health import PROBLEMS_MAX, outstanding, problems

GIB = 1024**3
WELL: dict[str, Any] = {
    "address": "a:1",
    "standing": "up",
    "release": "0.3",
    "groups": 4,
    "groups_led": 2,
    "free_bytes": 9 * GIB,
    "takes_appends": True,
    "memory_bytes": 1,
    "memory_bytes_max": 100,
}


def cluster(*changes: dict[str, Any], **more: int) -> pb.ClusterResponse:
    """Three nodes that are well, but for these changes of the first ones."""
    rows = [dict(WELL, node_id=number) for number in (1, 2, 3)]
    for row, change in zip(rows, changes, strict=False):
        row |= change
    fields = {"catalog_leader": 1, "active_version": 3, "newest_version": 3} | more
    found = pb.ClusterResponse(nodes=[pb.ClusterNode(**row) for row in rows])
    found.catalog_leader = fields["catalog_leader"]
    found.active_version = fields["active_version"]
    found.newest_version = fields["newest_version"]
    return found


GONE = {"release": "", "standing": "absent", "groups_led": 0}


def test_a_cluster_in_which_all_is_well_has_nothing_to_tell() -> None:
    assert problems(cluster()) == []
    assert outstanding(cluster()) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (cluster(GONE), ["node 1 at a:1 does not answer: it is absent"]),
        (cluster(catalog_leader=0), ["nobody is known to lead the catalog: basins and"]),
        (cluster(active_version=0), ["node 1, which leads the catalog, does not answer for it"]),
        (cluster({"failed_checks": ["a", "b"]}), ["node 1 is not ready: a, b"]),
        (cluster({"failed_checks": ["not_draining"], "draining": True}), []),
        (cluster({}, {"groups_without_leader": 1}), ["node 2 knows no leader of 1 group"]),
        (cluster({"groups_held": 2}), ["node 1 has stopped or parked 2 groups: "]),
        (cluster({"groups_recovering": 3}), ["node 1 is making 3 groups whole"]),
        (
            cluster({"groups_lost": 2}),
            ["node 1 has lost 2 groups for good, with their only replica: delete these basins"],
        ),
        (
            cluster({"takes_appends": False, "free_bytes": 1 << 20}),
            ["node 1 refuses appends: its disk has 1 MiB free"],
        ),
        (cluster({"free_bytes": GIB - 1}), ["node 1 has only 1023 MiB free on its disk"]),
        (cluster({"lag_entries": 1001}), ["node 1 has 1001 entries of one group still to apply"]),
        (cluster({"memory_bytes": 91}), ["node 1 holds 0 of 0 MiB in memory and refuses"]),
        (cluster({"memory_bytes": 90, "lag_entries": 1000, "free_bytes": GIB}), []),
    ],
)
def test_each_thing_that_is_wrong_is_one_sentence(
    found: pb.ClusterResponse, said: list[str]
) -> None:
    """And what is at its bound is not wrong yet."""
    told = problems(found)
    assert len(told) == len(said), told
    for sentence, beginning in zip(told, said, strict=True):
        assert sentence.startswith(beginning)


def test_without_a_majority_that_is_said_first() -> None:
    """Whatever else there is."""
    told = problems(cluster(GONE, GONE, {"lag_entries": 9999}))
    assert told[0].startswith("1 of 3 nodes answer, which is no majority")
    assert len(told) == 4


def test_nobody_has_to_read_more_than_a_page() -> None:
    """A large cluster that is away."""
    nodes = [pb.ClusterNode(node_id=n, standing="absent") for n in range(1, 300)]
    assert len(problems(pb.ClusterResponse(nodes=nodes))) == PROBLEMS_MAX


def test_what_waits_is_told_and_harms_nobody() -> None:
    """Leads count where they may be; a drained node has none, and is no reason to move any."""
    told = outstanding(cluster({"groups_led": 5, "release": "0.4"}, newest_version=4))
    assert told == [
        "version 4 is not active: svc-cluster admin upgrade status",
        "nodes run different releases: 0.3, 0.4",
        "leads are uneven, from 2 to 5 a node: svc-cluster admin leader balance",
    ]
    drained = {"draining": True, "avoids_leads": True, "groups_led": 0}
    assert outstanding(cluster(drained)) == [
        "node 1 is drained: it leads nothing until it is started again"
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"groups_led": 0}, "node 1 is drained: nothing is left on it"),
        ({"groups_led": 0, "holds_catalog": True}, "node 1 is drained: it votes in the catalog"),
        ({"groups_led": 0, "replicas": 2}, "node 1 is drained of leads: 2 replicas are left on it"),
        ({"groups_led": 1, "replicas": 2}, "node 1 is being drained: 1 leads and 2 replicas are"),
        (GONE, "node 1 drains and does not answer: what it leads is not known"),
        (GONE | {"replicas": 2}, "node 1 drains and does not answer: what it leads is not known"),
    ],
)
def test_of_a_drained_node_is_told_what_is_known(row: dict[str, Any], said: str) -> None:
    """That nothing is left on it only where it says so itself."""
    told = outstanding(cluster(row | {"state": "draining", "avoids_leads": True}))
    assert len(told) == 1
    assert told[0].startswith(said)
