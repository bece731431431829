"""Bodies that ensure a basin or a stream: all of them optional.

A body of no bytes and a literal null are no body: the default configuration. A stream's may be the
configuration itself or an object that has it as `config`. Source: wire contract sections 2 and 2.2.
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
    stream_config_from_json,
)
from svc_cluster.codec.json_body import decode_object
from svc_cluster.model.stream_config import BasinConfig, PartialStreamConfig


class EnsureBasinJson(msgspec.Struct):
    config: BasinConfigJson | None = None
    location: str | None = None


class EnsureStreamJson(StreamConfigJson):
    config: StreamConfigJson | UnsetType | None = UNSET


@dataclass(frozen=True, slots=True)
class EnsuredBasin:
    """`storage_class`: the alias beside the default stream configuration, which is not in
    `config`: whether it changes a basin depends on what the basin is."""

    config: BasinConfig = field(default_factory=BasinConfig)
    location: str | None = None
    storage_class: str | None = None


def ensured_basin(body: bytes, *, alias: bool = True) -> EnsuredBasin:
    """What is asked for. Without `alias` a storage class beside the default stream configuration
    is an unknown member. Raises as `stream_config_from_json` does."""
    if _is_nothing(body):
        return EnsuredBasin()
    wire = decode_object(body, EnsureBasinJson)
    if wire.config is None:
        return EnsuredBasin(location=wire.location)
    return EnsuredBasin(
        basin_config_from_json(wire.config, alias=False),
        wire.location,
        wire.config.storage_class if alias else None,
    )


def ensured_stream(body: bytes) -> PartialStreamConfig:
    """The configuration that is asked for. Raises as `stream_config_from_json` does, and
    MalformedError (bad_json) for one beside the other."""
    if _is_nothing(body):
        return PartialStreamConfig()
    wire = decode_object(body, EnsureStreamJson)
    bare = stream_config_from_json(wire)
    if wire.config is UNSET:
        return bare
    if bare != PartialStreamConfig():
        raise MalformedError(ErrorCode.BAD_JSON, "a configuration stands beside `config`")
    return PartialStreamConfig() if wire.config is None else stream_config_from_json(wire.config)


def _is_nothing(body: bytes) -> bool:
    return body.strip(b" \t\r\n") in (b"", b"null")
