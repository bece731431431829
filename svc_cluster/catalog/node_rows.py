"""The nodes of the catalog: their rows, and what a command makes of them; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.catalog_commands import RegisterNode, ReplaceNode
from svc_cluster.model.places import ORDINAL_MAX, PLACES_MAX, Place, Places


@dataclass(frozen=True, slots=True)
class NodeRecord:
    node_id: NodeId
    incarnation: str
    address: str
    ordinal: int = 0
    """How many directories had the place before this one."""
    is_replacing: bool = False
    """The directory has the place and is not whole yet."""


class _StoredNode(msgspec.Struct, array_like=True):
    node_id: int
    incarnation: str
    address: str


class _StoredSuccessor(_StoredNode, array_like=True):
    """This is the row of a node whose first directory was lost. Others keep the row they had before
    there were such, so that what a command of then writes is the same on every release."""

    ordinal: int = 0
    is_replacing: bool = False


def encode_node(record: NodeRecord) -> bytes:
    node = (record.node_id, record.incarnation, record.address)
    if not record.ordinal:
        return msgspec.msgpack.encode(_StoredNode(*node))
    return msgspec.msgpack.encode(_StoredSuccessor(*node, record.ordinal, record.is_replacing))


def decode_node(value: bytes) -> NodeRecord:
    """Raises msgspec.DecodeError."""
    stored = msgspec.msgpack.decode(value, type=_StoredSuccessor)
    return NodeRecord(
        NodeId(stored.node_id),
        stored.incarnation,
        stored.address,
        stored.ordinal,
        stored.is_replacing,
    )


def canonical_node(value: bytes) -> bytes:
    """Return a node's row in the form of this release. Raises msgspec.DecodeError."""
    return encode_node(decode_node(value))


def places_of(nodes: Mapping[NodeId, NodeRecord]) -> Places:
    """The places that were given away."""
    return tuple(
        sorted(
            Place(node.node_id, node.ordinal, node.incarnation)
            for node in nodes.values()
            if node.ordinal
        )
    )


def replacing(nodes: Mapping[NodeId, NodeRecord]) -> NodeId | None:
    """The node that is being replaced."""
    return next((node.node_id for node in nodes.values() if node.is_replacing), None)


def registered(nodes: Mapping[NodeId, NodeRecord], command: RegisterNode) -> NodeRecord | str:
    """The row that the command makes, or why it has no effect. A directory that took a place is
    whole when it registers."""
    known = nodes.get(command.node_id)
    if known is None:
        return NodeRecord(command.node_id, command.incarnation, command.address)
    if known.incarnation != command.incarnation:
        return "the node id is taken by another data directory"
    return replace(known, address=command.address, is_replacing=False)


def succeeded(nodes: Mapping[NodeId, NodeRecord], command: ReplaceNode) -> NodeRecord | str:
    """The same for a place that is given away."""
    known = nodes.get(command.node_id)
    if known is None:
        return "no node of this id is registered"
    if command.incarnation == known.incarnation:
        return "the directory has the place already"
    if command.ordinal != known.ordinal + 1 or command.ordinal > ORDINAL_MAX:
        return "the place was given to another directory meanwhile"
    if replacing(nodes) not in (None, command.node_id):
        return f"node {replacing(nodes)} is being replaced: one node at a time"
    if not known.ordinal and len(places_of(nodes)) >= PLACES_MAX:
        return f"{PLACES_MAX} nodes of this cluster were replaced, as many as may be"
    return replace(
        known, incarnation=command.incarnation, ordinal=command.ordinal, is_replacing=True
    )
