"""Requests of the control plane become commands: create, ensure, reconfigure, create by itself.

Each decides by the view it is given, which for a leader has everything in flight, and changes
nothing. None: nothing has to change. Source: contract 9.1, 9.2, 9.3, 9.4, 9.7
and 9.8.
"""

from __future__ import annotations

from svc_cluster.base.errors import (
    AlreadyExistsError,
    BasinDeletionPendingError,
    StreamDeletionPendingError,
    StreamNotFoundError,
    UnavailableError,
)
from svc_cluster.base.ids import StreamId, TimestampMs
from svc_cluster.model import reconfigure
from svc_cluster.model.reconfigure import BasinPatch, StreamPatch
from svc_cluster.model.stream_config import BasinConfig, NewStream, StreamConfig
from svc_cluster.stream.commands import (
    ConfigureBasin,
    ConfigureStream,
    CreateStream,
    DeleteEmptyStream,
    FreezeBasin,
)
from svc_cluster.stream.effects import View
from svc_cluster.stream.emptiness import empty_since_due
from svc_cluster.stream.rows import BasinHead, StreamState


def bootstrapped(view: View) -> BasinHead:
    """Raises UnavailableError while the basin is still being created."""
    basin = view.basin
    if basin is None:
        raise UnavailableError("the basin is still being created")
    return basin


def open_basin(view: View) -> BasinHead:
    """Raises UnavailableError, BasinDeletionPendingError."""
    basin = bootstrapped(view)
    if basin.sealed_at_ms is not None:
        raise BasinDeletionPendingError("the basin is being deleted")
    return basin


def open_for_appends(view: View) -> BasinHead:
    """Raises UnavailableError, also while the basin is frozen; BasinDeletionPendingError."""
    basin = open_basin(view)
    if basin.frozen:
        raise UnavailableError(f"the basin is frozen and takes no appends: {basin.frozen}")
    return basin


def freeze_basin(view: View, reason: str) -> FreezeBasin | None:
    """None: it is frozen so already, or (`reason` is empty) not frozen. Raises UnavailableError,
    BasinDeletionPendingError."""
    return None if open_basin(view).frozen == reason else FreezeBasin(reason)


def find_stream(view: View, name: str) -> StreamState | None:
    """Raises StreamDeletionPendingError."""
    stream = view.stream_by_name(name)
    if stream is not None and stream.deleted_at_ms is not None:
        raise StreamDeletionPendingError("a stream of this name is being deleted")
    return stream


def open_stream(view: View, name: str) -> StreamState:
    """Raises StreamNotFoundError, StreamDeletionPendingError."""
    stream = find_stream(view, name)
    if stream is None:
        raise StreamNotFoundError("no stream of this name in the basin")
    return stream


# -- streams


def create_stream(
    view: View, name: str, new: NewStream, creation_hash: bytes, now_ms: TimestampMs
) -> CreateStream | None:
    """None: the stream was created by this very request (the hash says so; none says nothing).

    Raises, in this order: UnavailableError, BasinDeletionPendingError, StreamDeletionPendingError
    (the name is not free yet), AlreadyExistsError.
    """
    basin = open_basin(view)
    existing = find_stream(view, name)
    if existing is None:
        return _creation(basin, name, new, creation_hash, now_ms)
    if creation_hash and creation_hash == existing.creation_hash:
        return None
    raise AlreadyExistsError("a stream of this name exists")


def ensure_stream(
    view: View, name: str, new: NewStream, now_ms: TimestampMs
) -> CreateStream | ConfigureStream | None:
    """Full replacement: what `new` leaves open falls back to the basin's default of now. Raises as
    `create_stream`, but for AlreadyExistsError."""
    basin = open_basin(view)
    existing = find_stream(view, name)
    if existing is None:
        return _creation(basin, name, new, b"", now_ms)
    return _configuration(existing, new.resolved(basin.config.default_stream_config))


def auto_create_stream(
    view: View, name: str, new: NewStream, now_ms: TimestampMs, *, on_read: bool
) -> CreateStream | None:
    """For an append or a read that found no stream; None: there is one by now. Raises as
    `ensure_stream`, and StreamNotFoundError where the basin's configuration says no."""
    basin = open_basin(view) if on_read else open_for_appends(view)
    if find_stream(view, name) is not None:
        return None
    config = basin.config
    if not (config.create_stream_on_read if on_read else config.create_stream_on_append):
        raise StreamNotFoundError("no stream of this name in the basin")
    return _creation(basin, name, new, b"", now_ms)


def reconfigure_stream(
    view: View, name: str, patch: StreamPatch, storage_class_default: str
) -> ConfigureStream | None:
    """Raises UnavailableError, BasinDeletionPendingError, StreamNotFoundError,
    StreamDeletionPendingError."""
    basin = open_basin(view)
    stream = open_stream(view, name)
    config = reconfigure.patch_stream(
        stream.config,
        basin.config.default_stream_config,
        patch,
        storage_class_default=storage_class_default,
    )
    return _configuration(stream, config)


def delete_empty_stream(
    view: View, stream_id: StreamId, now_ms: TimestampMs
) -> DeleteEmptyStream | None:
    """None: it is not empty (any more), or not for long enough, or gone. Raises nothing."""
    basin = view.basin
    stream = view.stream(stream_id)
    if basin is None or basin.sealed_at_ms is not None or stream is None:
        return None
    due_ms = empty_since_due(stream)
    if due_ms is None or due_ms > now_ms:
        return None
    return DeleteEmptyStream(stream_id, now_ms)


def _creation(
    basin: BasinHead, name: str, new: NewStream, creation_hash: bytes, now_ms: TimestampMs
) -> CreateStream:
    return CreateStream(
        stream_id=basin.next_stream_id,
        name=name,
        config=new.resolved(basin.config.default_stream_config),
        created_at_ms=now_ms,
        cipher=basin.config.stream_cipher,
        creation_hash=creation_hash,
    )


def _configuration(stream: StreamState, config: StreamConfig) -> ConfigureStream | None:
    return None if config == stream.config else ConfigureStream(stream.stream_id, config)


# -- the basin


def ensure_basin(
    view: View, wanted: BasinConfig, storage_class: str | None
) -> ConfigureBasin | None:
    """Full replacement; `storage_class` as in `model.reconfigure.ensure_basin`. Raises
    UnavailableError, BasinDeletionPendingError."""
    basin = open_basin(view)
    return _basin_configuration(
        basin, reconfigure.ensure_basin(basin.config, wanted, storage_class)
    )


def reconfigure_basin(view: View, patch: BasinPatch) -> ConfigureBasin | None:
    """Raises UnavailableError, BasinDeletionPendingError."""
    basin = open_basin(view)
    return _basin_configuration(basin, reconfigure.patch_basin(basin.config, patch))


def _basin_configuration(basin: BasinHead, config: BasinConfig) -> ConfigureBasin | None:
    return None if config == basin.config else ConfigureBasin(config)
