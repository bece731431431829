"""The settings as a JSON Schema, for editors and for whoever checks files before they are used.

Types, defaults and the refusal of unknown keys come from the classes themselves. Ranges are written
down here a second time; `tests/unit/test_settings_schema.py` holds them against `check`. What a key
means stands in settings_meanings.toml, for the page of the configuration as well.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import msgspec

from svc_cluster import settings_bounds as bounds
from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_checks import CLIENT_CERTIFICATES, LOG_FORMATS, PORT_MAX

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_SIZE_MIB: Final = (0, bounds.SIZE_MIB_MAX)
_STORED_MIB: Final = (1, bounds.SIZE_MIB_MAX)
_SECONDS: Final = (bounds.SECONDS_MIN, bounds.SECONDS_MAX)
RANGES: Final[dict[str, tuple[float, float]]] = {
    "port": (0, PORT_MAX),
    "processes": bounds.PROCESSES,
    "memory_mib": bounds.MEMORY_MIB,
    "body_mib_in_flight": bounds.BODY_MIB_IN_FLIGHT,
    "connections_max": bounds.CONNECTIONS,
    "requests_in_progress_max": bounds.REQUESTS_IN_PROGRESS,
    "streams_open_max": bounds.STREAMS_OPEN,
    "drain_seconds": bounds.DRAIN_SECONDS,
    "metrics_basins_max": bounds.METRICS_BASINS,
    "slow_request_ms": bounds.SLOW_REQUEST_MS,
    "request_log_lines_per_second_max": bounds.REQUEST_LOG_LINES,
    "traces_ratio": bounds.TRACES_RATIO,
    "traces_per_second_max": bounds.TRACES,
    "wal_segment_mib": bounds.WAL_SEGMENT_MIB,
    "wal_retain_mib": _SIZE_MIB,
    "log_retention_mib": _SIZE_MIB,
    "disk_reserve_mib": _SIZE_MIB,
    "log_retention_seconds": _SECONDS,
    "flush_seconds": _SECONDS,
    "rest_seconds": (0, bounds.REST_SECONDS[1]),
    "scrub_interval_seconds": _SECONDS,
    "scrub_mib_per_second": (0, bounds.MIB_PER_SECOND[1]),
    "backup_mib_per_second": bounds.MIB_PER_SECOND,
    "payload_dead_percent": bounds.PAYLOAD_DEAD_PERCENT,
    "store_read_threads": bounds.STORE_READ_THREADS,
    "store_reads_waiting_max": bounds.STORE_READS_WAITING,
    "request_outcomes_max": bounds.REQUEST_OUTCOMES,
    **dict.fromkeys(bounds.QUOTA_KEYS, bounds.QUOTA),
    "stored_mib_per_basin_max": _STORED_MIB,
    "stored_mib_max": _STORED_MIB,
    "token_stored_mib_max": _STORED_MIB,
    **dict.fromkeys(bounds.RATE_KEYS, bounds.RATE),
}
"""The least and the most that each key may have, where that does not depend on other keys."""
CHOICES: Final[dict[str, tuple[int | str, ...]]] = {
    "replication_factor": (1, 3, 5),
    "log_format": LOG_FORMATS,
    "tls_client_certificate": CLIENT_CERTIFICATES,
}


_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def meanings(kind: type[NodeSettings | GatewaySettings]) -> dict[str, str]:
    """Return what each key of a process's file means, as Markdown with links relative to docs/."""
    text = Path(__file__).with_name("settings_meanings.toml").read_text("utf-8")
    found: dict[str, str] = tomllib.loads(text)["node" if kind is NodeSettings else "gateway"]
    return found


def schema(kind: type[NodeSettings | GatewaySettings]) -> dict[str, Any]:
    """Return the JSON Schema of a process's configuration file. What it takes may still be refused
    by `check`: it does not know of keys that belong together, nor of files."""
    found = msgspec.json.schema(kind)
    body: dict[str, Any] = found["$defs"].pop(kind.__name__)
    meant = meanings(kind)
    for key, rule in body["properties"].items():
        rule["description"] = _LINK.sub(r"\1", meant[key])
        if key in RANGES:
            _bound(rule, *RANGES[key])
        if key in CHOICES:
            rule["enum"] = list(CHOICES[key])
    return {"$schema": DIALECT, **body}


def _bound(rule: dict[str, Any], least: float, most: float) -> None:
    """To the number's own branch where `null` may stand for it."""
    for branch in rule.get("anyOf", [rule]):
        if branch.get("type") in ("integer", "number"):
            branch |= {"minimum": least, "maximum": most}
