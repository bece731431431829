"""What is left on a node, by the catalog and by what it says itself."""

from __future__ import annotations

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as rpc
from svc_cluster.administration.node_drains import what_is_left
from svc_cluster.base.ids import NodeId
from svc_cluster.cli.admin import cluster_text

IDLE = rpc.NodeOverview()
CATALOG = "it votes in the catalog, until another node can"


@pytest.mark.parametrize(
    ("seen", "replicas", "holds_catalog", "lines"),
    [
        (IDLE, 0, False, ["node 3 is draining: nothing is left on it"]),
        (IDLE, 0, True, ["node 3 is draining: 0 leads and 0 replicas are on it", CATALOG]),
        (IDLE, 1, False, ["node 3 is draining: 0 leads and 1 replicas are on it"]),
        (
            rpc.NodeOverview(groups_led=2),
            0,
            False,
            ["node 3 is draining: 2 leads and 0 replicas are on it"],
        ),
        (
            None,
            0,
            False,
            ["node 3 is draining: leads that it does not tell and 0 replicas are on it"],
        ),
        (
            None,
            0,
            True,
            ["node 3 is draining: leads that it does not tell and 0 replicas are on it", CATALOG],
        ),
    ],
)
def test_a_node_is_empty_where_it_says_so_and_has_nothing(
    seen: rpc.NodeOverview | None, replicas: int, holds_catalog: bool, lines: list[str]
) -> None:
    """Of one that does not answer, and of one with a replica of the catalog, it is not said."""
    told = rpc.NodeDrain(state="draining", replicas=replicas)
    answer = what_is_left(NodeId(3), told, seen, holds_catalog=holds_catalog)
    assert cluster_text.drain(answer) == lines
    assert answer.empty is (len(lines) == 1 and "nothing" in lines[0])
    assert answer.answers is (seen is not None)
    assert answer.holds_catalog is holds_catalog
