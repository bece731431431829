"""A group moves to other nodes because an administrator asks for it, and what is told of that."""

from __future__ import annotations

import grpc

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster._pb.cluster.v1 import replica_pb2 as rpc
from svc_cluster.administration.catalog_calls import RefusedCallError, ask
from svc_cluster.administration.cluster_calls import find_basin
from svc_cluster.base.ids import CATALOG_GROUP
from svc_cluster.catalog.group_change import REASON_BYTES_MAX
from svc_cluster.replica.node import ReplicaNode


async def move(node: ReplicaNode, request: pb.MoveBasinRequest) -> pb.MoveBasinResponse:
    """Ends when the change is ordered, or given up; `Basin` tells how far it is. Raises
    RefusedCallError."""
    group_id = CATALOG_GROUP if request.catalog else find_basin(node, request.basin).group_id
    if len(request.reason.encode()) > REASON_BYTES_MAX:
        raise RefusedCallError(
            grpc.StatusCode.INVALID_ARGUMENT, f"a reason has {REASON_BYTES_MAX} bytes at most"
        )

    def fill(asked: rpc.Request) -> None:
        asked.change_members.basin = request.basin
        asked.change_members.catalog = request.catalog
        asked.change_members.replicas.extend(request.to)
        asked.change_members.reason = request.reason

    await ask(node, fill)
    return pb.MoveBasinResponse(group_id=group_id)
