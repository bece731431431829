"""What a gateway tells of the cluster as a whole: every node, whoever answers."""

from __future__ import annotations

import asyncio

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.ids import NodeId, TimestampMs
from svc_cluster.gateway.cluster import node_client
from svc_cluster.gateway.cluster.leaders import Fill
from svc_cluster.gateway.cluster.node_client import (
    KEPT_SECONDS,
    NODE_SECONDS,
    ListedNode,
    NodeClient,
)


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

    async def ask_catalog_any_node(self, fill: Fill, seconds: float) -> pb.Response:
        assert seconds == NODE_SECONDS
        request = pb.Request()
        fill(request)
        assert request.WhichOneof("operation") == "list_nodes"
        told = pb.Response()
        told.nodes.nodes.add(node_id=1, address="a", state="active")
        told.nodes.nodes.add(node_id=2, address="b", host="rack", zone="east", state="draining")
        told.nodes.nodes.add(node_id=9, address="c", state="active")
        return told


class WithoutCatalog(Three):
    """No node of the catalog answers."""

    async def ask_catalog_any_node(self, fill: Fill, seconds: float) -> pb.Response:
        raise UnavailableError("no node answers")


class SilentCatalog(Three):
    """Each node of the catalog takes the question and gives no answer."""

    async def ask_catalog_any_node(self, fill: Fill, seconds: float) -> pb.Response:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")


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
    assert (found[2].facts, found[3].facts) == (None, None)
    one = found[1].facts
    assert one is not None
    assert (one.version, one.groups, one.groups_led, one.leads) == ("9.9", 3, 1, ("", "basin"))
    assert not one.takes_appends


def test_what_the_catalog_has_is_told_of_nodes_that_are_away_too() -> None:
    """Node 2 does not answer, and its zone and drain are known; of 3 the catalog says nothing."""
    found = asyncio.run(NodeClient(Three(), ManualClock()).nodes())
    assert {node: known.standing for node, known in found.items()} == {
        1: ListedNode(state="active"),
        2: ListedNode(host="rack", zone="east", state="draining"),
        3: ListedNode(),
    }


@pytest.mark.parametrize("cluster", [WithoutCatalog(), SilentCatalog()])
def test_a_catalog_without_an_answer_hides_no_node(
    cluster: Three, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nodes say of themselves is told all the same, and within the time that they have."""
    monkeypatch.setattr(node_client, "STANDINGS_SECONDS", 0.01)
    found = asyncio.run(NodeClient(cluster, ManualClock()).nodes())
    assert [known.facts is not None for known in found.values()] == [True, False, False]
    assert {known.standing for known in found.values()} == {ListedNode()}
