"""A basin as the catalog knows it, and its row there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from svc_cluster.base.ids import GroupId, NodeId, ReplicaId, TimestampMs
from svc_cluster.catalog.catalog_commands import CreateBasin
from svc_cluster.catalog.group_change import GroupChange, GroupRow
from svc_cluster.catalog.stored_change import StoredChange, change_of, stored_change
from svc_cluster.model.stream_config import (
    BasinConfig,
    PartialStreamConfig,
    Retention,
    members_of,
    plain,
)


@dataclass(frozen=True, slots=True)
class BasinRecord(GroupRow):
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
    replica_ids: tuple[ReplicaId, ...] = ()
    change: GroupChange | None = None


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


class _StoredMovedBasin(_StoredSharedBasin, array_like=True):
    """This is the row of a basin whose group has changed its members, or is to."""

    configuration: int = 0
    replica_ids: list[int] = []
    change: StoredChange | None = None


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
        members["change"] = stored_change(record.change)
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
        change=change_of(stored.change),
    )
