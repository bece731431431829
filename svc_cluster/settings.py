"""Typed configuration: one file, environment on top, unknown keys refused.

Order: default < file < environment (`SVC_CLUSTER_` and the key in capitals). Read only by the
command line; everything below takes plain values.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

ENVIRONMENT_PREFIX: Final = "SVC_CLUSTER_"
EXIT_CONFIGURATION: Final = 78
"""Process exit code for a configuration that cannot be used."""

PORT_MAX: Final = 65_535
WAL_SEGMENT_MIB: Final = (4, 4095)
"""A log file must hold the largest entry (a little over 2 MiB) and stay below 4 GiB."""
SIZE_MIB_MAX: Final = 1 << 30
SECONDS_MIN: Final = 0.01
SECONDS_MAX: Final = 31_536_000.0
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("json", "text")


class SettingsError(Exception):
    """One sentence that names key, value and remedy."""


class NodeSettings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One replica node. Addresses are `host:port`."""

    cluster_id: str
    node_id: int
    data_dir: str
    nodes: dict[str, str]
    """Every node of the cluster: id to rpc address; the same on every node."""
    secret_file: str
    admin_address: str = "127.0.0.1:0"
    replication_factor: int = 3
    """Replicas of each basin: 1, 3 or 5, and at most the number of nodes."""
    wal_segment_mib: int = 64
    """Length of one log file."""
    wal_retain_mib: int = 256
    """Used log files beyond this make the node flush its store and free the oldest."""
    log_retention_mib: int = 64
    log_retention_seconds: float = 60.0
    """How much of a group's log is kept for slow replicas; behind that they get a snapshot."""
    disk_reserve_mib: int = 256
    """Free space below which appends are refused while reads go on."""
    flush_seconds: float = 5.0
    log_level: str = "info"
    log_format: str = "json"

    @property
    def rpc_address(self) -> str:
        return self.nodes[str(self.node_id)]

    def check(self) -> None:
        """Raises SettingsError."""
        _check_node_ids(self.nodes)
        if str(self.node_id) not in self.nodes:
            raise SettingsError(
                f"node_id {self.node_id} is not among nodes ({', '.join(self.nodes)}): "
                "name this node in nodes, or correct node_id"
            )
        if self.replication_factor not in (1, 3, 5):
            raise SettingsError(f"replication_factor is {self.replication_factor}: use 1, 3 or 5")
        if self.replication_factor > len(self.nodes):
            raise SettingsError(
                f"replication_factor is {self.replication_factor} with {len(self.nodes)} nodes: "
                "add nodes or lower it"
            )
        check_loopback("nodes", self.rpc_address)
        check_loopback("admin_address", self.admin_address)
        _check_range("wal_segment_mib", self.wal_segment_mib, *WAL_SEGMENT_MIB)
        for key in ("wal_retain_mib", "log_retention_mib", "disk_reserve_mib"):
            _check_range(key, getattr(self, key), 0, SIZE_MIB_MAX)
        for key in ("log_retention_seconds", "flush_seconds"):
            _check_range(key, getattr(self, key), SECONDS_MIN, SECONDS_MAX)
        check_log(self.log_level, self.log_format)


class GatewaySettings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One gateway process."""

    cluster_id: str
    nodes: dict[str, str]
    secret_file: str
    host: str = "127.0.0.1"
    port: int = 8080
    log_level: str = "info"
    log_format: str = "json"

    def check(self) -> None:
        """Raises SettingsError."""
        if not 0 <= self.port <= PORT_MAX:
            raise SettingsError(f"port is {self.port}: use 1 to 65535, or 0 for a free one")
        _check_node_ids(self.nodes)
        for address in self.nodes.values():
            check_loopback("nodes", address)
        check_log(self.log_level, self.log_format)


def _check_node_ids(nodes: Mapping[str, str]) -> None:
    """Ids are the keys of `nodes`: decimal numbers above 0, each written one way only."""
    if not nodes:
        raise SettingsError("nodes is empty: list every node of the cluster, id to host:port")
    for node in nodes:
        if not (node.isascii() and node.isdigit() and node[0] != "0" and len(node) <= 9):
            raise SettingsError(f"nodes has the id {node!r}: use a number from 1 to 999999999")


def _check_range(key: str, value: float, minimum: float, maximum: float) -> None:
    if not minimum <= value <= maximum:
        raise SettingsError(f"{key} is {value}: use {minimum} to {maximum}")


def check_log(level: str, form: str) -> None:
    """Raises SettingsError."""
    if level.lower() not in LOG_LEVELS:
        raise SettingsError(f"log_level is {level!r}: use one of {', '.join(LOG_LEVELS)}")
    if form not in LOG_FORMATS:
        raise SettingsError(f"log_format is {form!r}: use one of {', '.join(LOG_FORMATS)}")


def check_loopback(key: str, address: str) -> None:
    """Without TLS a node talks on loopback only. Raises SettingsError."""
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= PORT_MAX):
        raise SettingsError(
            f"{key} has the address {address!r}: write it as host:port, with a port of 0 to "
            f"{PORT_MAX}"
        )
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise SettingsError(
            f"{key} has the address {address!r}, which is not on loopback: TLS between nodes does "
            "not exist yet, so use 127.0.0.1"
        )


_Settings = TypeVar("_Settings", NodeSettings, GatewaySettings)


def load(kind: type[_Settings], path: Path, environment: Mapping[str, str]) -> _Settings:
    """Read, override from the environment, check. Raises SettingsError."""
    try:
        raw = _yaml(path.read_text(), f"the file {path}")
    except OSError as cause:
        raise SettingsError(f"the file {path} cannot be read: {cause.strerror}") from cause
    except UnicodeDecodeError as cause:
        raise SettingsError(f"the file {path} is not text in UTF-8") from cause
    if not isinstance(raw, dict):
        raise SettingsError(f"the file {path} must hold keys and values")
    values: dict[str, Any] = dict(raw)
    known = {field.name for field in msgspec.structs.fields(kind)}
    for name, value in environment.items():
        key = name.removeprefix(ENVIRONMENT_PREFIX).lower()
        if name.startswith(ENVIRONMENT_PREFIX) and key in known:
            values[key] = _yaml(value, f"the environment variable {name}")
    try:
        settings = msgspec.convert(values, kind)
    except msgspec.ValidationError as cause:
        raise SettingsError(f"the file {path}: {cause}") from cause
    settings.check()
    return settings


def _yaml(text: str, where: str) -> Any:
    """Raises SettingsError, in one line as everything that is said to the person who starts us."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as cause:
        raise SettingsError(f"{where} is not YAML: {' '.join(str(cause).split())}") from cause


def read_secret(path: str) -> bytes:
    """The cluster secret: at least 32 bytes, from a file. Raises SettingsError."""
    try:
        secret = Path(path).read_bytes().strip()
    except OSError as cause:
        raise SettingsError(f"secret_file {path} cannot be read: {cause.strerror}") from cause
    if len(secret) < 32:
        raise SettingsError(
            f"secret_file {path} holds {len(secret)} bytes: put at least 32 random bytes there"
        )
    return secret
