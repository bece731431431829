"""Configuration of basins and streams, and changes to it, to protobuf and back: one form for log
entries and requests.

An absent member stays absent, and an infinite retention is a `Retention` without an age.
"""

from __future__ import annotations

from typing import Any, Final

from svc_cluster._pb.cluster.v1 import config_pb2 as pb
from svc_cluster.model.reconfigure import UNSET, BasinPatch, StreamPatch, Unset
from svc_cluster.model.stream_config import (
    STREAM_SETTINGS,
    BasinConfig,
    PartialStreamConfig,
    Retention,
    StreamConfig,
    members_of,
    plain,
    without_late_defaults,
)


class ConfigFormatError(Exception):
    """A value that this version does not know."""


def put_partial(into: pb.PartialStreamConfig, config: PartialStreamConfig) -> None:
    into.SetInParent()
    if config.retention is not None:
        into.retention.SetInParent()
        if config.retention.age_seconds is not None:
            into.retention.age_seconds = config.retention.age_seconds
    for name, value in plain(config).items():
        if value is not None:
            setattr(into, name, value)


def get_partial(message: pb.PartialStreamConfig) -> PartialStreamConfig:
    """Raises ConfigFormatError."""
    members = _members(message)
    absent = {name for name in members if not message.HasField(name)}
    retention = None
    if message.HasField("retention"):
        retention = _retention(message.retention)
    return PartialStreamConfig(
        retention=retention,
        **{name: None if name in absent else value for name, value in members.items()},
    )


def _members(message: Any) -> dict[str, Any]:
    """Return all members but the retention, of any message that has fields of these names. What is
    absent has the value that the format gives it. Raises ConfigFormatError."""
    try:
        return members_of(message)
    except ValueError:
        raise ConfigFormatError("unknown timestamping mode") from None


def _retention(message: pb.Retention) -> Retention:
    return Retention(message.age_seconds if message.HasField("age_seconds") else None)


def put_complete(into: pb.PartialStreamConfig, config: StreamConfig) -> None:
    """A complete configuration is a partial one in which nothing is absent but what came later and
    says nothing."""
    put_partial(into, without_late_defaults(config))


def get_complete(message: pb.PartialStreamConfig) -> StreamConfig:
    """Raises ConfigFormatError."""
    return StreamConfig(retention=_retention(message.retention), **_members(message))


def put_flat(into: Any, config: StreamConfig) -> None:
    """Into a message that has the members as its own fields, and the retention's age as one."""
    if config.retention.age_seconds is not None:
        into.retention_age_seconds = config.retention.age_seconds
    for name, value in plain(config).items():
        setattr(into, name, value)


def get_flat(message: Any) -> StreamConfig:
    """`put_flat` undone. Raises ConfigFormatError."""
    has_age = message.HasField("retention_age_seconds")
    retention = Retention(message.retention_age_seconds if has_age else None)
    return StreamConfig(retention=retention, **_members(message))


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
    setting.name: pb.PartialStreamConfig.DESCRIPTOR.fields_by_name[setting.name].number
    for setting in STREAM_SETTINGS
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
