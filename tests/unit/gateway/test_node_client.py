"""What a gateway tells of the cluster as a whole: every node, whoever answers."""

from __future__ import annotations

import asyncio

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import NodeId, TimestampMs
from svc_cluster.gateway.cluster.leaders import Fill
from svc_cluster.gateway.cluster.node_client import KEPT_SECONDS, NODE_SECONDS, NodeClient


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


class ManualClock:
    """Stands still until a test moves it."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> TimestampMs:
        raise AssertionError("nothing here goes by the wall clock")


class Slow(Three):
    """Answers when the test says so, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = asyncio.Event()

    async def ask_every_node(self, fill: Fill, seconds: float) -> list[pb.Response | None]:
        self.asked += 1
        await self.answers.wait()
        return await super().ask_every_node(fill, seconds)


def test_all_who_ask_at_once_share_one_question() -> None:
    """Nodes are asked once for a thousand callers, one of whom goes away; once more for who comes
    when the answer is no longer told; and nothing is left under way."""

    async def main() -> None:
        clock, cluster = ManualClock(), Slow()
        client = NodeClient(cluster, clock)
        callers = [asyncio.ensure_future(client.nodes()) for _ in range(1000)]
        await asyncio.sleep(0)
        callers[0].cancel()
        await asyncio.sleep(0)
        cluster.answers.set()
        told = await asyncio.gather(*callers[1:])
        assert cluster.asked == 1
        assert all(found == told[0] and found is not told[0] for found in told[1:])
        clock.now += KEPT_SECONDS / 2
        await client.nodes()
        assert cluster.asked == 1
        clock.now += KEPT_SECONDS
        await client.nodes()
        assert cluster.asked == 2
        cluster.answers.clear()
        clock.now += KEPT_SECONDS
        last = asyncio.ensure_future(client.nodes())
        while cluster.asked < 3:
            await asyncio.sleep(0)
        await client.close()
        with pytest.raises(asyncio.CancelledError):
            await last

    asyncio.run(main())


def test_every_node_is_told_and_nobody_else() -> None:
    """One that does not answer, or does not say who it is, is told as down, not left out."""
    found = asyncio.run(NodeClient(Three(), ManualClock()).nodes())
    assert list(found) == [1, 2, 3]
    assert (found[2], found[3]) == (None, None)
    one = found[1]
    assert one is not None
    assert (one.version, one.groups, one.groups_led, one.leads) == ("9.9", 3, 1, ("", "basin"))
    assert not one.takes_appends
