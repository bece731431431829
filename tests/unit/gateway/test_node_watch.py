"""A gateway meets the nodes that the catalog has, and lets go of those that were removed."""

from __future__ import annotations

from typing import Any

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import NodeId
from svc_cluster.gateway.cluster.node_watch import NodeWatch


class Scene:
    """The links and the directory only take note."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        scene: Any = self
        own = {NodeId(1): "one:1", NodeId(2): "two:1"}
        self.watch = NodeWatch(scene, self._links(), own)

    def _links(self) -> Any:
        scene = self

        class Links:
            def meet(self, node: NodeId, address: str, other: str = "") -> None:
                scene.told.append(("meet", node, address, *([other] if other else [])))

            def leave(self, node: NodeId) -> None:
                scene.told.append(("leave", node))

        return Links()

    def met(self, node: NodeId) -> None:
        self.told.append(("met", node))

    def left(self, node: NodeId) -> None:
        self.told.append(("left", node))

    def take(self, *rows: tuple[int, str, str]) -> list[tuple[Any, ...]]:
        """What is done about nodes with these addresses, by their settings and their own word."""
        self.told.clear()
        nodes = [pb.NodePlace(node_id=n, address=a, link_address=link) for n, a, link in rows]
        self.watch.take(pb.NodeList(nodes=nodes))
        return list(self.told)


def test_nodes_are_met_followed_and_left() -> None:
    """Those of the settings stay where these say, unless they say otherwise, and are never left. A
    session is there before anybody is told of the node, and until nobody asks it any more."""
    scene = Scene()
    first, second = (1, "one:1", ""), (2, "two:1", "")
    one, two = (("meet", n, here, here) for n, here in ((1, "one:1"), (2, "two:1")))
    assert scene.take(first, second) == [one, two]
    assert scene.take(first, (2, "two:7", "two:9")) == [one, ("meet", 2, "two:9", "two:1")]
    assert scene.take(first, (2, "two:7", "")) == [one, two], "it says it no more"
    four = ("meet", 4, "four:1", "four:1")
    assert scene.take(first, second, (4, "four:1", "")) == [one, two, four, ("met", 4)]
    moved = ("meet", 4, "four:2", "four:1")
    assert scene.take(first, second, (4, "four:1", "four:2")) == [one, two, moved]
    assert scene.take(first) == [one, ("leave", 4), ("left", 4)]
    assert scene.take(first) == [one]
