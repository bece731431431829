"""Reconfigurations: changes to the configuration of a basin or a stream, and what they make of it.

An absent member leaves its value alone and null clears it, member by member in nested objects.
Source: wire contract section 6.5; where its sources differ, a basin's two booleans are left alone
by null.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from svc_cluster.codec.config_json import (
    TIMESTAMPING_MODES,
    Cipher,
    RetentionJson,
    StorageClass,
    TimestampingWord,
    retention_from_json,
    seconds_from_json,
)
from svc_cluster.model.stream_config import (
    BasinConfig,
    PartialStreamConfig,
    StreamConfig,
    resolve,
)


class _TimestampingPatchJson(msgspec.Struct):
    mode: TimestampingWord | UnsetType | None = UNSET
    uncapped: bool | UnsetType | None = UNSET


class _DeleteOnEmptyPatchJson(msgspec.Struct):
    min_age_secs: int | UnsetType | None = UNSET


class StreamPatchJson(msgspec.Struct):
    storage_class: StorageClass | UnsetType | None = UNSET
    retention_policy: RetentionJson | UnsetType | None = UNSET
    timestamping: _TimestampingPatchJson | UnsetType | None = UNSET
    delete_on_empty: _DeleteOnEmptyPatchJson | UnsetType | None = UNSET


class BasinPatchJson(msgspec.Struct):
    default_stream_config: StreamPatchJson | UnsetType | None = UNSET
    stream_cipher: Cipher | UnsetType | None = UNSET
    create_stream_on_append: bool | UnsetType | None = UNSET
    create_stream_on_read: bool | UnsetType | None = UNSET


def patch_stream(
    stored: StreamConfig, basin_default: PartialStreamConfig | None, patch: StreamPatchJson
) -> StreamConfig:
    """The new configuration of a stream: what is cleared falls back to the basin's default of now,
    then to the system's. Raises as `patch_partial` does."""
    own = PartialStreamConfig(
        storage_class=stored.storage_class,
        retention=stored.retention,
        timestamping_mode=stored.timestamping_mode,
        timestamping_uncapped=stored.timestamping_uncapped,
        delete_on_empty_min_age_seconds=stored.delete_on_empty_min_age_seconds,
    )
    return resolve(patch_partial(own, patch), basin_default)


def patch_partial(stored: PartialStreamConfig, patch: StreamPatchJson) -> PartialStreamConfig:
    """Raises InvalidError for an age of 0, MalformedError (bad_json) for a number out of range and
    for a retention that is not exactly one of the two kinds."""
    changes: dict[str, Any] = {}
    if patch.storage_class is not UNSET:
        changes["storage_class"] = patch.storage_class
    retention = patch.retention_policy
    if retention is not UNSET:
        changes["retention"] = None if retention is None else retention_from_json(retention)
    timestamping = patch.timestamping
    if timestamping is None:
        timestamping = _TimestampingPatchJson(mode=None, uncapped=None)
    if timestamping is not UNSET:
        mode = timestamping.mode
        if mode is not UNSET:
            changes["timestamping_mode"] = None if mode is None else TIMESTAMPING_MODES[mode]
        if timestamping.uncapped is not UNSET:
            changes["timestamping_uncapped"] = timestamping.uncapped
    delete_on_empty = patch.delete_on_empty
    if delete_on_empty is None:
        delete_on_empty = _DeleteOnEmptyPatchJson(min_age_secs=None)
    if delete_on_empty is not UNSET and delete_on_empty.min_age_secs is not UNSET:
        changes["delete_on_empty_min_age_seconds"] = seconds_from_json(
            "min_age_secs", delete_on_empty.min_age_secs
        )
    return replace(stored, **changes)


def patch_basin(stored: BasinConfig, patch: BasinPatchJson) -> BasinConfig:
    """The new configuration of a basin. A default stream configuration without any member set is
    none. Raises as `patch_partial` does."""
    changes: dict[str, Any] = {}
    default = patch.default_stream_config
    if default is None:
        changes["default_stream_config"] = None
    elif default is not UNSET:
        patched = patch_partial(stored.default_stream_config or PartialStreamConfig(), default)
        unset = patched == PartialStreamConfig()
        changes["default_stream_config"] = None if unset else patched
    if patch.stream_cipher is not UNSET:
        changes["stream_cipher"] = patch.stream_cipher
    for name in ("create_stream_on_append", "create_stream_on_read"):
        value = getattr(patch, name)
        if isinstance(value, bool):
            changes[name] = value
    return replace(stored, **changes)
