"""A basin as simply as it can be said: lists of records, no overlay, no batches, no store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from svc_cluster.base.errors import (
    AlreadyExistsError,
    BasinDeletionPendingError,
    FencingTokenMismatchError,
    InvalidError,
    SeqNumMismatchError,
    ServiceError,
    StreamDeletionPendingError,
    StreamNotFoundError,
)
from svc_cluster.model.record import TimestampingMode
from svc_cluster.model.stream_config import Retention

Config = dict[str, Any]
"""Members by name; of a stream all of them, else those that were given."""

SYSTEM: Config = {
    "storage_class": "standard",
    "retention": Retention(604_800),
    "timestamping_mode": TimestampingMode.CLIENT_PREFER,
    "timestamping_uncapped": False,
    "delete_on_empty_min_age_seconds": 0,
    "shared_caching": False,
}


def without_none(config: Config) -> Config:
    return {name: value for name, value in config.items() if value is not None}


@dataclass
class ModelStream:
    incarnation: int
    config: Config
    idle_since: int
    """When it was created, or last appended to."""
    timestamps: list[int] = field(default_factory=list)
    """Of every record there ever was."""
    trim_point: int = 0
    token: str = ""
    deleted: bool = False

    @property
    def last(self) -> int:
        return self.timestamps[-1] if self.timestamps else 0

    @property
    def mode(self) -> TimestampingMode:
        mode: TimestampingMode = self.config["timestamping_mode"]
        return mode


Command = tuple[int, str, int]
"""Offset, fencing token (or "trim:"), trim point."""


@dataclass
class ModelBasin:
    streams: dict[str, ModelStream] = field(default_factory=dict)
    created: int = 0
    sealed: bool = False
    default: Config = field(default_factory=dict)
    """Of streams; without the members that are not set."""
    made_on: dict[str, bool] = field(default_factory=lambda: {"append": False, "read": False})

    def create(self, name: str, own: Config, now: int) -> type[ServiceError] | int:
        if self.sealed:
            return BasinDeletionPendingError
        if name in self.streams:
            deleted = self.streams[name].deleted
            return StreamDeletionPendingError if deleted else AlreadyExistsError
        self.created += 1
        config = {**SYSTEM, **self.default, **without_none(own)}
        self.streams[name] = ModelStream(self.created, config, now)
        return self.created

    def ensure(self, name: str, own: Config, now: int) -> type[ServiceError] | int | bool:
        if self.sealed or name not in self.streams or self.streams[name].deleted:
            return self.create(name, own, now)
        return self._configure(name, {**SYSTEM, **self.default, **without_none(own)})

    def auto_create(self, name: str, kind: str, now: int) -> type[ServiceError] | int | bool:
        if self.sealed or (name in self.streams and self.streams[name].deleted):
            return self.create(name, {}, now)
        if name in self.streams:
            return False
        return self.create(name, {}, now) if self.made_on[kind] else StreamNotFoundError

    def patch(self, name: str, change: Config) -> type[ServiceError] | bool:
        if self.sealed:
            return BasinDeletionPendingError
        if name not in self.streams:
            return StreamNotFoundError
        if self.streams[name].deleted:
            return StreamDeletionPendingError
        own = without_none({**self.streams[name].config, **change})
        return self._configure(name, {**SYSTEM, **self.default, **own})

    def _configure(self, name: str, config: Config) -> bool:
        changed = self.streams[name].config != config
        self.streams[name].config = config
        return changed

    def patch_basin(
        self, change: Config | None, made_on: dict[str, bool]
    ) -> type[ServiceError] | bool:
        """`change` None: clear the whole default."""
        if self.sealed:
            return BasinDeletionPendingError
        default = {} if change is None else without_none({**self.default, **change})
        before = (self.default, self.made_on)
        self.default, self.made_on = default, {**self.made_on, **made_on}
        return before != (self.default, self.made_on)

    def delete_empty(self, name: str, now: int) -> bool:
        stream = self.streams.get(name)
        if self.sealed or stream is None or stream.deleted:
            return False
        min_age = stream.config["delete_on_empty_min_age_seconds"]
        is_empty = stream.trim_point == len(stream.timestamps)
        if min_age == 0 or not is_empty or now - stream.idle_since < min_age * 1000:
            return False
        stream.deleted = True
        return True

    def delete(self, name: str) -> type[ServiceError] | bool:
        if self.sealed:
            return BasinDeletionPendingError
        if name not in self.streams:
            return StreamNotFoundError
        changed = not self.streams[name].deleted
        self.streams[name].deleted = True
        return changed

    def purge(self, name: str) -> bool:
        if self.sealed or name not in self.streams or not self.streams[name].deleted:
            return False
        del self.streams[name]
        return True

    def expire(self, name: str, trim_point: int) -> bool:
        stream = self.streams.get(name)
        if self.sealed or stream is None or stream.deleted or trim_point <= stream.trim_point:
            return False
        stream.trim_point = trim_point
        return True

    def append(
        self,
        name: str,
        given: Sequence[int | None],
        commands: Sequence[Command],
        match: int | None,
        token: str | None,
        now: int,
    ) -> type[ServiceError] | tuple[int, int, int, int]:
        """First seq_num and timestamp, end seq_num and last timestamp."""
        if self.sealed:
            return BasinDeletionPendingError
        if name not in self.streams:
            return StreamNotFoundError
        stream = self.streams[name]
        if stream.deleted:
            return StreamDeletionPendingError
        if token is not None and token != stream.token:
            return FencingTokenMismatchError
        first = len(stream.timestamps)
        if match is not None and match != first:
            return SeqNumMismatchError
        if stream.mode is TimestampingMode.CLIENT_REQUIRE and None in given:
            return InvalidError
        for client in given:
            value = now if client is None or stream.mode is TimestampingMode.ARRIVAL else client
            if not stream.config["timestamping_uncapped"]:
                value = min(value, now)
            stream.timestamps.append(max(value, stream.last))
        stream.idle_since = now
        for offset, fencing_token, trim_point in commands:
            if fencing_token == "trim:":
                clamped = min(trim_point, first + offset + 1)
                stream.trim_point = max(stream.trim_point, clamped)
            else:
                stream.token = fencing_token
        return first, stream.timestamps[first], len(stream.timestamps), stream.last
