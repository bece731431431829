"""The nodes of the catalog: their rows, and what a command makes of them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from enum import IntEnum
from typing import Final

import msgspec

from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.catalog_commands import DrainNode, RegisterNode, ReplaceNode
from svc_cluster.catalog.node_facts import FACT_BYTES_MAX, NO_FACTS, AnnouncedFacts
from svc_cluster.model.places import ORDINAL_MAX, PLACES_MAX, Place, Places

REMOVED: Final = "the node was removed from the cluster"
"""Why a node that was removed is refused, for ever."""
NO_MORE_PLACES: Final = (
    f"{PLACES_MAX} nodes of this cluster have another data directory than their first one, as many "
    "as may be"
)


class NodeState(IntEnum):
    """What the cluster does with a node."""

    ACTIVE = 0
    DRAINING = 1
    """It keeps what it has and gets nothing more, until an operator says otherwise."""
    REMOVED = 2
    """Its directory is refused for ever. Another one may come under its id, with a join token."""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    node_id: NodeId
    incarnation: str
    address: str
    ordinal: int = 0
    """How many directories had the place before this one."""
    is_replacing: bool = False
    """The directory has the place and is not whole yet."""
    facts: AnnouncedFacts = NO_FACTS
    state: NodeState = NodeState.ACTIVE

    @property
    def is_removed(self) -> bool:
        return self.state is NodeState.REMOVED


class _StoredNode(msgspec.Struct, array_like=True):
    node_id: int
    incarnation: str
    address: str


class _StoredSuccessor(_StoredNode, array_like=True):
    """This is the row of a node whose first directory was lost. Others keep the row they had before
    there were such, so that what a command of then writes is the same on every release."""

    ordinal: int = 0
    is_replacing: bool = False


class _StoredMember(_StoredSuccessor, array_like=True):
    """This is the row of a node that has said more of itself, or is in another state than the
    first one. It is written from active version 3 on."""

    facts: tuple[str, str, str, str] = ("", "", "", "")
    state: int = 0


def encode_node(record: NodeRecord) -> bytes:
    node = (record.node_id, record.incarnation, record.address)
    succession = (record.ordinal, record.is_replacing)
    if record.facts != NO_FACTS or record.state:
        stored = _StoredMember(*node, *succession, astuple(record.facts), int(record.state))
        return msgspec.msgpack.encode(stored)
    if not record.ordinal:
        return msgspec.msgpack.encode(_StoredNode(*node))
    return msgspec.msgpack.encode(_StoredSuccessor(*node, *succession))


def decode_node(value: bytes) -> NodeRecord:
    """Raises msgspec.DecodeError."""
    stored = msgspec.msgpack.decode(value, type=_StoredMember)
    return NodeRecord(
        NodeId(stored.node_id),
        stored.incarnation,
        stored.address,
        stored.ordinal,
        stored.is_replacing,
        AnnouncedFacts(*stored.facts),
        NodeState(stored.state),
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
    whole when it registers. Facts that are not said stay as they were: a program that says none
    does not know them."""
    known = nodes.get(command.node_id)
    if not command.facts.is_bounded():
        return f"what a node says of itself has at most {FACT_BYTES_MAX} bytes each"
    if known is None:
        return NodeRecord(
            command.node_id, command.incarnation, command.address, facts=command.facts
        )
    if known.incarnation != command.incarnation:
        return "the node id is taken by another data directory"
    if known.is_removed:
        return REMOVED
    facts = known.facts if command.facts == NO_FACTS else command.facts
    return replace(known, address=command.address, is_replacing=False, facts=facts)


def why_never_again(nodes: Mapping[NodeId, NodeRecord], known: NodeRecord) -> str | None:
    """Why no other directory comes under the id of a node that was removed; None: one may."""
    if known.ordinal >= ORDINAL_MAX:
        return f"node {known.node_id} was removed, and its id was given as often as may be"
    if not known.ordinal and len(places_of(nodes)) >= PLACES_MAX:
        return NO_MORE_PLACES
    return None


def come_again(known: NodeRecord, command: RegisterNode) -> NodeRecord | str:
    """The row of another directory under the id of a node that was removed, or why it has none. The
    one before it held nothing when it went, so that there is nothing to be made whole; it is known
    by its ordinal as the earlier of the two, by whoever has not heard of its removal as well."""
    if not command.facts.is_bounded():
        return f"what a node says of itself has at most {FACT_BYTES_MAX} bytes each"
    if known.incarnation == command.incarnation:
        return REMOVED
    return NodeRecord(
        known.node_id,
        command.incarnation,
        command.address,
        known.ordinal + 1,
        facts=command.facts,
    )


def removed(known: NodeRecord, replicas: int) -> NodeRecord | str:
    """The same for a node that is to go. `replicas`: the basins that have one there, or are to."""
    if replicas:
        count = "1 basin" if replicas == 1 else f"{replicas} basins"
        return (
            f"node {known.node_id} holds replicas of {count}: drain it first, and wait until it is "
            f"empty: svc-cluster admin node drain {known.node_id}"
        )
    return replace(known, state=NodeState.REMOVED, is_replacing=False)


def incarnations(nodes: Iterable[NodeRecord]) -> dict[NodeId, str]:
    """The data directories of the nodes that were not removed."""
    return {one.node_id: one.incarnation for one in nodes if not one.is_removed}


def members(nodes: Mapping[NodeId, NodeRecord]) -> list[NodeRecord]:
    """The nodes that belong to the cluster, in the order of their ids."""
    return [one for _, one in sorted(nodes.items()) if not one.is_removed]


def drained(nodes: Mapping[NodeId, NodeRecord], command: DrainNode) -> NodeRecord | str:
    """The same for a node that is told to drain, or not to drain any more."""
    known = nodes.get(command.node_id)
    if known is None:
        return "no node of this id is registered"
    if known.is_removed:
        return REMOVED
    return replace(known, state=NodeState.DRAINING if command.drains else NodeState.ACTIVE)


def is_active(node: NodeRecord) -> bool:
    """Whether the node may have replicas and votes: it is neither drained nor removed."""
    return node.state is NodeState.ACTIVE


def lasting_nodes(nodes: Mapping[NodeId, NodeRecord]) -> frozenset[NodeId]:
    """The nodes that were not removed."""
    return frozenset(node for node, one in nodes.items() if not one.is_removed)


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
        return NO_MORE_PLACES
    return replace(
        known, incarnation=command.incarnation, ordinal=command.ordinal, is_replacing=True
    )
