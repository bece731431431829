"""What an administrator asks of the cluster as a whole. The node passes it on to the leader of the
catalog, and says in one sentence why there is no answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import grpc

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster._pb.cluster.v1 import replica_pb2
from svc_cluster.base.errors import ErrorCode
from svc_cluster.model.versions import release_of
from svc_cluster.replica.node import ReplicaNode

NOT_NOW: Final = grpc.StatusCode.ABORTED
"""What a node refuses for the moment. gRPC itself says UNAVAILABLE of a port on which nothing
listens, and a caller could not tell the one from the other."""

LOST_FOR_GOOD: Final = (
    "where most of the nodes that vote in it are lost for good, go on with what is left: "
    "svc-cluster admin recover --force-new-cluster"
)


class RefusedCallError(Exception):
    """There is no answer but this sentence; `code` is gRPC's."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


async def version(node: ReplicaNode) -> pb.VersionResponse:
    """Raises RefusedCallError."""
    answer = await ask(node, lambda request: request.get_version.SetInParent())
    return _version(answer.version)


async def finalize(node: ReplicaNode, wanted: int) -> pb.VersionResponse:
    """Raises RefusedCallError."""

    def fill(request: replica_pb2.Request) -> None:
        request.raise_version.version = wanted

    return _version((await ask(node, fill)).version)


async def ask(
    node: ReplicaNode, fill: Callable[[replica_pb2.Request], None]
) -> replica_pb2.Response:
    """The answer of the catalog's leader. Raises RefusedCallError for a refusal, and where there is
    no answer in time; then it may have had its effect all the same."""
    response = await node.ask_catalog(fill)
    if response is None:
        raise RefusedCallError(
            NOT_NOW,
            "the leader of the catalog did not answer: ask again, and look at `svc-cluster admin "
            "leader show` and at the nodes that are absent in `svc-cluster admin member list`; "
            + LOST_FOR_GOOD,
        )
    if response.WhichOneof("result") != "refusal":
        return response
    refusal = response.refusal
    if refusal.code == ErrorCode.NOT_IMPLEMENTED.value:
        raise RefusedCallError(
            grpc.StatusCode.FAILED_PRECONDITION,
            "the leader of the catalog runs an older release that does not know this: run this "
            "one on all nodes first",
        )
    if refusal.code == ErrorCode.INVALID.value:
        raise RefusedCallError(grpc.StatusCode.FAILED_PRECONDITION, refusal.message)
    raise RefusedCallError(NOT_NOW, f"the leader of the catalog refuses: {refusal.message}")


def _version(info: replica_pb2.VersionInfo) -> pb.VersionResponse:
    return pb.VersionResponse(
        active=info.active,
        newest=info.newest,
        why_not=info.why_not,
        processes=[
            pb.ProcessVersion(
                role=row.role,
                node_id=row.node_id,
                incarnation=row.incarnation,
                newest=row.newest,
                release=release_of(row.newest) if row.newest else "",
            )
            for row in info.processes
        ],
    )
