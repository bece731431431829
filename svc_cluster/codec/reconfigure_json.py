"""Reconfigurations in JSON: changes to the configuration of a basin or a stream.

An absent member leaves its value alone and null clears it, member by member in nested objects.
Null leaves a basin's two booleans alone. Source: contract 9.5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from svc_cluster.codec.config_json import (
    Cipher,
    StreamConfigJson,
    checked_storage_class,
    stream_members,
)
from svc_cluster.codec.json_body import decode_object
from svc_cluster.model import reconfigure
from svc_cluster.model.reconfigure import BasinPatch, StreamPatch


class BasinPatchJson(msgspec.Struct):
    default_stream_config: StreamConfigJson | UnsetType | None = UNSET
    stream_cipher: Cipher | UnsetType | None = UNSET
    create_stream_on_append: bool | UnsetType | None = UNSET
    create_stream_on_read: bool | UnsetType | None = UNSET
    storage_class: str | UnsetType | None = UNSET
    """Alias of the default stream configuration's member of that name, in the seed dialect."""


def decode_stream_patch(body: bytes, *, strict: bool = False) -> StreamPatch:
    """With `strict` unknown members are refused. Raises InvalidError for an age of 0. Raises
    MalformedError (bad_json) for what is no such object, a number out of range, and a retention
    that is not exactly one of the two kinds."""
    return stream_patch(decode_object(body, StreamConfigJson, strict=strict))


def decode_basin_patch(body: bytes, *, alias: bool = True, strict: bool = False) -> BasinPatch:
    """Decode the patch of a basin. With `alias` a storage class beside the default stream
    configuration counts where that says nothing of one; without, it is an unknown member. Raises as
    `decode_stream_patch`."""
    without = frozenset() if alias else frozenset({"storage_class"})
    wire = decode_object(body, BasinPatchJson, strict=strict, without=without)
    return basin_patch(wire, alias=alias)


def stream_patch(wire: StreamConfigJson) -> StreamPatch:
    return StreamPatch(**stream_members(wire))


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


def _with_alias(default: StreamPatch | None, storage_class: str | None) -> StreamPatch:
    if storage_class is not None:
        checked_storage_class(storage_class)
    if default is None:
        # the whole default is cleared, but for the one member that is said beside it
        return StreamPatch(storage_class, None, None, None, None)
    if default.storage_class is not reconfigure.UNSET:
        return default
    return replace(default, storage_class=storage_class)
