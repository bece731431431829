"""Configuration of basins and streams to protobuf and back: one form for log entries and requests.

An absent member stays absent, and an infinite retention is a `Retention` without an age.
"""

from __future__ import annotations

from svc_cluster._pb.cluster.v1 import config_pb2 as pb
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
