"""The catalog's own group: who votes in the catalog, and the open change of that.

A cluster that never changed it has no row: its nodes know from the formation who votes. The group's
own log decides, as everywhere; the row is written into that same log (docs/adr/0070).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId, ReplicaId, TimestampMs
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.write_set import WriteSet
from svc_cluster.catalog.group_change import BeginChange, ChangeCommand, GroupChange, GroupRow
from svc_cluster.catalog.node_rows import NodeRecord, replacing
from svc_cluster.catalog.stored_change import StoredChange, change_of, stored_change

OWN_GROUP: Final = b"\x07"
"""The row is absent until the first change of the catalog's members is begun."""


VOTES: Final = (1, 3, 5)
"""A vote more than one of these bears no more losses. A cluster that began with another number of
nodes has as many votes as that, until they are changed."""


@dataclass(frozen=True, slots=True)
class CatalogGroup(GroupRow):
    """The members of the catalog's own group; it is never deleted."""

    replicas: tuple[NodeId, ...]
    configuration: int = 0
    replica_ids: tuple[ReplicaId, ...] = ()
    change: GroupChange | None = None
    group_id: GroupId = CATALOG_GROUP
    deleted_at_ms: TimestampMs | None = None


class _StoredGroup(msgspec.Struct, array_like=True):
    replicas: list[int]
    configuration: int
    replica_ids: list[int]
    change: StoredChange | None


class OwnGroup:
    """The row as applied."""

    def __init__(self, reader: KeyReader) -> None:
        raw = reader.get(OWN_GROUP)
        self.row: CatalogGroup | None = None if raw is None else own_group_from_bytes(raw)

    def before(self, draft: CatalogGroup | None, command: ChangeCommand) -> CatalogGroup | None:
        """The row that a command changes; None: there is none. The first change says itself who
        votes: the leader knows, and what is applied does not. `draft`: what the entry has made of
        the row."""
        row = draft or self.row
        if row is None and isinstance(command, BeginChange) and command.present:
            return CatalogGroup(command.present)
        return row

    def write(self, write_set: WriteSet, row: CatalogGroup) -> None:
        write_set.put(OWN_GROUP, own_group_to_bytes(row))

    def commit(self, row: CatalogGroup | None) -> None:
        """Take over what has been written to the store; None: nothing was."""
        if row is not None:
            self.row = row


def why_it_stays(
    row: CatalogGroup, nodes: Mapping[NodeId, NodeRecord], wanted: Collection[NodeId]
) -> str | None:
    """Why no change of the catalog's members to these begins now; None: one may. While the
    directory of a node is being replaced the others are needed. The vote may be taken from that
    node itself, which is lost then: out of the group, nothing makes its catalog whole."""
    votes = len(wanted)
    if votes not in VOTES and votes != len(row.replicas):
        return f"the catalog has 1, 3 or 5 votes, and not {votes}"
    busy = replacing(nodes)
    return f"node {busy} is being replaced" if busy in wanted else None


def why_no_place(row: CatalogGroup | None, node_id: NodeId) -> str | None:
    """Why the place of a node is not given to another directory. It has no vote in the catalog, or
    is to have none, and an empty catalog without a vote is never made whole. None: it has one, as
    far as the row says."""
    change = None if row is None else row.change
    if row is None or (node_id in row.replicas and (change is None or node_id in change.replicas)):
        return None
    return (
        f"node {node_id} has no vote in the catalog, or is to have none, and only one that has is "
        "given another directory: drain and remove it, and let it come again with a join token: "
        f"svc-cluster admin member add {node_id}"
    )


def why_it_votes(row: CatalogGroup | None, node_id: NodeId) -> str | None:
    """Why a node cannot leave the cluster; None: it has no vote, and is to have none, as far as the
    row says."""
    if row is None or not row.is_on(node_id):
        return None
    return (
        f"node {node_id} votes in the catalog: let others do that first: svc-cluster admin node "
        f"drain {node_id}, or svc-cluster admin catalog move"
    )


def own_group_to_bytes(row: CatalogGroup) -> bytes:
    """The row under OWN_GROUP."""
    stored = _StoredGroup(
        list(row.replicas), row.configuration, list(row.replica_ids), stored_change(row.change)
    )
    return msgspec.msgpack.encode(stored)


def own_group_from_bytes(raw: bytes) -> CatalogGroup:
    """Raises msgspec.DecodeError."""
    stored = msgspec.msgpack.decode(raw, type=_StoredGroup)
    return CatalogGroup(
        tuple(NodeId(n) for n in stored.replicas),
        stored.configuration,
        tuple(ReplicaId(n) for n in stored.replica_ids),
        change_of(stored.change),
    )
