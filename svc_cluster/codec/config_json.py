"""Basin and stream objects in JSON: configurations both ways, info objects out.

Null and absent mean the same on the way in. On the way out all members are always present, but for
settings of later versions, which are told where they say something.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from svc_cluster.base.errors import ErrorCode, InvalidError, MalformedError
from svc_cluster.codec.batch_rules import U64_MAX
from svc_cluster.model.reconfigure import none_if_unset, with_storage_class
from svc_cluster.model.record import TimestampingMode
from svc_cluster.model.stream_config import (
    STORAGE_CLASS_DEFAULT,
    STORAGE_CLASSES,
    STREAM_SETTINGS,
    BasinConfig,
    PartialStreamConfig,
    Retention,
    SettingKind,
    StreamConfig,
    StreamSetting,
    without_late_defaults,
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

Cipher = Literal["aegis-256", "aes-256-gcm"]
TimestampingWord = Literal["client-prefer", "client-require", "arrival"]


class _Infinite(msgspec.Struct):
    pass


class RetentionJson(msgspec.Struct):
    age: int | None = None
    infinite: _Infinite | None = None


class TimestampingJson(msgspec.Struct):
    mode: TimestampingWord | UnsetType | None = UNSET
    uncapped: bool | UnsetType | None = UNSET


class DeleteOnEmptyJson(msgspec.Struct):
    min_age_secs: int | UnsetType | None = UNSET


class CachingJson(msgspec.Struct):
    shared: bool | UnsetType | None = UNSET


class StreamConfigJson(msgspec.Struct):
    """A configuration, in which null and absent mean the same; or a change of one, in which they
    differ."""

    storage_class: str | UnsetType | None = UNSET
    retention_policy: RetentionJson | UnsetType | None = UNSET
    timestamping: TimestampingJson | UnsetType | None = UNSET
    delete_on_empty: DeleteOnEmptyJson | UnsetType | None = UNSET
    caching: CachingJson | UnsetType | None = UNSET


class BasinConfigJson(msgspec.Struct):
    default_stream_config: StreamConfigJson | None = None
    stream_cipher: Cipher | None = None
    create_stream_on_append: bool | None = None
    create_stream_on_read: bool | None = None
    storage_class: str | None = None
    """Alias of the default stream configuration's member of that name, in the seed dialect."""


class CreateBasinJson(msgspec.Struct):
    basin: str
    config: BasinConfigJson | None = None
    location: str | None = None
    replication_factor: int | None = None


def unknown_in_basin(*, alias: bool) -> frozenset[str]:
    """What a body that makes a basin has no member for, although the shape has: the alias."""
    return frozenset() if alias else frozenset({"config.storage_class"})


class CreateStreamJson(msgspec.Struct):
    stream: str
    config: StreamConfigJson | None = None


def stream_config_from_json(wire: StreamConfigJson) -> PartialStreamConfig:
    """Raises InvalidError for an age of 0 and for a storage class that there is not. Raises
    MalformedError (bad_json) for a number out of range and for a retention that is not exactly one
    of the two kinds."""
    return PartialStreamConfig(**stream_members(wire))


def stream_members(wire: StreamConfigJson) -> dict[str, Any]:
    """Return the settings that are named, by their names in StreamConfig. The value is None for a
    setting that is null, or stands in an object that is. Raises as `stream_config_from_json`."""
    members: dict[str, Any] = {}
    for setting in STREAM_SETTINGS:
        value: Any = wire
        for member in setting.path:
            value = getattr(value, member)
            if value is None or value is UNSET:
                break
        if value is not UNSET:
            members[setting.name] = None if value is None else _from_json(setting, value)
    return members


def checked_storage_class(word: str) -> str:
    """The word itself. Raises InvalidError for one that no location has. Source: contract 9.3."""
    if word not in STORAGE_CLASSES:
        known = " or ".join(f"`{each}`" for each in STORAGE_CLASSES)
        raise InvalidError(f"storage_class is {known}: no location has another one")
    return word


def _from_json(setting: StreamSetting, value: Any) -> Any:
    match setting.kind:
        case SettingKind.WORD:
            return checked_storage_class(value)
        case SettingKind.RETENTION:
            return retention_from_json(value)
        case SettingKind.TIMESTAMPING_MODE:
            return TIMESTAMPING_MODES[value]
        case SettingKind.SECONDS:
            return seconds_from_json(setting.path[-1], value)
        case _:
            return value


def basin_config_from_json(wire: BasinConfigJson, *, alias: bool = True) -> BasinConfig:
    """Decode a basin's configuration. With `alias` a storage class beside the default stream
    configuration counts where that has none; without, it is an unknown member, and ignored."""
    default = None
    if wire.default_stream_config is not None:
        default = none_if_unset(stream_config_from_json(wire.default_stream_config))
    config = BasinConfig(
        default_stream_config=default,
        stream_cipher=wire.stream_cipher,
        create_stream_on_append=bool(wire.create_stream_on_append),
        create_stream_on_read=bool(wire.create_stream_on_read),
    )
    if not alias or wire.storage_class is None:
        return config
    return with_storage_class(config, checked_storage_class(wire.storage_class))


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


def seconds_from_json(name: str, value: int) -> int:
    if not 0 <= value <= U64_MAX:
        raise MalformedError(ErrorCode.BAD_JSON, f"{name} is an unsigned 64-bit number")
    return value


def stream_config_to_json(config: StreamConfig) -> dict[str, Any]:
    return _to_json(config)


def basin_config_to_json(config: BasinConfig, *, alias: bool = True) -> dict[str, Any]:
    """`alias`: the storage class stands beside the default stream configuration too."""
    default = config.default_stream_config
    members: dict[str, Any] = {
        "default_stream_config": None if default is None else _to_json(default),
        "stream_cipher": config.stream_cipher,
        "create_stream_on_append": config.create_stream_on_append,
        "create_stream_on_read": config.create_stream_on_read,
    }
    if alias:
        members["storage_class"] = (default and default.storage_class) or STORAGE_CLASS_DEFAULT
    return members


def _to_json(config: StreamConfig | PartialStreamConfig) -> dict[str, Any]:
    """Unset members are null, and so is an object of nothing else: what was given comes back. Those
    of later versions are left out where they say nothing."""
    if isinstance(config, StreamConfig):
        config = without_late_defaults(config)
    members: dict[str, Any] = {}
    objects: dict[str, dict[str, Any]] = {}
    for setting in STREAM_SETTINGS:
        value = _value_to_json(setting, getattr(config, setting.name))
        if setting.is_late and value is None:
            continue
        first = setting.path[0]
        if len(setting.path) == 1:
            members[first] = value
            continue
        inner = objects.setdefault(first, {})
        inner[setting.path[1]] = value
        members[first] = inner if any(value is not None for value in inner.values()) else None
    return members


def _value_to_json(setting: StreamSetting, value: Any) -> Any:
    if value is None:
        return None
    match setting.kind:
        case SettingKind.RETENTION:
            return _retention_to_json(value)
        case SettingKind.TIMESTAMPING_MODE:
            return _MODE_WORDS[value]
        case _:
            return value


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
    """Return UTC with milliseconds, as in `2026-01-02T03:04:05.678Z`, the same bytes each time."""
    moment = _EPOCH + timedelta(milliseconds=min(timestamp_ms, _TIMESTAMP_MS_MAX))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
