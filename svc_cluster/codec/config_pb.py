"""Configuration of basins and streams, and changes to it, to protobuf and back: one form for log
entries and requests.

An absent member stays absent, and an infinite retention is a `Retention` without an age.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from svc_cluster._pb.cluster.v1 import config_pb2 as pb
from svc_cluster.model.reconfigure import UNSET, BasinPatch, StreamPatch, Unset
from svc_cluster.model.record import TimestampingMode
from svc_cluster.model.stream_config import (
    BasinConfig,
    PartialStreamConfig,
    Retention,
    StreamConfig,
)


class ConfigFormatError(Exception):
    """A value that this version does not know."""


def put_partial(into: pb.PartialStreamConfig, config: PartialStreamConfig) -> None:
    into.SetInParent()
    if config.storage_class is not None:
        into.storage_class = config.storage_class
    if config.retention is not None:
        into.retention.SetInParent()
        if config.retention.age_seconds is not None:
            into.retention.age_seconds = config.retention.age_seconds
    if config.timestamping_mode is not None:
        into.timestamping_mode = config.timestamping_mode
    if config.timestamping_uncapped is not None:
        into.timestamping_uncapped = config.timestamping_uncapped
    if config.delete_on_empty_min_age_seconds is not None:
        into.delete_on_empty_min_age_seconds = config.delete_on_empty_min_age_seconds


def get_partial(message: pb.PartialStreamConfig) -> PartialStreamConfig:
    """Raises ConfigFormatError."""
    has = message.HasField
    retention = None
    if has("retention"):
        given = message.retention
        retention = Retention(given.age_seconds if given.HasField("age_seconds") else None)
    mode = timestamping_mode(message.timestamping_mode) if has("timestamping_mode") else None
    min_age = message.delete_on_empty_min_age_seconds
    return PartialStreamConfig(
        storage_class=message.storage_class if has("storage_class") else None,
        retention=retention,
        timestamping_mode=mode,
        timestamping_uncapped=(
            message.timestamping_uncapped if has("timestamping_uncapped") else None
        ),
        delete_on_empty_min_age_seconds=(
            min_age if has("delete_on_empty_min_age_seconds") else None
        ),
    )


def timestamping_mode(value: int) -> TimestampingMode:
    """Raises ConfigFormatError."""
    try:
        return TimestampingMode(value)
    except ValueError:
        raise ConfigFormatError("unknown timestamping mode") from None


def put_complete(into: pb.PartialStreamConfig, config: StreamConfig) -> None:
    """A complete configuration is a partial one in which nothing is absent."""
    put_partial(
        into,
        PartialStreamConfig(
            storage_class=config.storage_class,
            retention=config.retention,
            timestamping_mode=config.timestamping_mode,
            timestamping_uncapped=config.timestamping_uncapped,
            delete_on_empty_min_age_seconds=config.delete_on_empty_min_age_seconds,
        ),
    )


def get_complete(message: pb.PartialStreamConfig) -> StreamConfig:
    """Raises ConfigFormatError."""
    retention = message.retention
    return StreamConfig(
        storage_class=message.storage_class,
        retention=Retention(retention.age_seconds if retention.HasField("age_seconds") else None),
        timestamping_mode=timestamping_mode(message.timestamping_mode),
        timestamping_uncapped=message.timestamping_uncapped,
        delete_on_empty_min_age_seconds=message.delete_on_empty_min_age_seconds,
    )


def put_basin(into: pb.BasinConfig, config: BasinConfig) -> None:
    into.SetInParent()
    if config.default_stream_config is not None:
        put_partial(into.default_stream_config, config.default_stream_config)
    if config.stream_cipher is not None:
        into.stream_cipher = config.stream_cipher
    into.create_stream_on_append = config.create_stream_on_append
    into.create_stream_on_read = config.create_stream_on_read


def get_basin(message: pb.BasinConfig) -> BasinConfig:
    """Raises ConfigFormatError."""
    default = None
    if message.HasField("default_stream_config"):
        default = get_partial(message.default_stream_config)
    return BasinConfig(
        default_stream_config=default,
        stream_cipher=message.stream_cipher if message.HasField("stream_cipher") else None,
        create_stream_on_append=message.create_stream_on_append,
        create_stream_on_read=message.create_stream_on_read,
    )


_MEMBERS: Final = {
    member.name: pb.PartialStreamConfig.DESCRIPTOR.fields_by_name[member.name].number
    for member in fields(StreamPatch)
}
"""Field numbers in PartialStreamConfig, which has the same members."""


def put_stream_patch(into: pb.StreamPatch, patch: StreamPatch) -> None:
    into.SetInParent()
    given: dict[str, Any] = {}
    for name, number in _MEMBERS.items():
        value = getattr(patch, name)
        if value is None:
            into.cleared.append(number)
        elif value is not UNSET:
            given[name] = value
    put_partial(into.set, PartialStreamConfig(**given))


def get_stream_patch(message: pb.StreamPatch) -> StreamPatch:
    """Raises ConfigFormatError."""
    given = get_partial(message.set)
    changes: dict[str, Any] = {}
    for name, number in _MEMBERS.items():
        value = getattr(given, name)
        if value is not None or number in message.cleared:
            changes[name] = value
    return StreamPatch(**changes)


def put_basin_patch(into: pb.BasinPatch, patch: BasinPatch) -> None:
    into.SetInParent()
    default = patch.default_stream_config
    if isinstance(default, StreamPatch):
        put_stream_patch(into.default_stream_config, default)
    into.clear_default_stream_config = default is None
    cipher = patch.stream_cipher
    if isinstance(cipher, str):
        into.stream_cipher = cipher
    into.clear_stream_cipher = cipher is None
    if patch.create_stream_on_append is not None:
        into.create_stream_on_append = patch.create_stream_on_append
    if patch.create_stream_on_read is not None:
        into.create_stream_on_read = patch.create_stream_on_read


def get_basin_patch(message: pb.BasinPatch) -> BasinPatch:
    """Raises ConfigFormatError."""
    has = message.HasField
    default: StreamPatch | Unset | None = UNSET
    if message.clear_default_stream_config:
        default = None
    elif has("default_stream_config"):
        default = get_stream_patch(message.default_stream_config)
    cipher: str | Unset | None = UNSET
    if message.clear_stream_cipher:
        cipher = None
    elif has("stream_cipher"):
        cipher = message.stream_cipher
    return BasinPatch(
        default,
        cipher,
        message.create_stream_on_append if has("create_stream_on_append") else None,
        message.create_stream_on_read if has("create_stream_on_read") else None,
    )
