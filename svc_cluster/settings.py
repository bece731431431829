"""Typed configuration: one file, environment on top, unknown keys refused.

Order: default < file < environment (`SVC_CLUSTER_` and the key in capitals). Read only by the
command line; everything below takes plain values.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import msgspec
import yaml

from svc_cluster.model.location import is_location_name

ENVIRONMENT_PREFIX: Final = "SVC_CLUSTER_"
EXIT_CREDENTIAL: Final = 65
EXIT_MISSING_FILE: Final = 66
EXIT_ADDRESS: Final = 69
EXIT_LIMIT: Final = 71
EXIT_DIRECTORY: Final = 73
EXIT_CONFIGURATION: Final = 78
"""Exit statuses of processes that are refused their start, of sysexits.h as far as it has one."""
REFUSED_START: Final = frozenset(
    {
        EXIT_CREDENTIAL,
        EXIT_MISSING_FILE,
        EXIT_ADDRESS,
        EXIT_LIMIT,
        EXIT_DIRECTORY,
        EXIT_CONFIGURATION,
    }
)

PORT_MAX: Final = 65_535
MEMORY_MIB = (64, 1024 * 1024)
"""Less would not hold the largest requests of a few callers."""

WAL_SEGMENT_MIB: Final = (4, 4095)
"""A log file must hold the largest entry (a little over 2 MiB) and stay below 4 GiB."""
SIZE_MIB_MAX: Final = 1 << 30
BODY_MIB_IN_FLIGHT: Final = (16, 1 << 20)
"""The largest request, 8 MiB of JSON, must find room in it both as sent and decompressed."""
BASIN_HOST_SUFFIXES_MAX: Final = 16
PUBLIC_HOSTS_MAX: Final = 64
LOCATIONS_MAX: Final = 1_000
SCRUB_MIB_PER_SECOND: Final = (0.1, 4096.0)
REQUEST_OUTCOMES: Final = (1, 100_000_000)
RATE: Final = (0.001, 1e12)
QUOTA: Final = (1, 100_000_000)
STORE_READ_THREADS: Final = (1, 64)
STORE_READS_WAITING: Final = (1, 65_536)
CONNECTIONS: Final = (16, 1_000_000)
HOST_NAME_BYTES_MAX: Final = 253
SECONDS_MIN: Final = 0.01
SECONDS_MAX: Final = 31_536_000.0
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("json", "text")


class SettingsError(Exception):
    """One sentence that names key, value and remedy."""

    exit_status: ClassVar[int] = EXIT_CONFIGURATION
    """Of the process that is refused its start; every kind of refusal has its own."""


class CredentialError(SettingsError):
    """A certificate, key, secret or token is there and cannot be used."""

    exit_status = EXIT_CREDENTIAL


class MissingFileError(SettingsError):
    """A file that the settings name is not there, or must not be read."""

    exit_status = EXIT_MISSING_FILE


class AddressError(SettingsError):
    """An address cannot be listened on."""

    exit_status = EXIT_ADDRESS


class LimitError(SettingsError):
    """The system allows the process too little."""

    exit_status = EXIT_LIMIT


class DirectoryError(SettingsError):
    """A directory cannot be used by this process."""

    exit_status = EXIT_DIRECTORY


class NodeSettings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One replica node. Addresses are `host:port`."""

    cluster_id: str
    node_id: int
    data_dir: str
    nodes: dict[str, str]
    """Every node of the cluster: id to rpc address; the same on every node."""
    secret_file: str
    listen_address: str | None = None
    """Where to listen for peers and gateways, such as `0.0.0.0:7000`. None: at this node's address
    in `nodes`, which is the one that others use."""
    peer_tls_cert: str | None = None
    peer_tls_key: str | None = None
    peer_tls_ca: str | None = None
    """PEM files for TLS between the processes of the cluster, all three or none: a certificate for
    `node-<id>.svc-cluster.internal`, its key, and the CA that all certificates of the cluster come
    from. Needed as soon as a process listens beyond loopback."""
    root_token_file: str | None = None
    """Holds the root access token for a cluster that has none yet. None: one is made by
    `svc-cluster admin root-token`."""
    join: bool = False
    """Wait, without a part in any decision, until the other nodes know this one as a member. For
    nodes that come to a cluster that is there; its first nodes do not set it."""
    admin_address: str = "127.0.0.1:0"
    admin_rpc_address: str = "127.0.0.1:0"
    """Where administration is served over gRPC, with reflection and health; port 0 takes a free
    one. It speaks TLS where `peer_tls_*` are set, and needs it beyond loopback."""
    health_rpc_address: str | None = None
    """Where `grpc.health.v1` alone is served, in clear, for probes that know no TLS. None: only
    beside administration."""
    replication_factor: int = 3
    """Replicas of each basin: 1, 3 or 5, and at most the number of nodes."""
    wal_segment_mib: int = 16
    """Length of one log file; an idle node keeps two of them."""
    wal_retain_mib: int = 256
    """Used log files beyond this make the node flush its store and free the oldest."""
    log_retention_mib: int = 64
    log_retention_seconds: float = 60.0
    """How much of a group's log is kept for slow replicas; behind that they get a snapshot."""
    disk_reserve_mib: int = 256
    """Free space below which appends are refused while reads go on."""
    memory_mib: int = 320
    """What the node keeps in memory on behalf of others, logs included; an append for which there
    is no room is refused. The process takes some 300 MiB beside it."""
    flush_seconds: float = 5.0
    scrub_mib_per_second: float = 8.0
    """What the node reads at most to compare what it holds with the other replicas; 0: it takes no
    part."""
    scrub_interval_seconds: float = 3600.0
    """From the beginning of one such round of a group to that of the next."""
    store_read_threads: int = 2
    """Reads of the state store that wait for the disk at one time."""
    store_reads_waiting_max: int = 256
    """Such reads that wait for their turn; more are refused for now."""
    request_outcomes_max: int = 1_000_000
    """Outcomes of writes with a request token that a basin, or the catalog, keeps at one time, each
    for 24 hours; beyond it such writes are refused for the time being."""
    basins_max: int | None = 100
    streams_per_basin_max: int | None = None
    access_tokens_max: int | None = None
    """How many of each there may be, the same on every node; one more is refused. What is being
    deleted counts until it is gone. None: any number, of access tokens 20,000."""
    token_basins_max: int | None = None
    token_access_tokens_max: int | None = None
    """The same for each access token of the root's (or nobody's) and all that were issued with it
    together."""
    streams_max: int | None = None
    stored_mib_max: int | None = None
    token_streams_max: int | None = None
    token_stored_mib_max: int | None = None
    """Of all basins together, and of those of such a token and all that were issued with it. Each
    basin reserves as much of it as it may have by its own quota, which is then needed."""
    stored_mib_per_basin_max: int | None = None
    """How much each basin may store, in metered MiB, the same on every node; from there on appends
    other than trims are refused. None: any amount."""
    locations: dict[str, bool] | None = None
    """The locations that basins can have, name to whether it is private, the same on every node;
    the first is the default until another is chosen. None: `local` alone."""
    audit_log: str | None = None
    """File that gets a line for each change of the root token that this node brings to the cluster.
    None: they go to the log."""
    log_level: str = "info"
    log_format: str = "json"

    @property
    def rpc_address(self) -> str:
        """Where to listen for peers and gateways."""
        return self.listen_address or self.nodes[str(self.node_id)]

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
        _check_peer_tls(self)
        if self.listen_address is not None:
            check_address("listen_address", self.listen_address)
        check_address("admin_address", self.admin_address)
        if self.health_rpc_address is not None:
            check_address("health_rpc_address", self.health_rpc_address)
        _check_range("wal_segment_mib", self.wal_segment_mib, *WAL_SEGMENT_MIB)
        for key in ("wal_retain_mib", "log_retention_mib", "disk_reserve_mib"):
            _check_range(key, getattr(self, key), 0, SIZE_MIB_MAX)
        _check_range("memory_mib", self.memory_mib, *MEMORY_MIB)
        if self.scrub_mib_per_second:
            _check_range("scrub_mib_per_second", self.scrub_mib_per_second, *SCRUB_MIB_PER_SECOND)
        for key in ("log_retention_seconds", "flush_seconds", "scrub_interval_seconds"):
            _check_range(key, getattr(self, key), SECONDS_MIN, SECONDS_MAX)
        _check_range("store_read_threads", self.store_read_threads, *STORE_READ_THREADS)
        _check_range("store_reads_waiting_max", self.store_reads_waiting_max, *STORE_READS_WAITING)
        _check_range("request_outcomes_max", self.request_outcomes_max, *REQUEST_OUTCOMES)
        for key in QUOTA_KEYS:
            if getattr(self, key) is not None:
                _check_range(key, getattr(self, key), *QUOTA)
        for key in ("stored_mib_per_basin_max", "stored_mib_max", "token_stored_mib_max"):
            if getattr(self, key) is not None:
                _check_range(key, getattr(self, key), 1, SIZE_MIB_MAX)
        for whole, part in RESERVED_QUOTAS:
            reserved, each = getattr(self, whole), getattr(self, part)
            if reserved is not None and (each is None or each > reserved):
                raise SettingsError(
                    f"{whole} is {reserved} and {part} is {each}: each basin reserves {part} of "
                    f"{whole}, set it, and to no more than that"
                )
        _check_locations(self.locations)
        check_log(self.log_level, self.log_format)


