"""Typed configuration: every key, its default, and what it may be.

Read only by the command line (`settings_sources`); everything below takes plain values.
"""

from __future__ import annotations

import msgspec

from svc_cluster import settings_bounds as bounds
from svc_cluster.settings_checks import (
    PORT_MAX,
    check_address,
    check_client_certificates,
    check_host_names,
    check_joins,
    check_locations,
    check_log,
    check_node_ids,
    check_place,
    check_range,
    check_url,
    is_loopback,
)
from svc_cluster.settings_errors import SettingsError


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
    advertise_address: str | None = None
    """Where every other node and gateway reaches this one, whatever their `nodes` say. They take it
    over while they run, so that it may be changed. None: by their own `nodes`."""
    host: str | None = None
    """The machine that the node runs on: replicas of one basin are put on different ones where that
    can be. None: the name of this host."""
    zone: str = ""
    """The zone that the machine is in, the same for all that fail together."""
    join: bool = False
    """Wait, without a part in any decision, until the other nodes know this one as a member. For
    nodes that come to a cluster that is there; its first nodes do not set it."""
    join_token_file: str | None = None
    """Holds the join token with which an empty data directory comes to a cluster that is there;
    then `nodes` names some of its nodes, and this one. None: the node is one of the first."""
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
    payload_files: bool = True
    """Large appends are written once, into files of their own, from active version 3 on."""
    payload_dead_percent: int = 25
    """What such files may hold in vain, by what is needed of them; two files' worth beside that."""
    flush_seconds: float = 5.0
    replace_lost_nodes: bool = False
    """While the node leads the catalog, one that came up with an empty data directory is given its
    place without an operator. For where a volume belongs to its node."""
    balance_leaders: bool = True
    """While the node leads the catalog it sees to it that no node leads more than one group above
    another: it has leads handed over where they have been uneven for some 20 seconds."""
    rest_seconds: float = 5.0
    """A basin that nothing has happened to for so long rests; 0: none ever does."""
    scrub_mib_per_second: float = 8.0
    """What the node reads at most to compare itself with other replicas; 0: it takes no part."""
    scrub_interval_seconds: float = 3600.0
    """From the beginning of one such round of a group to that of the next."""
    backup_mib_per_second: float = 32.0
    """What the node hands out at most for backups, all callers together."""
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
    """The bounds of streams and of stored MiB of all basins together, and of those of such a token
    and all that were issued with it. Each basin reserves as much of it as it may have by its own
    quota, which is then needed."""
    stored_mib_per_basin_max: int | None = None
    """How much each basin may store, in metered MiB, the same on every node; from there on appends
    other than trims are refused. None: any amount."""
    locations: dict[str, bool] | None = None
    """The locations that basins can have, name to whether it is private, the same on every node;
    the first is the default until another is chosen. None: `local` alone."""
    audit_log: str | None = None
    """File that gets a line for each change of the root token that this node brings to the cluster.
    None: they go to the log."""
    traces_endpoint: str | None = None
    """URL of a collector that takes spans by OTLP over HTTP; needs the extra `otel`. None: nothing
    is told of single appends."""
    metrics_basins_max: int = 100
    """Basins that the page of the metrics names, those that came first; the others are shown
    together, as `other`."""
    log_level: str = "info"
    log_format: str = "json"

    @property
    def rpc_address(self) -> str:
        """Where to listen for peers and gateways."""
        return self.listen_address or self.nodes[str(self.node_id)]

    def check(self) -> None:
        """Raises SettingsError."""
        if not self.data_dir:
            raise SettingsError("data_dir is empty: name the directory of this node's data")
        check_node_ids(self.nodes)
        if str(self.node_id) not in self.nodes:
            raise SettingsError(
                f"node_id {self.node_id} is not among nodes ({', '.join(self.nodes)}): "
                "name this node in nodes, or correct node_id"
            )
        if self.replication_factor not in (1, 3, 5):
            raise SettingsError(f"replication_factor is {self.replication_factor}: use 1, 3 or 5")
        if self.join_token_file is not None:
            check_joins(self.nodes, waits=self.join)
        elif self.replication_factor > len(self.nodes):
            raise SettingsError(
                f"replication_factor is {self.replication_factor} with {len(self.nodes)} nodes: "
                "add nodes or lower it"
            )
        _check_peer_tls(self)
        if self.listen_address is not None:
            check_address("listen_address", self.listen_address)
        for key in ("host", "zone"):
            check_place(key, getattr(self, key))
        check_address("admin_address", self.admin_address)
        if self.health_rpc_address is not None:
            check_address("health_rpc_address", self.health_rpc_address)
        check_range("wal_segment_mib", self.wal_segment_mib, *bounds.WAL_SEGMENT_MIB)
        for key in ("wal_retain_mib", "log_retention_mib", "disk_reserve_mib"):
            check_range(key, getattr(self, key), 0, bounds.SIZE_MIB_MAX)
        check_range("memory_mib", self.memory_mib, *bounds.MEMORY_MIB)
        if self.scrub_mib_per_second:
            check_range("scrub_mib_per_second", self.scrub_mib_per_second, *bounds.MIB_PER_SECOND)
        check_range("backup_mib_per_second", self.backup_mib_per_second, *bounds.MIB_PER_SECOND)
        if self.rest_seconds:
            check_range("rest_seconds", self.rest_seconds, *bounds.REST_SECONDS)
        for key in ("log_retention_seconds", "flush_seconds", "scrub_interval_seconds"):
            check_range(key, getattr(self, key), bounds.SECONDS_MIN, bounds.SECONDS_MAX)
        check_range("payload_dead_percent", self.payload_dead_percent, *bounds.PAYLOAD_DEAD_PERCENT)
        check_range("store_read_threads", self.store_read_threads, *bounds.STORE_READ_THREADS)
        check_range(
            "store_reads_waiting_max", self.store_reads_waiting_max, *bounds.STORE_READS_WAITING
        )
        check_range("request_outcomes_max", self.request_outcomes_max, *bounds.REQUEST_OUTCOMES)
        check_range("metrics_basins_max", self.metrics_basins_max, *bounds.METRICS_BASINS)
        for key in bounds.QUOTA_KEYS:
            if getattr(self, key) is not None:
                check_range(key, getattr(self, key), *bounds.QUOTA)
        for key in ("stored_mib_per_basin_max", "stored_mib_max", "token_stored_mib_max"):
            if getattr(self, key) is not None:
                check_range(key, getattr(self, key), 1, bounds.SIZE_MIB_MAX)
        for whole, part in bounds.RESERVED_QUOTAS:
            reserved, each = getattr(self, whole), getattr(self, part)
            if reserved is not None and (each is None or each > reserved):
                raise SettingsError(
                    f"{whole} is {reserved} and {part} is {each}: each basin reserves {part} of "
                    f"{whole}, set it, and to no more than that"
                )
        check_locations(self.locations)
        check_url("traces_endpoint", self.traces_endpoint)
        check_log(self.log_level, self.log_format)


