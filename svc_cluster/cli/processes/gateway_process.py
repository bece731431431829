"""A gateway as a process: sessions with every node, the HTTP port, no state."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Final

from svc_cluster.base.audit_trail import AuditTrail
from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.base.metrics import Metrics
from svc_cluster.base.tasks import Tasks
from svc_cluster.cli.processes.audit_file import audit_sink
from svc_cluster.cli.processes.boot import announce, gateway_ports, unlistenable
from svc_cluster.cli.processes.gateway_links import GatewayLinks
from svc_cluster.cli.processes.gateway_place import BEAT_SECONDS, ProcessPlace
from svc_cluster.cli.processes.gateway_reload import Reloadable, is_limited, rates, told
from svc_cluster.cli.processes.gateway_siblings import GatewaySiblings
from svc_cluster.cli.processes.init_file import read_init_file
from svc_cluster.cli.processes.loop_faults import hear_loop_faults
from svc_cluster.cli.processes.loop_turns import LoopTurns
from svc_cluster.cli.processes.own_certificate import show_expiry
from svc_cluster.cli.processes.process import say_build, say_serving
from svc_cluster.cli.processes.reload import Reloader
from svc_cluster.cli.processes.request_log_writer import RequestLogWriter
from svc_cluster.cli.processes.span_export import SpanExport, span_export
from svc_cluster.cli.processes.tls_files import (
    PublicCertificate,
    public_certificate,
)
from svc_cluster.gateway.access.authentication import AccessControl
from svc_cluster.gateway.access.lease import LeaseKeeper
from svc_cluster.gateway.access.token_directory import TokenDirectory
from svc_cluster.gateway.api.declarer import Declarer, KnownTokens
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.cluster.node_client import NodeClient
from svc_cluster.gateway.cluster.node_watch import NodeLinks, NodeWatch
from svc_cluster.gateway.cluster.replica_client import ReplicaClient
from svc_cluster.gateway.cluster.token_client import TokenClient
from svc_cluster.gateway.cluster.usage_client import UsageClient
from svc_cluster.gateway.endpoints.reference import reference_of
from svc_cluster.gateway.limits.body_budget import BodyPatience
from svc_cluster.gateway.limits.rate_limiter import RateLimiter
from svc_cluster.gateway.request.request_log import RequestLog
from svc_cluster.gateway.request.request_tracing import RequestTracing
from svc_cluster.http.connection import HEADER_SECONDS
from svc_cluster.http.intake import UNREAD_SHARE
from svc_cluster.http.server import Server, serve
from svc_cluster.link.session import NodeSession
from svc_cluster.model.declarations import Declarations
from svc_cluster.settings import GatewaySettings

log = get_logger("gateway")

MIB: Final = 1 << 20
GRACE_SECONDS: Final = 5.0
"""Requests under way when the gateway ends may take this long."""
FIRST_LEASE_SECONDS: Final = 5.0
"""A gateway that starts listens at the latest after this, whether it can check access tokens or
not. Until then its address refuses connections, which balancers and clients try elsewhere."""


async def start_gateway(
    settings: GatewaySettings,
    sessions: dict[NodeId, NodeSession],
    *,
    links: NodeLinks | None = None,
    header_seconds: float = HEADER_SECONDS,
    body_patience: BodyPatience = BodyPatience(),
    siblings: GatewaySiblings | None = None,
) -> RunningGateway:
    """Listen, beside `siblings`. With `links`, which make the sessions, nodes come and go. A client
    has `header_seconds` to send a request's headers, and its body is borne with as `body_patience`
    says. Raises SettingsError for a port, a certificate or an init file that cannot be used."""
    # longer than a turn of the loop may be, and kept for all requests
    await asyncio.to_thread(reference_of, version("svc-cluster"))
    declared = await _declared(settings)
    certificate = public_certificate(settings)
    sink = audit_sink(settings.audit_log)
    rng, clock = random.SystemRandom(), SystemClock()
    metrics = _metrics(settings)
    spans = _spans(settings, metrics)
    client = _client(sessions, clock, rng, metrics)
    audit = AuditTrail(sink, metrics.audit_failures.inc)
    tokens = TokenClient(client.directory, clock)
    access = known = None
    token_directory = TokenDirectory(clock)
    keeper = LeaseKeeper(tokens, token_directory, clock, secrets.token_hex(16))
    if settings.asks_for_tokens or is_limited(settings) or declared.tokens:
        keeper.start()
        known = KnownTokens(token_directory, keeper)
        if settings.asks_for_tokens:
            access = _access(settings, token_directory, keeper, clock, metrics)
    limiter = _limiter(settings, keeper, clock, rng, metrics)
    declarer = Declarer(
        declared, client, clock=clock, rng=rng, trail=audit, token_backend=tokens, known=known
    )
    leave = Leave(settings.drain_seconds)
    app = GatewayApp(
        client,
        clock=clock,
        rng=rng,
        metrics=metrics,
        version=version("svc-cluster"),
        readiness=lambda: {
            "node_reachable": client.usable_nodes > 0,
            "takes_connections": not leave.begun.is_set(),
            **({} if access is None else {"access_tokens_fresh": access.is_ready}),
            **({} if settings.init_file is None else {"declarations": declarer.is_settled}),
        },
        nodes=NodeClient(client.directory, clock),
        tokens=tokens,
        access=access,
        audit=audit,
        limiter=limiter if is_limited(settings) else None,
        cors=settings.cors,
        compression=settings.compression,
        basin_host_suffixes=settings.basin_host_suffixes,
        public_hosts=[*(settings.public_hosts or ()), settings.host],
        memory_bytes_max=settings.memory_mib * MIB,
        body_bytes_in_flight_max=settings.body_mib_in_flight * MIB,
        usage=UsageClient(client.directory, clock),
        requests_in_progress_max=settings.requests_in_progress_max,
        streams_open_max=settings.streams_open_max,
        request_log=(request_log := _request_log(settings, clock, metrics, spans)),
    )
    app.memory.bodies.patience = body_patience
    _count_memory(app, request_log, sessions)
    app.start()
    if access is not None:
        await _first_lease(keeper)
    server = await _serve(settings, app, certificate, metrics, header_seconds, siblings)
    tasks = _watches(metrics, certificate, server)
    _watch_nodes(client, links, settings.nodes, tasks)
    if settings.init_file is not None:
        tasks.spawn(declarer.run(), "bring declarations to the cluster")
    announce("gateway", settings, gateway_ports(settings, server.port))
    reloadable = Reloadable(app, access, keeper, limiter, request_log)
    return RunningGateway(app, server, client, tasks, audit, leave, reloadable, spans)


async def _serve(
    settings: GatewaySettings,
    app: GatewayApp,
    certificate: PublicCertificate | None,
    metrics: Metrics,
    header_seconds: float,
    siblings: GatewaySiblings | None,
) -> Server:
    """Listen on the settings' port, beside `siblings`. Raises SettingsError where that cannot
    be."""
    if siblings is not None:
        app.join(siblings)
        await siblings.start(app.own_page)
    try:
        return await serve(
            app,
            settings.host,
            settings.port,
            reuse_port=siblings is not None,
            tls=None if certificate is None else certificate.context,
            header_seconds=header_seconds,
            connections_max=settings.connections_max,
            unread_bytes_max=(settings.body_mib_in_flight << 20) // UNREAD_SHARE,
            unread_gauge=metrics.http_unread_body_bytes,
            plain=settings.plain_requests,
        )
    except OSError as cause:
        raise unlistenable(f"port {settings.port} on {settings.host}", cause) from cause


def _watches(metrics: Metrics, certificate: PublicCertificate | None, server: Server) -> Tasks:
    """What the process sees of itself."""
    tasks = Tasks()
    hear_loop_faults(metrics)
    tasks.spawn(LoopTurns(metrics).run(), "watch the event loop")
    if certificate is not None:
        tasks.spawn(certificate.watch(server.distrust), "watch the public certificate")
    return tasks


def _watch_nodes(
    client: ReplicaClient, links: NodeLinks | None, nodes: Mapping[str, str], tasks: Tasks
) -> None:
    """From now on nodes are met that come, where they can be."""
    if links is not None:
        own = {NodeId(int(node)): address for node, address in nodes.items()}
        watch = NodeWatch(client.directory, links, own)
        tasks.spawn(watch.run(), "watch which nodes there are")


async def _declared(settings: GatewaySettings) -> Declarations:
    """Read in a thread: a long file takes its time. Raises SettingsError."""
    if settings.init_file is None:
        return Declarations()
    return await asyncio.to_thread(read_init_file, Path(settings.init_file))


def _count_memory(
    app: GatewayApp, request_log: RequestLog, sessions: dict[NodeId, NodeSession]
) -> None:
    """What is held on behalf of clients where the application does not see it."""
    app.memory.add("request_log", lambda: request_log.held_bytes)
    app.memory.add("links", lambda: sum(each.held_bytes for each in sessions.values()))


async def _first_lease(keeper: LeaseKeeper) -> None:
    """Nobody with a valid token is refused by a gateway because that has just started."""
    if not await keeper.await_first(FIRST_LEASE_SECONDS):
        log.warning("access_tokens_unknown", waited_s=FIRST_LEASE_SECONDS)


def _access(
    settings: GatewaySettings,
    directory: TokenDirectory,
    keeper: LeaseKeeper,
    clock: Clock,
    metrics: Metrics,
) -> AccessControl:
    return AccessControl(
        directory,
        keeper,
        clock=clock,
        metrics=metrics,
        failed_per_second=settings.failed_authentications_per_second,
        needs_certificate=settings.tls_client_certificate == "required",
    )


def _limiter(
    settings: GatewaySettings,
    keeper: LeaseKeeper,
    clock: Clock,
    rng: random.Random,
    metrics: Metrics,
) -> RateLimiter:
    account, token = rates(settings)
    return RateLimiter(
        account, token, clock=clock, rng=rng, metrics=metrics, gateways=lambda: keeper.gateways
    )


def _spans(settings: GatewaySettings, metrics: Metrics) -> SpanExport | None:
    """The way of spans to their collector, in use. Raises SettingsError."""
    if settings.traces_endpoint is None:
        return None
    instance = f"{os.uname().nodename}:{settings.port}"
    return span_export(settings.traces_endpoint, "svc-cluster-gateway", instance, metrics)


def _request_log(
    settings: GatewaySettings, clock: Clock, metrics: Metrics, spans: SpanExport | None
) -> RequestLog:
    tracing = None
    if spans is not None:
        tracing = RequestTracing(
            clock,
            spans,
            random_bytes=os.urandom,
            draw=random.SystemRandom().random,
            left_out=spans.left_out,
            ratio=settings.traces_ratio,
            per_second_max=settings.traces_per_second_max,
        )
    log = RequestLog(clock, metrics.request_lines_left_out, tracing=tracing)
    log.change(**told(settings))
    return log


def _metrics(settings: GatewaySettings) -> Metrics:
    """With what does not change while the process runs."""
    metrics = Metrics(process=True)
    say_build(metrics, "gateway")
    metrics.gateway_processes.set(1)
    if settings.tls_cert is not None:
        show_expiry(metrics, "public", Path(settings.tls_cert))
    if settings.peer_tls_cert is not None:
        show_expiry(metrics, "peer", Path(settings.peer_tls_cert))
    return metrics


def _client(
    sessions: dict[NodeId, NodeSession], clock: Clock, rng: random.Random, metrics: Metrics
) -> ReplicaClient:
    """The way to the cluster, in use."""
    loop = asyncio.get_running_loop()
    client = ReplicaClient(sessions=sessions, loop=loop, clock=clock, rng=rng, metrics=metrics)
    client.start()
    return client


@dataclass(frozen=True, slots=True)
class Leave:
    """How a gateway leaves its balancer. `begun` is set while it does, for `seconds` at most."""

    seconds: float
    begun: asyncio.Event = field(default_factory=asyncio.Event)


class RunningGateway:
    """A listening gateway and its sessions."""

    def __init__(
        self,
        app: GatewayApp,
        server: Server,
        client: ReplicaClient,
        tasks: Tasks,
        audit: AuditTrail,
        leave: Leave,
        reloadable: Reloadable,
        spans: SpanExport | None,
    ) -> None:
        self.audit = audit
        self.reloadable = reloadable
        self._spans = spans
        self._writer = RequestLogWriter(reloadable.request_log)
        self._writer.start()
        self._app = app
        self._tasks = tasks
        self._server = server
        self._client = client
        self._leave = leave

    async def close(self) -> None:
        """Refuse connections for a while, then refuse what is new, finish what has begun, end."""
        if self._leave.seconds:
            self._leave.begun.set()
            await self._server.leave(self._leave.seconds)
        self._app.drain()
        await self._tasks.cancel_all()
        await self._server.close(GRACE_SECONDS)
        await self._app.close()
        await self._writer.close()
        if self._spans is not None:
            await asyncio.to_thread(self._spans.close)
        await self.reloadable.keeper.close()
        await self._client.close()
        self.audit.close()


async def run_gateway(
    settings: GatewaySettings,
    read: Callable[[], GatewaySettings],
    stop: asyncio.Event,
    place: ProcessPlace | None = None,
) -> None:
    """Run until `stop`. `read` reads the settings again, for SIGHUP; it raises SettingsError.
    `place`: among the processes that serve the port together; the settings are its part."""
    rng = random.SystemRandom()
    links = GatewayLinks(settings, rng)
    siblings = None if place is None else GatewaySiblings(place)
    running = await start_gateway(settings, links.sessions, links=links, siblings=siblings)
    reloader = Reloader(
        settings,
        read,
        running.reloadable.apply,
        audit=running.audit,
        clock=SystemClock(),
        who={"role": "gateway", **({} if place is None else {"process": place.number})},
    )
    reloader.start()
    beats = Tasks()
    if place is not None:
        beats.spawn(_beat(), "tell the parent that the loop turns")
    await stop.wait()
    await reloader.close()
    await running.close()
    if siblings is not None:
        await siblings.close()
    await beats.cancel_all()


async def _beat() -> None:
    """For ever, from the moment on that it serves. It goes on while the process ends: one that its
    parent does not hear is taken for one that hangs."""
    while True:
        say_serving()
        await asyncio.sleep(BEAT_SECONDS)