class GatewaySettings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One gateway process."""

    cluster_id: str
    nodes: dict[str, str]
    secret_file: str
    peer_tls_cert: str | None = None
    peer_tls_key: str | None = None
    peer_tls_ca: str | None = None
    """As for a node; the certificate is one for `gateway.svc-cluster.internal`."""
    host: str = "127.0.0.1"
    port: int = 8080
    authentication: bool | None = None
    """Whether requests need an access token. None: as soon as `host` is not on loopback."""
    tls_cert: str | None = None
    tls_key: str | None = None
    """PEM files of the certificate that clients see, both or none; without them the port speaks
    clear text. Renewed files are taken over without a restart."""
    basin_host_suffixes: list[str] | None = None
    """What follows a basin's name in a host name that selects it. None: `b` and any domain; an
    empty list: no host name selects a basin."""
    public_hosts: list[str] | None = None
    """Host names that requests may be sent to where nobody is asked for a token, beside literal
    addresses and names of loopback; what names another host is refused."""
    cors: bool = True
    """Pages may use the interface from browsers: where nobody is asked for a token those of
    loopback, else those of any origin."""
    compression: bool = True
    """Answers are compressed for clients that accept it; requests always may be."""
    body_mib_in_flight: int = 128
    """Request bodies held at one time, as sent and decompressed; more waits, and then is refused
    for now."""
    connections_max: int = 10_000
    """Client connections at one time; one more is closed at once."""
    account_requests_per_second: float | None = None
    account_append_mib_per_second: float | None = None
    account_read_mib_per_second: float | None = None
    """Limits of all clients together, in metered bytes; they are shared by all gateways, and the
    same on each. None: no limit."""
    token_requests_per_second: float | None = None
    token_append_mib_per_second: float | None = None
    token_read_mib_per_second: float | None = None
    """The same for each access token of the root's and all that were issued with it together."""
    failed_authentications_per_second: float | None = 20.0
    """Of one client address that are answered 401; more get 429. Valid tokens are always let in.
    None: no limit."""
    audit_log: str | None = None
    """File that gets a line for each write to the control plane. None: they go to the log."""
    log_level: str = "info"
    log_format: str = "json"

    @property
    def asks_for_tokens(self) -> bool:
        if self.authentication is not None:
            return self.authentication
        return not is_loopback(f"{self.host}:0")

    def check(self) -> None:
        """Raises SettingsError."""
        if not 0 <= self.port <= PORT_MAX:
            raise SettingsError(f"port is {self.port}: use 1 to 65535, or 0 for a free one")
        if self.basin_host_suffixes is not None:
            _check_host_names(
                "basin_host_suffixes", self.basin_host_suffixes, BASIN_HOST_SUFFIXES_MAX
            )
        _check_host_names("public_hosts", self.public_hosts or (), PUBLIC_HOSTS_MAX)
        _check_range("body_mib_in_flight", self.body_mib_in_flight, *BODY_MIB_IN_FLIGHT)
        _check_range("connections_max", self.connections_max, *CONNECTIONS)
        for key in RATE_KEYS:
            if getattr(self, key) is not None:
                _check_range(key, getattr(self, key), *RATE)
        _check_node_ids(self.nodes)
        _check_peer_tls(self)
        if (self.tls_cert is None) != (self.tls_key is None):
            raise SettingsError("tls_cert and tls_key belong together: set both, or neither")
        check_log(self.log_level, self.log_format)


