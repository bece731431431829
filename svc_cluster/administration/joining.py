"""Nodes come and go because an administrator asks for it: the leader of the catalog is asked."""

from __future__ import annotations

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster._pb.cluster.v1 import replica_pb2 as rpc
from svc_cluster.administration import catalog_calls
from svc_cluster.model.join_token import SECRET_BYTES, TTL_SECONDS, JoinToken, hash_of
from svc_cluster.replica.node import ReplicaNode


async def add_member(node: ReplicaNode, request: pb.AddMemberRequest) -> pb.AddMemberResponse:
    """The caller has made the secret and says its hash; or it is made here, and nobody else is
    told. Raises RefusedCallError."""
    token, secret_hash = "", request.secret_hash
    if not secret_hash:
        made = JoinToken(request.node_id, node.random_bytes(SECRET_BYTES))
        token, secret_hash = made.text, hash_of(made.secret)

    def fill(asked: rpc.Request) -> None:
        asked.add_member.node_id = request.node_id
        asked.add_member.secret_hash = secret_hash
        asked.add_member.ttl_seconds = request.ttl_seconds or TTL_SECONDS

    ticket = (await catalog_calls.ask(node, fill)).member_ticket
    return pb.AddMemberResponse(
        node_id=request.node_id, join_token=token, expires_at_ms=ticket.expires_at_ms
    )


async def remove_member(
    node: ReplicaNode, request: pb.RemoveMemberRequest
) -> pb.RemoveMemberResponse:
    """Raises RefusedCallError."""

    def fill(asked: rpc.Request) -> None:
        asked.remove_member.node_id = request.node_id

    await catalog_calls.ask(node, fill)
    return pb.RemoveMemberResponse(node_id=request.node_id)
