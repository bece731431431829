"""What a gateway tells of the cluster as a whole: every node, whoever answers."""

from __future__ import annotations

import asyncio

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import NodeId
from svc_cluster.gateway.cluster.leaders import Fill
from svc_cluster.gateway.cluster.node_client import NODE_SECONDS, NodeClient


class Three:
    """Node 1 answers, 2 does not, 3 is not told of by name, and a stranger answers as 9."""

    nodes = (NodeId(1), NodeId(2), NodeId(3))

    async def ask_every_node(self, fill: Fill, seconds: float) -> list[pb.Response | None]:
        assert seconds == NODE_SECONDS
        request = pb.Request()
        fill(request)
        assert request.WhichOneof("operation") == "overview"
        one = pb.NodeOverview(node_id=1, version="9.9", groups=3, groups_led=1, leads=["", "basin"])
        stranger = pb.NodeOverview(node_id=9)
        return [pb.Response(overview=one), None, pb.Response(overview=stranger)]


def test_every_node_is_told_and_nobody_else() -> None:
    """One that does not answer, or does not say who it is, is told as down, not left out."""
    found = asyncio.run(NodeClient(Three()).nodes())
    assert list(found) == [1, 2, 3]
    assert (found[2], found[3]) == (None, None)
    one = found[1]
    assert one is not None
    assert (one.version, one.groups, one.groups_led, one.leads) == ("9.9", 3, 1, ("", "basin"))
    assert not one.takes_appends