QUOTA_KEYS: Final = (
    "basins_max",
    "streams_per_basin_max",
    "access_tokens_max",
    "token_basins_max",
    "token_access_tokens_max",
    "streams_max",
    "token_streams_max",
)

RESERVED_QUOTAS: Final = (
    ("streams_max", "streams_per_basin_max"),
    ("token_streams_max", "streams_per_basin_max"),
    ("stored_mib_max", "stored_mib_per_basin_max"),
    ("token_stored_mib_max", "stored_mib_per_basin_max"),
)

RATE_KEYS: Final = (
    "account_requests_per_second",
    "account_append_mib_per_second",
    "account_read_mib_per_second",
    "token_requests_per_second",
    "token_append_mib_per_second",
    "token_read_mib_per_second",
    "failed_authentications_per_second",
)


def _check_peer_tls(settings: NodeSettings | GatewaySettings) -> None:
    """All three files or none; none only while every address is on loopback."""
    given = [
        key
        for key in ("peer_tls_cert", "peer_tls_key", "peer_tls_ca")
        if getattr(settings, key) is not None
    ]
    if given and len(given) < 3:
        raise SettingsError(
            f"{given[0]} is set alone: set peer_tls_cert, peer_tls_key and peer_tls_ca together"
        )
    places = [("nodes", address) for address in settings.nodes.values()]
    if isinstance(settings, NodeSettings):
        if settings.listen_address is not None:
            places.append(("listen_address", settings.listen_address))
        places.append(("admin_rpc_address", settings.admin_rpc_address))
    for key, address in places:
        check_address(key, address)
        if not given and not is_loopback(address):
            raise SettingsError(
                f"{key} has the address {address!r}, which is not on loopback: set peer_tls_cert, "
                "peer_tls_key and peer_tls_ca, or use 127.0.0.1"
            )


