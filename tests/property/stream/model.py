"""A basin as simply as it can be said: lists of records, no overlay, no batches, no store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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


@dataclass
class ModelStream:
    incarnation: int
    mode: TimestampingMode
    uncapped: bool
    timestamps: list[int] = field(default_factory=list)
    """Of every record there ever was."""
    trim_point: int = 0
    token: str = ""
    deleted: bool = False

    @property
    def last(self) -> int:
        return self.timestamps[-1] if self.timestamps else 0


Command = tuple[int, str, int]
"""Offset, fencing token (or "trim:"), trim point."""


@dataclass
class ModelBasin:
    streams: dict[str, ModelStream] = field(default_factory=dict)
    created: int = 0
    sealed: bool = False

    def create(self, name: str, mode: TimestampingMode, uncapped: bool) -> type[ServiceError] | int:
        if self.sealed:
            return BasinDeletionPendingError
        if name in self.streams:
            deleted = self.streams[name].deleted
            return StreamDeletionPendingError if deleted else AlreadyExistsError
        self.created += 1
        self.streams[name] = ModelStream(self.created, mode, uncapped)
        return self.created

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
            if not stream.uncapped:
                value = min(value, now)
            stream.timestamps.append(max(value, stream.last))
        for offset, fencing_token, trim_point in commands:
            if fencing_token == "trim:":
                clamped = min(trim_point, first + offset + 1)
                stream.trim_point = max(stream.trim_point, clamped)
            else:
                stream.token = fencing_token
        return first, stream.timestamps[first], len(stream.timestamps), stream.last
