"""Everything that can change the catalog. Wire form: codec/catalog_entry.py."""

from __future__ import annotations

from dataclasses import dataclass

from svc_cluster.base.ids import GroupId, NodeId, TimestampMs
from svc_cluster.catalog.token_commands import TokenCommand
from svc_cluster.model.stream_config import BasinConfig


@dataclass(frozen=True, slots=True)
class RegisterNode:
    """A node's data directory makes itself known. The first incarnation of a node id stays: a
    directory that was emptied cannot come back under an old name."""

    node_id: NodeId
    incarnation: str
    address: str


@dataclass(frozen=True, slots=True)
class CreateBasin:
    """The commit point of a basin's creation. `group_id` is the next unused one."""

    name: str
    group_id: GroupId
    replicas: tuple[NodeId, ...]
    config: BasinConfig
    created_at_ms: TimestampMs
    creation_hash: bytes = b""
    """Of the request that asked for it (codec/creation_hash.py); empty: nothing repeats it."""


@dataclass(frozen=True, slots=True)
class DeleteBasin:
    """From here on the basin is deleting; its group is sealed next."""

    name: str
    deleted_at_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class RemoveBasin:
    """The group is sealed: the record goes, the name is free, replicas destroy their copies."""

    group_id: GroupId


CatalogCommand = RegisterNode | CreateBasin | DeleteBasin | RemoveBasin | TokenCommand