def _check_locations(locations: Mapping[str, bool] | None) -> None:
    if locations is None:
        return
    if not 0 < len(locations) <= LOCATIONS_MAX:
        raise SettingsError(
            f"locations has {len(locations)} names: list 1 to {LOCATIONS_MAX}, or leave it out"
        )
    for name in locations:
        if not is_location_name(name):
            raise SettingsError(
                f"locations has {name!r}: use 1 to 64 letters, digits, dots, colons and hyphens"
            )


def _check_node_ids(nodes: Mapping[str, str]) -> None:
    """Ids are the keys of `nodes`: decimal numbers above 0, each written one way only."""
    if not nodes:
        raise SettingsError("nodes is empty: list every node of the cluster, id to host:port")
    for node in nodes:
        if not (node.isascii() and node.isdigit() and node[0] != "0" and len(node) <= 9):
            raise SettingsError(f"nodes has the id {node!r}: use a number from 1 to 999999999")
    _check_addresses(nodes)


def _check_addresses(nodes: Mapping[str, str]) -> None:
    """No two nodes at one address."""
    owners: dict[str, str] = {}
    for node, address in nodes.items():
        other = owners.setdefault(address, node)
        if other != node and not address.endswith(":0"):
            raise SettingsError(
                f"nodes has the address {address!r} for the nodes {other} and {node}: give each "
                "its own"
            )


def _check_host_names(key: str, hosts: Sequence[str], at_most: int) -> None:
    if len(hosts) > at_most:
        raise SettingsError(f"{key} has {len(hosts)} names: list at most {at_most}")
    for host in hosts:
        labels = host.split(".")
        if len(host) > HOST_NAME_BYTES_MAX or not all(_HOST_LABEL.fullmatch(x) for x in labels):
            raise SettingsError(
                f"{key} has {host!r}: write a host name alone, such as b.example.com, without "
                "scheme, port, or a dot at either end"
            )


_HOST_LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


def _check_range(key: str, value: float, minimum: float, maximum: float) -> None:
    if not minimum <= value <= maximum:
        raise SettingsError(f"{key} is {value}: use {minimum} to {maximum}")


def check_log(level: str, form: str) -> None:
    """Raises SettingsError."""
    if level.lower() not in LOG_LEVELS:
        raise SettingsError(f"log_level is {level!r}: use one of {', '.join(LOG_LEVELS)}")
    if form not in LOG_FORMATS:
        raise SettingsError(f"log_format is {form!r}: use one of {', '.join(LOG_FORMATS)}")


