"""Bodies that ensure a basin or a stream: all of them optional.

A body of no bytes and a literal null are no body: the default configuration. A stream's may be the
configuration itself or an object that has it as `config`. Source: contract 9.10.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET, UnsetType

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.codec.config_json import (
    BasinConfigJson,
    StreamConfigJson,
    basin_config_from_json,
    checked_storage_class,
    stream_config_from_json,
    unknown_in_basin,
)
from svc_cluster.codec.json_body import decode_object
from svc_cluster.model.stream_config import BasinConfig, PartialStreamConfig


class EnsureBasinJson(msgspec.Struct):
    config: BasinConfigJson | None = None
    location: str | None = None
    replication_factor: int | None = None


class EnsureStreamJson(StreamConfigJson):
    config: StreamConfigJson | UnsetType | None = UNSET


@dataclass(frozen=True, slots=True)
class EnsuredBasin:
    """The `storage_class` is the alias beside the default stream configuration, and is not in
    `config`. Whether it changes a basin depends on what the basin is."""

    config: BasinConfig = field(default_factory=BasinConfig)
    location: str | None = None
    storage_class: str | None = None
    replication_factor: int | None = None


def ensured_basin(body: bytes, *, alias: bool = True, strict: bool = False) -> EnsuredBasin:
    """What is asked for. Without `alias` a storage class beside the default stream configuration
    is an unknown member; with `strict` these are refused. Raises as `stream_config_from_json`
    does."""
    if _is_nothing(body):
        return EnsuredBasin()
    wire = decode_object(
        body, EnsureBasinJson, strict=strict, without=unknown_in_basin(alias=alias)
    )
    if wire.config is None:
        return EnsuredBasin(location=wire.location, replication_factor=wire.replication_factor)
    storage_class = wire.config.storage_class if alias else None
    return EnsuredBasin(
        basin_config_from_json(wire.config, alias=False),
        wire.location,
        None if storage_class is None else checked_storage_class(storage_class),
        wire.replication_factor,
    )


def ensured_stream(body: bytes, *, strict: bool = False) -> PartialStreamConfig:
    """The configuration that is asked for. With `strict` unknown members are refused. Raises as
    `stream_config_from_json` does, and MalformedError (bad_json) for one beside the other."""
    if _is_nothing(body):
        return PartialStreamConfig()
    wire = decode_object(body, EnsureStreamJson, strict=strict)
    bare = stream_config_from_json(wire)
    if wire.config is UNSET:
        return bare
    if bare != PartialStreamConfig():
        raise MalformedError(ErrorCode.BAD_JSON, "a configuration stands beside `config`")
    return PartialStreamConfig() if wire.config is None else stream_config_from_json(wire.config)


def _is_nothing(body: bytes) -> bool:
    return body.strip(b" \t\r\n") in (b"", b"null")
