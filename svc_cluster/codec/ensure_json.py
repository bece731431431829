"""Bodies that ensure a basin or a stream: all of them optional.

A body of no bytes and a literal null are no body: the default configuration. A stream's may be the
configuration itself or an object that has it as `config`. Source: wire contract sections 2 and 2.2.
"""

from __future__ import annotations

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


def ensured_basin(body: bytes, *, alias: bool = True) -> tuple[BasinConfig, str | None]:
    """The configuration and the location that are asked for. `alias` as in
    `basin_config_from_json`, which says what is raised too."""
    if _is_nothing(body):
        return BasinConfig(), None
    wire = decode_object(body, EnsureBasinJson)
    config = BasinConfig()
    if wire.config is not None:
        config = basin_config_from_json(wire.config, alias=alias)
    return config, wire.location


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