def check_address(key: str, address: str) -> None:
    """Raises SettingsError unless it is `host:port`."""
    host, _, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not (
        (_HOST_LABEL_OR_IP.fullmatch(bare) and len(bare) <= HOST_NAME_BYTES_MAX)
        and port.isascii()
        and port.isdecimal()
        and len(port) <= 5
        and int(port) <= PORT_MAX
    ):
        raise SettingsError(
            f"{key} has the address {address!r}: write it as host:port, with a port of 0 to "
            f"{PORT_MAX}"
        )


_HOST_LABEL_OR_IP: Final = re.compile(r"[A-Za-z0-9._:-]+")


def is_loopback(address: str) -> bool:
    """Whether `host:port`, or a host alone in front of a colon, is reached from this machine only.
    Names other than `localhost` are not: what they lead to may change."""
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_Settings = TypeVar("_Settings", NodeSettings, GatewaySettings)


def load(kind: type[_Settings], path: Path | None, environment: Mapping[str, str]) -> _Settings:
    """Read, override from the environment, check; without a file everything comes from the
    environment. Raises SettingsError."""
    if path is None:
        return _with_environment(kind, {}, environment, "the environment")
    try:
        raw = _yaml(path.read_text(), f"the file {path}")
    except OSError as cause:
        raise MissingFileError(
            f"the file {path} cannot be read ({cause.strerror}): name one that this user may read "
            "with --config"
        ) from cause
    except UnicodeDecodeError as cause:
        raise SettingsError(f"the file {path} is not text in UTF-8") from cause
    if not isinstance(raw, dict):
        raise SettingsError(f"the file {path} must hold keys and values")
    return _with_environment(kind, dict(raw), environment, f"the file {path}")


def with_environment(settings: _Settings, environment: Mapping[str, str]) -> _Settings:
    """For settings that come from no file: the same override, the same checks. Raises
    SettingsError."""
    values = msgspec.to_builtins(settings)
    return _with_environment(type(settings), values, environment, "the command line")


def _with_environment(
    kind: type[_Settings], values: dict[str, Any], environment: Mapping[str, str], source: str
) -> _Settings:
    known = {field.name for field in msgspec.structs.fields(kind)}
    for name, text in environment.items():
        key = name.removeprefix(ENVIRONMENT_PREFIX).lower()
        if name.startswith(ENVIRONMENT_PREFIX) and key in known:
            values[key] = _yaml(text, f"the environment variable {name}")
            source = f"{source} and {name}"
    try:
        settings = msgspec.convert(values, kind)
    except msgspec.ValidationError as cause:
        raise SettingsError(f"{source}: {_explanation(str(cause), values)}") from cause
    settings.check()
    return settings


def _explanation(fault: str, values: Mapping[str, Any]) -> str:
    """The decoder's words with key, value and remedy in them."""
    page = "docs/configuration.md has every key"
    if found := _UNKNOWN_KEY.fullmatch(fault):
        value = str(values.get(found[1]))[:VALUE_CHARACTERS_MAX]
        return f"there is no key {found[1]} (here {value!r}): remove it, or correct it; {page}"
    if found := _MISSING_KEY.fullmatch(fault):
        return f"{found[1]} is missing: set it; {page}"
    if found := _WRONG_VALUE.fullmatch(fault):
        value = repr(values.get(found[2]))[:VALUE_CHARACTERS_MAX]
        return f"{found[2]} is {value}: {found[1][0].lower()}{found[1][1:]}; {page}"
    return f"{fault}; {page}"


VALUE_CHARACTERS_MAX: Final = 80
_UNKNOWN_KEY: Final = re.compile(r"Object contains unknown field `(\w+)`")
_MISSING_KEY: Final = re.compile(r"Object missing required field `(\w+)`")
_WRONG_VALUE: Final = re.compile(r"(.+) - at `\$\.(\w+).*`")


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
        raise MissingFileError(
            f"secret_file {path} cannot be read ({cause.strerror}): put the cluster's secret "
            "there, readable for this user"
        ) from cause
    if len(secret) < 32:
        raise CredentialError(
            f"secret_file {path} holds {len(secret)} bytes: put at least 32 random bytes there"
        )
    return secret
