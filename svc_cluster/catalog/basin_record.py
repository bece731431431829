"""A basin as the catalog knows it, and its row there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from svc_cluster.base.configuration import GroupMember, Members
from svc_cluster.base.ids import GroupId, NodeId, ReplicaId, Term, TimestampMs
from svc_cluster.catalog.catalog_commands import CreateBasin
from svc_cluster.catalog.group_change import GroupChange
from svc_cluster.model.stream_config import (
    BasinConfig,
    PartialStreamConfig,
    Retention,
    members_of,
    plain,
)


@dataclass(frozen=True, slots=True)
class BasinRecord:
    name: str
    group_id: GroupId
    replicas: tuple[NodeId, ...]
    config: BasinConfig
    created_at_ms: TimestampMs
    deleted_at_ms: TimestampMs | None = None
    creation_hash: bytes = b""
    """The hash of the request that created it; empty: nothing repeats that."""
    location: str = ""
    """See `LocationTable.of_basin`."""
    owner: int = 0
    """See `CreateBasin`."""
    configuration: int = 0
    """The newest of its group's configurations that the catalog knows to have begun."""
    replica_ids: tuple[ReplicaId, ...] = ()
    """They are of the `replicas`, in their order; empty: each has its node's number."""
    change: GroupChange | None = None
    """The open change of the group's members."""

    def is_on(self, node_id: NodeId) -> bool:
        """Whether a replica of the group belongs on the node, or is to."""
        change = self.change
        return node_id in self.replicas or (change is not None and node_id in change.replicas)

    @property
    def placements(self) -> tuple[ReplicaId, ...]:
        """The replica ids of the `replicas`, in their order."""
        return self.replica_ids or tuple(ReplicaId(node) for node in self.replicas)

    @property
    def members(self) -> Members:
        """The members of the group's configuration."""
        return members_of_replicas(self.replicas, self.placements)


def members_of_replicas(
    replicas: tuple[NodeId, ...], replica_ids: tuple[ReplicaId, ...]
) -> Members:
    """The replicas of a row as a configuration has them."""
    return tuple(sorted(map(GroupMember, replicas, replica_ids)))


class _StoredBasin(msgspec.Struct, array_like=True):
    name: str
    group_id: int
    replicas: list[int]
    created_at_ms: int
    deleted_at_ms: int | None
    has_defaults: bool
    storage_class: str | None
    retention_seconds: int | None
    timestamping_mode: int | None
    timestamping_uncapped: bool | None
    delete_on_empty_min_age_seconds: int | None
    stream_cipher: str | None
    create_stream_on_append: bool
    create_stream_on_read: bool
    creation_hash: bytes = b""
    location: str = ""


class _StoredOwnedBasin(_StoredBasin, array_like=True):
    """This is the row of a basin that has an owner. Others keep the row they had before there were
    owners, so that what a command of then writes is the same on every release."""

    owner: int = 0


class _StoredSharedBasin(_StoredOwnedBasin, array_like=True):
    """This is the row of a basin whose default says something of shared caching."""

    shared_caching: bool | None = None


class _StoredChange(msgspec.Struct, array_like=True):
    change_id: int
    replicas: list[int]
    replica_ids: list[int]
    reason: str
    sealing_term: int
    is_cancelled: bool


class _StoredMovedBasin(_StoredSharedBasin, array_like=True):
    """This is the row of a basin whose group has changed its members, or is to."""

    configuration: int = 0
    replica_ids: list[int] = []
    change: _StoredChange | None = None


_WidestRow = _StoredMovedBasin
"""The kind of row that has every member there is; the others lack its last ones."""


def made_by(command: CreateBasin) -> BasinRecord:
    """The basin as it begins."""
    return BasinRecord(
        command.name,
        command.group_id,
        command.replicas,
        command.config,
        command.created_at_ms,
        creation_hash=command.creation_hash,
        location=command.location,
        owner=command.owner,
    )


def basin_to_bytes(record: BasinRecord) -> bytes:
    """The row of a basin, under its name."""
    defaults = record.config.default_stream_config
    partial = defaults or PartialStreamConfig()
    members: dict[str, Any] = plain(partial)
    kind: type[_StoredBasin] = _StoredSharedBasin
    if record.configuration or record.change is not None:
        kind = _StoredMovedBasin
        members["configuration"] = record.configuration
        members["replica_ids"] = list(record.replica_ids)
        members["change"] = _stored_change(record.change)
    elif members["shared_caching"] is None:
        del members["shared_caching"]
        kind = _StoredOwnedBasin if record.owner else _StoredBasin
    if kind is not _StoredBasin:
        members["owner"] = record.owner
    return msgspec.msgpack.encode(
        kind(
            name=record.name,
            group_id=record.group_id,
            replicas=list(record.replicas),
            created_at_ms=record.created_at_ms,
            deleted_at_ms=record.deleted_at_ms,
            has_defaults=defaults is not None,
            # 0 stands for infinite; ages are above 0
            retention_seconds=(
                None if partial.retention is None else partial.retention.age_seconds or 0
            ),
            stream_cipher=record.config.stream_cipher,
            create_stream_on_append=record.config.create_stream_on_append,
            create_stream_on_read=record.config.create_stream_on_read,
            creation_hash=record.creation_hash,
            location=record.location,
            **members,
        )
    )


def basin_from_bytes(raw: bytes) -> BasinRecord:
    stored = msgspec.msgpack.decode(raw, type=_WidestRow)
    defaults = None
    if stored.has_defaults:
        seconds = stored.retention_seconds
        defaults = PartialStreamConfig(
            retention=None if seconds is None else Retention(seconds or None),
            **members_of(stored),
        )
    return BasinRecord(
        name=stored.name,
        group_id=GroupId(stored.group_id),
        replicas=tuple(NodeId(n) for n in stored.replicas),
        config=BasinConfig(
            default_stream_config=defaults,
            stream_cipher=stored.stream_cipher,
            create_stream_on_append=stored.create_stream_on_append,
            create_stream_on_read=stored.create_stream_on_read,
        ),
        created_at_ms=TimestampMs(stored.created_at_ms),
        deleted_at_ms=(None if stored.deleted_at_ms is None else TimestampMs(stored.deleted_at_ms)),
        creation_hash=stored.creation_hash,
        location=stored.location,
        owner=stored.owner,
        configuration=stored.configuration,
        replica_ids=tuple(ReplicaId(n) for n in stored.replica_ids),
        change=_change_of(stored.change),
    )


def _stored_change(change: GroupChange | None) -> _StoredChange | None:
    if change is None:
        return None
    return _StoredChange(
        change.change_id,
        list(change.replicas),
        list(change.replica_ids),
        change.reason,
        change.sealing_term,
        change.is_cancelled,
    )


def _change_of(stored: _StoredChange | None) -> GroupChange | None:
    if stored is None:
        return None
    return GroupChange(
        stored.change_id,
        tuple(NodeId(n) for n in stored.replicas),
        tuple(ReplicaId(n) for n in stored.replica_ids),
        stored.reason,
        Term(stored.sealing_term),
        stored.is_cancelled,
    )
