"""Changes to configurations, and what they make of one. Pure: the leader applies them to what it
knows when their turn comes, so that changes made at the same time add up.

Of each member a change says: leave it alone (UNSET), clear it (None), or this value. What is
cleared falls back as if it had never been given. Source: contract 9.4 and 9.5.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, Final

from svc_cluster.model.record import TimestampingMode
from svc_cluster.model.stream_config import (
    STORAGE_CLASS_DEFAULT,
    BasinConfig,
    PartialStreamConfig,
    Retention,
    StreamConfig,
    as_partial,
    resolve,
)


class Unset(Enum):
    """One value, which is none that a member can have."""

    UNSET = 0


UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True)
class StreamPatch:
    """A change to a stream's configuration, or to a basin's default of one."""

    storage_class: str | Unset | None = UNSET
    retention: Retention | Unset | None = UNSET
    timestamping_mode: TimestampingMode | Unset | None = UNSET
    timestamping_uncapped: bool | Unset | None = UNSET
    delete_on_empty_min_age_seconds: int | Unset | None = UNSET
    shared_caching: bool | Unset | None = UNSET


@dataclass(frozen=True, slots=True)
class BasinPatch:
    """A change to a basin's configuration. The two booleans cannot be cleared: None leaves them
    alone."""

    default_stream_config: StreamPatch | Unset | None = UNSET
    stream_cipher: str | Unset | None = UNSET
    create_stream_on_append: bool | None = None
    create_stream_on_read: bool | None = None


def patch_stream(
    stored: StreamConfig,
    basin_default: PartialStreamConfig | None,
    patch: StreamPatch,
    *,
    storage_class_default: str = STORAGE_CLASS_DEFAULT,
) -> StreamConfig:
    """The new configuration of a stream: what is cleared falls back to the basin's default of now,
    then to the system's."""
    return resolve(
        patch_partial(as_partial(stored), patch),
        basin_default,
        storage_class_default=storage_class_default,
    )


def patch_partial(stored: PartialStreamConfig, patch: StreamPatch) -> PartialStreamConfig:
    changes: dict[str, Any] = {}
    for member in fields(patch):
        value = getattr(patch, member.name)
        if value is not UNSET:
            changes[member.name] = value
    return replace(stored, **changes)


def patch_basin(stored: BasinConfig, patch: BasinPatch) -> BasinConfig:
    """The new configuration of a basin. A default stream configuration without any member set is
    none."""
    default = stored.default_stream_config
    match patch.default_stream_config:
        case None:
            default = None
        case StreamPatch() as change:
            default = none_if_unset(patch_partial(default or PartialStreamConfig(), change))
        case Unset():
            pass
    cipher = patch.stream_cipher
    on_append, on_read = patch.create_stream_on_append, patch.create_stream_on_read
    return BasinConfig(
        default_stream_config=default,
        stream_cipher=stored.stream_cipher if isinstance(cipher, Unset) else cipher,
        create_stream_on_append=stored.create_stream_on_append if on_append is None else on_append,
        create_stream_on_read=stored.create_stream_on_read if on_read is None else on_read,
    )


def ensure_basin(
    stored: BasinConfig, wanted: BasinConfig, storage_class: str | None
) -> BasinConfig:
    """What a basin is to be by a full replacement with `wanted`.

    `storage_class` is the dialect's word for the default of streams, None where it was not said or
    is not known. A basin tells it even when its default has none, so the same word given back must
    change nothing.
    """
    if storage_class is None or _default_class(wanted) is not None:
        return wanted
    if _default_class(stored) is None and storage_class == STORAGE_CLASS_DEFAULT:
        return wanted
    return with_storage_class(wanted, storage_class)


def with_storage_class(config: BasinConfig, storage_class: str | None) -> BasinConfig:
    """Streams get this storage class by default, unless the default says one already."""
    if storage_class is None or _default_class(config) is not None:
        return config
    default = config.default_stream_config or PartialStreamConfig()
    return replace(config, default_stream_config=replace(default, storage_class=storage_class))


def none_if_unset(default: PartialStreamConfig) -> PartialStreamConfig | None:
    """A default stream configuration is told as none when it says nothing."""
    return None if default == PartialStreamConfig() else default


def _default_class(config: BasinConfig) -> str | None:
    default = config.default_stream_config
    return None if default is None else default.storage_class
