"""Stream and basin configuration, complete and partial."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeVar

from svc_cluster.model.record import TimestampingMode

_T = TypeVar("_T")

RETENTION_DEFAULT_SECONDS: Final = 604_800

STORAGE_CLASS_DEFAULT: Final = "standard"
"""Where neither stream nor basin names one, and the request is not in the S2 dialect."""
S2_STORAGE_CLASS_DEFAULT: Final = "express"


@dataclass(frozen=True, slots=True)
class Retention:
    """Age in seconds, above 0; None: kept for ever."""

    age_seconds: int | None = RETENTION_DEFAULT_SECONDS


@dataclass(frozen=True, slots=True)
class PartialStreamConfig:
    """A stream configuration in which an unset (None) member falls back to the basin's default and
    then to the system's."""

    storage_class: str | None = None
    retention: Retention | None = None
    timestamping_mode: TimestampingMode | None = None
    timestamping_uncapped: bool | None = None
    delete_on_empty_min_age_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """A complete stream configuration."""

    storage_class: str = STORAGE_CLASS_DEFAULT
    retention: Retention = field(default_factory=Retention)
    timestamping_mode: TimestampingMode = TimestampingMode.CLIENT_PREFER
    timestamping_uncapped: bool = False
    delete_on_empty_min_age_seconds: int = 0
    """0: the stream is never deleted for being empty."""


@dataclass(frozen=True, slots=True)
class BasinConfig:
    """A basin's configuration; its default stream configuration is stored as it was given."""

    default_stream_config: PartialStreamConfig | None = None
    stream_cipher: str | None = None
    create_stream_on_append: bool = False
    create_stream_on_read: bool = False


def resolve(
    own: PartialStreamConfig | None,
    basin: PartialStreamConfig | None,
    *,
    storage_class_default: str = STORAGE_CLASS_DEFAULT,
) -> StreamConfig:
    """Merge per member: the stream's own, else the basin's default, else the system's, which for
    the storage class is what the dialect of the request has."""
    layers = [layer for layer in (own, basin) if layer is not None]
    fallback = StreamConfig()

    def pick(name: str, default: _T) -> _T:
        for layer in layers:
            value: _T | None = getattr(layer, name)
            if value is not None:
                return value
        return default

    return StreamConfig(
        storage_class=pick("storage_class", storage_class_default),
        retention=pick("retention", fallback.retention),
        timestamping_mode=pick("timestamping_mode", fallback.timestamping_mode),
        timestamping_uncapped=pick("timestamping_uncapped", fallback.timestamping_uncapped),
        delete_on_empty_min_age_seconds=pick(
            "delete_on_empty_min_age_seconds", fallback.delete_on_empty_min_age_seconds
        ),
    )


@dataclass(frozen=True, slots=True)
class NewStream:
    """What is asked of a stream that does not exist yet: its own part of the configuration, and
    the storage class where nobody names one."""

    config: PartialStreamConfig | None = None
    storage_class_default: str = STORAGE_CLASS_DEFAULT

    def resolved(self, basin: PartialStreamConfig | None) -> StreamConfig:
        """With the basin's default where it says nothing itself."""
        return resolve(self.config, basin, storage_class_default=self.storage_class_default)
