"""Basin and stream objects in JSON: configurations both ways, info objects out.

Null and absent mean the same on the way in. On the way out all members are always present.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import msgspec

from svc_cluster.base.errors import ErrorCode, InvalidError, MalformedError
from svc_cluster.codec.records import U64_MAX
from svc_cluster.model.reconfigure import none_if_unset, with_storage_class
from svc_cluster.model.record import TimestampingMode
from svc_cluster.model.stream_config import (
    STORAGE_CLASS_DEFAULT,
    BasinConfig,
    PartialStreamConfig,
    Retention,
    StreamConfig,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, beyond which RFC 3339 has no words."""

_MODE_WORDS: Final = {
    TimestampingMode.CLIENT_PREFER: "client-prefer",
    TimestampingMode.CLIENT_REQUIRE: "client-require",
    TimestampingMode.ARRIVAL: "arrival",
}
TIMESTAMPING_MODES: Final = {word: mode for mode, word in _MODE_WORDS.items()}

StorageClass = Literal["standard", "express"]
Cipher = Literal["aegis-256", "aes-256-gcm"]
TimestampingWord = Literal["client-prefer", "client-require", "arrival"]


class _Infinite(msgspec.Struct):
    pass


class RetentionJson(msgspec.Struct):
    age: int | None = None
    infinite: _Infinite | None = None


class _TimestampingJson(msgspec.Struct):
    mode: TimestampingWord | None = None
    uncapped: bool | None = None


class _DeleteOnEmptyJson(msgspec.Struct):
    min_age_secs: int | None = None


class StreamConfigJson(msgspec.Struct):
    storage_class: StorageClass | None = None
    retention_policy: RetentionJson | None = None
    timestamping: _TimestampingJson | None = None
    delete_on_empty: _DeleteOnEmptyJson | None = None


class BasinConfigJson(msgspec.Struct):
    default_stream_config: StreamConfigJson | None = None
    stream_cipher: Cipher | None = None
    create_stream_on_append: bool | None = None
    create_stream_on_read: bool | None = None
    storage_class: StorageClass | None = None
    """Alias of the default stream configuration's member of that name, in the seed dialect."""


class CreateBasinJson(msgspec.Struct):
    basin: str
    config: BasinConfigJson | None = None
    location: str | None = None


class CreateStreamJson(msgspec.Struct):
    stream: str
    config: StreamConfigJson | None = None


def stream_config_from_json(wire: StreamConfigJson) -> PartialStreamConfig:
    """Raises InvalidError for an age of 0; MalformedError (bad_json) for a number out of range and
    for a retention that is not exactly one of the two kinds."""
    timestamping = wire.timestamping or _TimestampingJson()
    delete_on_empty = wire.delete_on_empty or _DeleteOnEmptyJson()
    return PartialStreamConfig(
        storage_class=wire.storage_class,
        retention=None
        if wire.retention_policy is None
        else retention_from_json(wire.retention_policy),
        timestamping_mode=None
        if timestamping.mode is None
        else TIMESTAMPING_MODES[timestamping.mode],
        timestamping_uncapped=timestamping.uncapped,
        delete_on_empty_min_age_seconds=seconds_from_json(
            "min_age_secs", delete_on_empty.min_age_secs
        ),
    )


def basin_config_from_json(wire: BasinConfigJson, *, alias: bool = True) -> BasinConfig:
    """With `alias` a storage class beside the default stream configuration counts where that has
    none; without, it is an unknown member, and ignored."""
    default = None
    if wire.default_stream_config is not None:
        default = none_if_unset(stream_config_from_json(wire.default_stream_config))
    config = BasinConfig(
        default_stream_config=default,
        stream_cipher=wire.stream_cipher,
        create_stream_on_append=bool(wire.create_stream_on_append),
        create_stream_on_read=bool(wire.create_stream_on_read),
    )
    return with_storage_class(config, wire.storage_class) if alias else config


def retention_from_json(wire: RetentionJson) -> Retention:
    if (wire.age is None) == (wire.infinite is None):
        raise MalformedError(
            ErrorCode.BAD_JSON, "a retention policy has either an age or is infinite"
        )
    if wire.age is None:
        return Retention(age_seconds=None)
    age_seconds = seconds_from_json("age", wire.age)
    if age_seconds == 0:
        raise InvalidError("the age of a retention policy is above 0")
    return Retention(age_seconds=age_seconds)


def seconds_from_json(name: str, value: int | None) -> int | None:
    if value is not None and not 0 <= value <= U64_MAX:
        raise MalformedError(ErrorCode.BAD_JSON, f"{name} is an unsigned 64-bit number")
    return value


def stream_config_to_json(config: StreamConfig) -> dict[str, Any]:
    return {
        "storage_class": config.storage_class,
        "retention_policy": _retention_to_json(config.retention),
        "timestamping": {
            "mode": _MODE_WORDS[config.timestamping_mode],
            "uncapped": config.timestamping_uncapped,
        },
        "delete_on_empty": {"min_age_secs": config.delete_on_empty_min_age_seconds},
    }


def basin_config_to_json(config: BasinConfig, *, alias: bool = True) -> dict[str, Any]:
    """`alias`: the storage class stands beside the default stream configuration too."""
    default = config.default_stream_config
    members: dict[str, Any] = {
        "default_stream_config": None if default is None else _partial_to_json(default),
        "stream_cipher": config.stream_cipher,
        "create_stream_on_append": config.create_stream_on_append,
        "create_stream_on_read": config.create_stream_on_read,
    }
    if alias:
        members["storage_class"] = (default and default.storage_class) or STORAGE_CLASS_DEFAULT
    return members


def _partial_to_json(config: PartialStreamConfig) -> dict[str, Any]:
    """Unset members are null, so that what was given comes back exactly."""
    mode, uncapped = config.timestamping_mode, config.timestamping_uncapped
    min_age = config.delete_on_empty_min_age_seconds
    timestamping = None
    if mode is not None or uncapped is not None:
        timestamping = {
            "mode": None if mode is None else _MODE_WORDS[mode],
            "uncapped": uncapped,
        }
    return {
        "storage_class": config.storage_class,
        "retention_policy": (
            None if config.retention is None else _retention_to_json(config.retention)
        ),
        "timestamping": timestamping,
        "delete_on_empty": None if min_age is None else {"min_age_secs": min_age},
    }


def _retention_to_json(retention: Retention) -> dict[str, Any]:
    if retention.age_seconds is None:
        return {"infinite": {}}
    return {"age": retention.age_seconds}


def basin_info_to_json(
    name: str, created_at_ms: int, deleted_at_ms: int | None, location: str | None
) -> dict[str, Any]:
    return {
        "name": name,
        "basin": name,
        "location": location,
        "created_at": rfc3339(created_at_ms),
        "deleted_at": None if deleted_at_ms is None else rfc3339(deleted_at_ms),
        "state": "active" if deleted_at_ms is None else "deleting",
    }


def stream_info_to_json(
    name: str, created_at_ms: int, deleted_at_ms: int | None, cipher: str | None
) -> dict[str, Any]:
    return {
        "name": name,
        "created_at": rfc3339(created_at_ms),
        "deleted_at": None if deleted_at_ms is None else rfc3339(deleted_at_ms),
        "cipher": cipher,
    }


def rfc3339(timestamp_ms: int) -> str:
    """UTC with milliseconds: `2026-01-02T03:04:05.678Z`, the same bytes each time."""
    moment = _EPOCH + timedelta(milliseconds=min(timestamp_ms, _TIMESTAMP_MS_MAX))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