class GatewaySettings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One gateway process."""

    cluster_id: str
    nodes: dict[str, str]
    secret_file: str
    peer_tls_cert: str | None = None
    peer_tls_key: str | None = None
    peer_tls_ca: str | None = None
    """The same as for a node; the certificate is one for `gateway.svc-cluster.internal`."""
    host: str = "127.0.0.1"
    port: int = 8080
    processes: int = 1
    """Processes that serve the port together, each with its part of the bounds below; the limits of
    rates are shared as by gateways on several hosts."""
    authentication: bool | None = None
    """Whether requests need an access token. None: as soon as `host` is not on loopback."""
    tls_cert: str | None = None
    tls_key: str | None = None
    """PEM files of the certificate that clients see, both or none; without them the port speaks
    clear text. Renewed files are taken over without a restart."""
    tls_client_ca: str | None = None
    """PEM file of the CAs that certificates of clients may come from; renewed without a restart. A
    certificate's common name is the id of the access token that it stands for. None: clients are
    asked for none."""
    tls_client_certificate: str = "optional"
    """`optional`, or `required`: nobody is let in by an access token alone."""
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
    plain_requests: bool = True
    """Plain HTTP/1.1 requests are read and answered by the gateway's own code; off: by the HTTP
    library, like all others, with the same answers."""
    body_mib_in_flight: int = 128
    """Request bodies held at one time, as sent and decompressed; more waits, and then is refused
    for now."""
    memory_mib: int = 352
    """All that the gateway keeps in memory on behalf of clients, bodies included; what finds no
    room waits, and then is refused for now."""
    connections_max: int = 10_000
    """Client connections at one time; one more is closed at once."""
    requests_in_progress_max: int = 10_000
    """Requests at one time until their answer is made; one more gets 503 at once."""
    streams_open_max: int = 15_000
    """Sessions and followers that are open; one more gets 503 at once."""
    drain_seconds: float = 0.0
    """How long a gateway that is told to end goes on with requests of connections that are open,
    while new ones are refused; it ends as soon as there are none. 0: they end with what they are
    being answered."""
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
    """How many requests of one client address are answered 401 in a second; more get 429. Valid
    tokens are always let in. None: no limit."""
    audit_log: str | None = None
    """File that gets a line for each write to the control plane. None: they go to the log."""
    init_file: str | None = None
    """JSON file of the basins, streams and access tokens that the gateway sees to at its start.
    None: none are declared."""
    access_log: bool = False
    """The log gets a line for each request."""
    slow_request_ms: float | None = 1000.0
    """The log gets a line, with its stages, for a request whose answer takes longer to make, beside
    what its client wants to wait for. None: none does."""
    request_log_lines_per_second_max: int = 1000
    """Lines of both kinds; more are counted and left out."""
    traces_endpoint: str | None = None
    """URL of a collector that takes spans by OTLP over HTTP; needs the extra `otel`. None: no
    request is traced."""
    traces_ratio: float = 0.0
    """The share of the requests without a `traceparent` that are traced; with one they are where it
    says so."""
    traces_per_second_max: int = 100
    """Traced requests in a second; more are counted and not traced."""
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
            check_host_names(
                "basin_host_suffixes", self.basin_host_suffixes, bounds.BASIN_HOST_SUFFIXES_MAX
            )
        check_host_names("public_hosts", self.public_hosts or (), bounds.PUBLIC_HOSTS_MAX)
        check_range("processes", self.processes, *bounds.PROCESSES)
        for key, (least, most) in bounds.DIVIDED.items():
            check_range(key, getattr(self, key), least * self.processes, most)
        bodies = self.body_mib_in_flight // self.processes
        least_mib = (bodies + -(-bodies // 8) + bounds.MEMORY_REST_MIB_MIN) * self.processes
        if self.memory_mib < least_mib:
            beside = "" if self.processes == 1 else f" and processes {self.processes}"
            raise SettingsError(
                f"memory_mib is {self.memory_mib}: with body_mib_in_flight "
                f"{self.body_mib_in_flight}{beside} use at least {least_mib}"
            )
        check_range("drain_seconds", self.drain_seconds, *bounds.DRAIN_SECONDS)
        if self.slow_request_ms is not None:
            check_range("slow_request_ms", self.slow_request_ms, *bounds.SLOW_REQUEST_MS)
        check_url("traces_endpoint", self.traces_endpoint)
        check_range("traces_ratio", self.traces_ratio, *bounds.TRACES_RATIO)
        for key in bounds.RATE_KEYS:
            if getattr(self, key) is not None:
                check_range(key, getattr(self, key), *bounds.RATE)
        check_node_ids(self.nodes)
        _check_peer_tls(self)
        if (self.tls_cert is None) != (self.tls_key is None):
            raise SettingsError("tls_cert and tls_key belong together: set both, or neither")
        check_client_certificates(
            self.tls_client_certificate,
            self.tls_client_ca,
            under_tls=self.tls_cert is not None,
            asks_for_tokens=self.asks_for_tokens,
        )
        check_log(self.log_level, self.log_format)


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
        own = ("listen_address", "advertise_address")
        places += [(key, place) for key in own if (place := getattr(settings, key)) is not None]
        places.append(("admin_rpc_address", settings.admin_rpc_address))
    for key, address in places:
        check_address(key, address)
        if not given and not is_loopback(address):
            raise SettingsError(
                f"{key} has the address {address!r}, which is not on loopback: set peer_tls_cert, "
                "peer_tls_key and peer_tls_ca, or use 127.0.0.1"
            )
