"""A basin is frozen and thawed because an administrator asks for it: its leader is asked."""

from __future__ import annotations

import asyncio

import grpc

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster._pb.cluster.v1 import replica_pb2 as rpc
from svc_cluster.administration.catalog_calls import RefusedCallError
from svc_cluster.administration.cluster_calls import LOOK_SECONDS, find_basin, find_leader
from svc_cluster.replica.node import ReplicaNode

FROZEN_SECONDS = 6.0
"""How long a leader is looked for that takes it."""


async def freeze(node: ReplicaNode, request: pb.FreezeBasinRequest) -> pb.FreezeBasinResponse:
    """Ends when it is committed. Raises RefusedCallError."""
    record = find_basin(node, request.basin)

    def fill(asked: rpc.Request) -> None:
        asked.freeze_basin.reason = request.reason

    clock = node.services.clock
    until = clock.monotonic() + FROZEN_SECONDS
    while True:
        leader = await find_leader(node, record.group_id, sorted(record.replicas), other_than=0)
        response = await node.host.ask_any(leader, fill, record.group_id)
        if response is not None and response.WhichOneof("result") == "done":
            return pb.FreezeBasinResponse(group_id=record.group_id, frozen=request.reason)
        if response is not None and not response.refusal.not_leader:
            raise RefusedCallError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"node {leader} refuses: {response.refusal.message}",
            )
        if clock.monotonic() >= until:
            raise RefusedCallError(
                grpc.StatusCode.ABORTED,
                "nobody who leads the basin has answered, so it may have happened: ask again",
            )
        await asyncio.sleep(LOOK_SECONDS)
