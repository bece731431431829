"""Which nodes there are, as any node tells it to gateways by its catalog."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.node_facts import AnnouncedFacts
from svc_cluster.catalog.node_rows import NodeRecord, NodeState
from svc_cluster.replica.member_operations import MemberOperations

PLACED = AnnouncedFacts("link:1", "admin:1", "rack", "east")
ROWS = [
    NodeRecord(NodeId(3), "c", "three:1", state=NodeState.REMOVED),
    NodeRecord(NodeId(2), "b", "two:1", facts=PLACED, state=NodeState.DRAINING),
    NodeRecord(NodeId(1), "a", "one:1"),
]


def told(catalog: Any) -> pb.NodeList:
    host: Any = SimpleNamespace(catalog=catalog)
    list_nodes = MemberOperations(host).operations["list_nodes"]
    request, response = pb.Request(list_nodes=pb.ListNodesRequest()), pb.Response()
    asyncio.run(_do(list_nodes, request))(response)
    return response.nodes


async def _do(operation: Any, request: pb.Request) -> Any:
    return await operation(request)


def catalog(recovery: str) -> Any:
    nodes = {row.node_id: row for row in ROWS}
    engine = SimpleNamespace(recovery=recovery)
    return SimpleNamespace(group=SimpleNamespace(engine=engine), state=SimpleNamespace(nodes=nodes))


def test_rows_are_told_whole_and_without_the_removed() -> None:
    """In the order of their ids, with where they run and whether they are drained."""
    assert list(told(catalog("")).nodes) == [
        pb.NodePlace(node_id=1, address="one:1", state="active"),
        pb.NodePlace(
            node_id=2,
            address="two:1",
            link_address="link:1",
            host="rack",
            zone="east",
            state="draining",
        ),
    ]


@pytest.mark.parametrize("known", [None, catalog("taking a snapshot")])
def test_who_does_not_know_the_catalog_tells_nothing(known: Any) -> None:
    """Neither a node without one, nor one whose copy is being made whole."""
    with pytest.raises(UnavailableError):
        told(known)
