"""Nodes are drained because an administrator asks for it: the leader of the catalog is asked."""

from __future__ import annotations

from typing import Final

import grpc

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster._pb.cluster.v1 import replica_pb2 as rpc
from svc_cluster.administration import catalog_calls
from svc_cluster.administration.catalog_calls import RefusedCallError
from svc_cluster.base.ids import CATALOG_GROUP, NodeId
from svc_cluster.replica.drain_operations import DRAIN, TELL, UNDRAIN
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.replica.node_questions import FIGURES, members_of, overviews

VERBS: Final = {"status": TELL, "drain": DRAIN, "undrain": UNDRAIN}


async def drain_node(node: ReplicaNode, request: pb.DrainNodeRequest) -> pb.DrainNodeResponse:
    """Raises RefusedCallError."""
    if request.verb not in VERBS:
        verbs = ", ".join(VERBS)
        raise RefusedCallError(grpc.StatusCode.FAILED_PRECONDITION, f"the verbs are {verbs}")

    def fill(asked: rpc.Request) -> None:
        asked.drain_node.node_id = request.node_id
        asked.drain_node.verb = VERBS[request.verb]
        asked.drain_node.forced = request.force

    told = (await catalog_calls.ask(node, fill)).node_drain
    number = NodeId(request.node_id)
    seen = (await overviews(node.host.ask_any, [number], FIGURES)).get(number)
    holds_catalog = number in members_of(node.host, CATALOG_GROUP)
    return what_is_left(number, told, seen, holds_catalog=holds_catalog)


def what_is_left(
    number: NodeId, told: rpc.NodeDrain, seen: rpc.NodeOverview | None, *, holds_catalog: bool
) -> pb.DrainNodeResponse:
    """The answer made of what the catalog and the node itself say. A node that does not answer
    (None) may lead what nobody knows of, so it is not empty."""
    leads = 0 if seen is None else seen.groups_led
    return pb.DrainNodeResponse(
        node_id=number,
        state=told.state,
        replicas=told.replicas,
        alone=told.alone,
        leads=leads,
        answers=seen is not None,
        empty=seen is not None and not (told.replicas or leads or holds_catalog),
        holds_catalog=holds_catalog,
    )
