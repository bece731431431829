"""Commands by which nodes come and go, in the bytes of the catalog's log."""

from __future__ import annotations

from svc_cluster._pb.cluster.v1 import catalog_entry_pb2 as pb
from svc_cluster._pb.cluster.v1 import replica_pb2
from svc_cluster.base.ids import NodeId, TimestampMs
from svc_cluster.catalog.catalog_commands import AdmitNode, OpenTicket, RegisterNode, RemoveNode
from svc_cluster.catalog.node_facts import NO_FACTS
from svc_cluster.codec.node_facts_pb import get_facts, put_facts


def put_node(out: pb.RegisterNode | replica_pb2.RegisterNodeRequest, command: RegisterNode) -> None:
    """Write it to a message RegisterNode, or to a request of the same members."""
    out.node_id = command.node_id
    out.incarnation = command.incarnation
    out.address = command.address
    if command.facts != NO_FACTS:
        put_facts(out.facts, command.facts)


def get_node(node: pb.RegisterNode | replica_pb2.RegisterNodeRequest) -> RegisterNode:
    facts = get_facts(node.facts)
    return RegisterNode(NodeId(node.node_id), node.incarnation, node.address, facts)


def put(out: pb.CatalogCommand, command: OpenTicket | AdmitNode | RemoveNode) -> None:
    match command:
        case OpenTicket(node_id, secret_hash, expires_at_ms, now_ms):
            out.open_ticket.node_id = node_id
            out.open_ticket.secret_hash = secret_hash
            out.open_ticket.expires_at_ms = expires_at_ms
            out.open_ticket.now_ms = now_ms
        case AdmitNode(node, secret_hash, now_ms):
            put_node(out.admit_node.node, node)
            out.admit_node.secret_hash = secret_hash
            out.admit_node.now_ms = now_ms
        case RemoveNode(node_id):
            out.remove_node.node_id = node_id


def get(command: pb.CatalogCommand) -> OpenTicket | AdmitNode | RemoveNode:
    """The command, which is of one of these kinds."""
    match command.WhichOneof("command"):
        case "open_ticket":
            said = command.open_ticket
            return OpenTicket(
                NodeId(said.node_id),
                said.secret_hash,
                TimestampMs(said.expires_at_ms),
                TimestampMs(said.now_ms),
            )
        case "admit_node":
            admit = command.admit_node
            return AdmitNode(get_node(admit.node), admit.secret_hash, TimestampMs(admit.now_ms))
        case kind:
            assert kind == "remove_node", "the caller has looked at the kind"
            return RemoveNode(NodeId(command.remove_node.node_id))
