"""Stream and basin configuration, complete and partial.

STREAM_SETTINGS is the one list of what can be set of a stream. JSON, changes, messages and rows are
read and written by it, and the document of the interface is made of it; what has to be spelled out
besides (types, message and row fields) is held against it by a test.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from svc_cluster.model import versions
from svc_cluster.model.record import TimestampingMode

RETENTION_DEFAULT_SECONDS: Final = 604_800

STORAGE_CLASSES: Final = ("express", "standard")
"""Those of every location."""
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
    shared_caching: bool | None = None


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """A complete stream configuration."""

    storage_class: str = STORAGE_CLASS_DEFAULT
    retention: Retention = field(default_factory=Retention)
    timestamping_mode: TimestampingMode = TimestampingMode.CLIENT_PREFER
    timestamping_uncapped: bool = False
    delete_on_empty_min_age_seconds: int = 0
    """0: the stream is never deleted for being empty."""
    shared_caching: bool = False
    """Caches that serve many may keep closed ranges of its records where nobody is asked for a
    token."""


class SettingKind(Enum):
    """What the value of a setting is, and so how it is written."""

    WORD = "word"
    RETENTION = "retention"
    TIMESTAMPING_MODE = "timestamping mode"
    FLAG = "flag"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True)
class StreamSetting:
    """`name` is the member of StreamConfig; `path` says where it stands in JSON, an object within
    another at most. `since`: the active version from which on it can be set; one that came after
    the first is written, and told, only where it says something."""

    name: str
    path: tuple[str] | tuple[str, str]
    kind: SettingKind
    since: int = versions.FIRST

    @property
    def is_late(self) -> bool:
        return self.since > versions.FIRST


STREAM_SETTINGS: Final = (
    StreamSetting("storage_class", ("storage_class",), SettingKind.WORD),
    StreamSetting("retention", ("retention_policy",), SettingKind.RETENTION),
    StreamSetting("timestamping_mode", ("timestamping", "mode"), SettingKind.TIMESTAMPING_MODE),
    StreamSetting("timestamping_uncapped", ("timestamping", "uncapped"), SettingKind.FLAG),
    StreamSetting(
        "delete_on_empty_min_age_seconds", ("delete_on_empty", "min_age_secs"), SettingKind.SECONDS
    ),
    StreamSetting(
        "shared_caching", ("caching", "shared"), SettingKind.FLAG, versions.SHARED_CACHING
    ),
)


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
    """Merge per member: the stream's own, else the basin's default, else the system's. The system's
    storage class is what the dialect of the request has."""
    layers = [layer for layer in (own, basin) if layer is not None]
    layers.append(as_partial(StreamConfig(storage_class=storage_class_default)))
    members: dict[str, Any] = {}
    for setting in STREAM_SETTINGS:
        values = (getattr(layer, setting.name) for layer in layers)
        members[setting.name] = next(value for value in values if value is not None)
    return StreamConfig(**members)


def as_partial(config: StreamConfig) -> PartialStreamConfig:
    """The same configuration as one in which nothing is unset."""
    return PartialStreamConfig(
        **{setting.name: getattr(config, setting.name) for setting in STREAM_SETTINGS}
    )


def without_late_defaults(config: StreamConfig) -> PartialStreamConfig:
    """Return the same configuration, without settings of later versions that say nothing.

    What carries it is then what it was before there were any.
    """
    default = StreamConfig()
    return replace(
        as_partial(config),
        **{
            setting.name: None
            for setting in STREAM_SETTINGS
            if setting.is_late and getattr(config, setting.name) == getattr(default, setting.name)
        },
    )


def plain(config: StreamConfig | PartialStreamConfig) -> dict[str, Any]:
    """All members but the retention, as words, numbers and flags, for rows and messages, which have
    fields of the same names. What is unset is None."""
    members: dict[str, Any] = {}
    for setting in STREAM_SETTINGS:
        value = getattr(config, setting.name)
        if setting.kind is SettingKind.TIMESTAMPING_MODE and value is not None:
            value = int(value)
        if setting.kind is not SettingKind.RETENTION:
            members[setting.name] = value
    return members


def members_of(row: object) -> dict[str, Any]:
    """`plain` undone, from a row or message with such fields. Raises ValueError for a timestamping
    mode that is not known."""
    members: dict[str, Any] = {}
    for setting in STREAM_SETTINGS:
        if setting.kind is not SettingKind.RETENTION:
            value = getattr(row, setting.name)
            if setting.kind is SettingKind.TIMESTAMPING_MODE and value is not None:
                value = TimestampingMode(value)
            members[setting.name] = value
    return members


@dataclass(frozen=True, slots=True)
class NewStream:
    """A NewStream is what is asked of a stream that does not exist yet. It has the stream's own
    part of the configuration, and the storage class where nobody names one."""

    config: PartialStreamConfig | None = None
    storage_class_default: str = STORAGE_CLASS_DEFAULT

    def resolved(self, basin: PartialStreamConfig | None) -> StreamConfig:
        """With the basin's default where it says nothing itself."""
        return resolve(self.config, basin, storage_class_default=self.storage_class_default)
