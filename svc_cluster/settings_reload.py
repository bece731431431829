"""Which settings a running process takes over anew, and what a new reading of them changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_bounds import QUOTA_KEYS, RATE_KEYS

RELOADABLE: Final[dict[type[NodeSettings | GatewaySettings], frozenset[str]]] = {
    NodeSettings: frozenset(
        {
            "log_level",
            *QUOTA_KEYS,
            "stored_mib_per_basin_max",
            "stored_mib_max",
            "token_stored_mib_max",
        }
    ),
    GatewaySettings: frozenset(
        {
            "log_level",
            *RATE_KEYS,
            "access_log",
            "slow_request_ms",
            "request_log_lines_per_second_max",
        }
    ),
}
"""All others are taken over at the next start."""

_Settings = TypeVar("_Settings", NodeSettings, GatewaySettings)


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting's values before and after."""

    key: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Reading(Generic[_Settings]):
    """What a new reading of the settings comes to."""

    settings: _Settings
    """Those in effect from now on: of the new ones what can be reloaded, and else the old."""
    changes: tuple[SettingChange, ...]
    waiting: tuple[str, ...]
    """Keys that differ from what is in effect and wait for the next start."""


def reading(now: _Settings, fresh: _Settings) -> Reading[_Settings]:
    """Compare what is in effect with what was read. Raises SettingsError where the old and the new
    ones do not go together before the next start."""
    kind = type(now)
    differing = [
        field.name
        for field in msgspec.structs.fields(kind)
        if getattr(now, field.name) != getattr(fresh, field.name)
    ]
    changes = tuple(
        SettingChange(key, getattr(now, key), getattr(fresh, key))
        for key in differing
        if key in RELOADABLE[kind]
    )
    settings = msgspec.structs.replace(now, **{one.key: one.after for one in changes})
    settings.check()
    return Reading(
        settings, changes, tuple(key for key in differing if key not in RELOADABLE[kind])
    )
