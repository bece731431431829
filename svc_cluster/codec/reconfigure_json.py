"""Reconfigurations in JSON: changes to the configuration of a basin or a stream.

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
from svc_cluster.codec.json_body import decode_object
from svc_cluster.model import reconfigure
from svc_cluster.model.reconfigure import BasinPatch, StreamPatch


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
    storage_class: StorageClass | UnsetType | None = UNSET
    """Alias of the default stream configuration's member of that name, in the seed dialect."""


def decode_stream_patch(body: bytes) -> StreamPatch:
    """Raises InvalidError for an age of 0, MalformedError (bad_json) for what is no such object,
    a number out of range, and a retention that is not exactly one of the two kinds."""
    return stream_patch(decode_object(body, StreamPatchJson))


def decode_basin_patch(body: bytes, *, alias: bool = True) -> BasinPatch:
    """With `alias` a storage class beside the default stream configuration counts where that says
    nothing of one; without, it is an unknown member. Raises as `decode_stream_patch`."""
    return basin_patch(decode_object(body, BasinPatchJson), alias=alias)


def stream_patch(wire: StreamPatchJson) -> StreamPatch:
    changes: dict[str, Any] = {}
    if wire.storage_class is not UNSET:
        changes["storage_class"] = wire.storage_class
    retention = wire.retention_policy
    if retention is not UNSET:
        changes["retention"] = None if retention is None else retention_from_json(retention)
    timestamping = wire.timestamping
    if timestamping is None:
        timestamping = _TimestampingPatchJson(mode=None, uncapped=None)
    if timestamping is not UNSET:
        mode = timestamping.mode
        if mode is not UNSET:
            changes["timestamping_mode"] = None if mode is None else TIMESTAMPING_MODES[mode]
        if timestamping.uncapped is not UNSET:
            changes["timestamping_uncapped"] = timestamping.uncapped
    delete_on_empty = wire.delete_on_empty
    if delete_on_empty is None:
        delete_on_empty = _DeleteOnEmptyPatchJson(min_age_secs=None)
    if delete_on_empty is not UNSET and delete_on_empty.min_age_secs is not UNSET:
        changes["delete_on_empty_min_age_seconds"] = seconds_from_json(
            "min_age_secs", delete_on_empty.min_age_secs
        )
    return StreamPatch(**changes)


def basin_patch(wire: BasinPatchJson, *, alias: bool = True) -> BasinPatch:
    changes: dict[str, Any] = {}
    default = wire.default_stream_config
    if default is None:
        changes["default_stream_config"] = None
    elif default is not UNSET:
        changes["default_stream_config"] = stream_patch(default)
    if alias and wire.storage_class is not UNSET:
        changes["default_stream_config"] = _with_alias(
            changes.get("default_stream_config", StreamPatch()), wire.storage_class
        )
    if wire.stream_cipher is not UNSET:
        changes["stream_cipher"] = wire.stream_cipher
    for name in ("create_stream_on_append", "create_stream_on_read"):
        value = getattr(wire, name)
        if isinstance(value, bool):
            changes[name] = value
    return BasinPatch(**changes)


def _with_alias(default: StreamPatch | None, storage_class: StorageClass | None) -> StreamPatch:
    if default is None:
        # the whole default is cleared, but for the one member that is said beside it
        return StreamPatch(storage_class, None, None, None, None)
    if default.storage_class is not reconfigure.UNSET:
        return default
    return replace(default, storage_class=storage_class)
