"""Whom a gateway asks for the catalog's leader: all nodes that it has met and not left."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from svc_cluster.base.ids import NodeId
from svc_cluster.gateway.cluster.directory import Directory


class Asked:
    """Notes what a directory asks it, and answers nothing."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.replicas: list[int] = []

    def met(self, node: NodeId) -> None:
        self.seen.append(("met", node))

    def left(self, node: NodeId) -> None:
        self.seen.append(("left", node))

    async def call(self, group: Any, fill: Any, **_: Any) -> None:
        self.replicas = list(group.replicas)


def test_a_node_that_comes_may_lead_the_catalog_and_one_that_left_does_not() -> None:
    """Also where all nodes of the settings are gone; a node that is met twice is asked once."""
    leaders = Asked()
    directory = Directory(cast(Any, leaders), (NodeId(1), NodeId(2)))

    def asked() -> list[int]:
        asyncio.run(directory.ask_catalog(cast(Any, None), write=False, deadline=1.0))
        return leaders.replicas

    for node in (4, 1, 4):
        directory.met(NodeId(node))
    assert asked() == [1, 2, 4]
    for node in (1, 2, 2):
        directory.left(NodeId(node))
    assert asked() == [4]
    assert [node for what, node in leaders.seen if what == "met"] == [4, 1, 4]
    assert [node for what, node in leaders.seen if what == "left"] == [1, 2, 2]
