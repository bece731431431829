"""A gateway as a process: sessions with every node, the HTTP port, no state."""

from __future__ import annotations

import asyncio
import random
import secrets
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

from svc_cluster.base.audit import AuditTrail
from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.base.ids import NodeId
from svc_cluster.base.metrics import Metrics
from svc_cluster.base.tasks import Tasks
from svc_cluster.cli.audit_file import audit_sink, reopen_on_hangup
from svc_cluster.cli.loop_faults import hear_loop_faults
from svc_cluster.cli.loop_turns import LoopTurns
from svc_cluster.cli.own_certificate import show_expiry
from svc_cluster.cli.process import say_build
from svc_cluster.cli.tls_files import peer_tls, public_certificate
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.authentication import AccessControl
from svc_cluster.gateway.http.connection import HEADER_SECONDS
from svc_cluster.gateway.http.intake import UNREAD_SHARE
from svc_cluster.gateway.http.server import Server, serve
from svc_cluster.gateway.lease import LeaseKeeper
from svc_cluster.gateway.rate_limit import Rates
from svc_cluster.gateway.rate_limiter import RateLimiter
from svc_cluster.gateway.replica_client import ReplicaClient
from svc_cluster.gateway.token_client import TokenClient
from svc_cluster.gateway.token_directory import TokenDirectory
from svc_cluster.gateway.usage_client import UsageClient
from svc_cluster.link.connector import Connector
from svc_cluster.link.conversation import Terms
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.link.session import NodeSession
from svc_cluster.link.tls import node_name
from svc_cluster.link.tls_context import caller_context
from svc_cluster.settings import AddressError, GatewaySettings, read_secret

MIB: Final = 1 << 20
GRACE_SECONDS: Final = 5.0
"""Requests under way when the gateway ends may take this long."""


def connect_sessions(settings: GatewaySettings, rng: random.Random) -> dict[NodeId, NodeSession]:
    """One session with each node, kept up in the background."""
    secret = read_secret(settings.secret_file)
    tls = peer_tls(settings)
    identity = Identity(settings.cluster_id, "gateway", NodeId(0), secrets.token_hex(16))
    terms = Terms(secret, Speaker(identity), lambda _: None)
    loop = asyncio.get_running_loop()
    sessions: dict[NodeId, NodeSession] = {}
    for node, address in settings.nodes.items():
        session = sessions[NodeId(int(node))] = NodeSession(loop)
        connector = Connector(
            loop=loop,
            address=address,
            terms=lambda: terms,
            events=session,
            rng=rng,
            tls=None if tls is None else partial(caller_context, tls),
            server_name=node_name(NodeId(int(node))),
        )
        session.attach(connector)
        connector.start()
    return sessions


async def start_gateway(
    settings: GatewaySettings,
    sessions: dict[NodeId, NodeSession],
    *,
    header_seconds: float = HEADER_SECONDS,
) -> RunningGateway:
    """Listen. A client has `header_seconds` to send a request's headers. Raises SettingsError for
    a port or a certificate that cannot be used."""
    certificate = public_certificate(settings)
    sink = audit_sink(settings.audit_log)
    rng = random.SystemRandom()
    clock = SystemClock()
    metrics = _metrics(settings)
    client = _client(sessions, clock, rng, metrics)
    audit = AuditTrail(sink, metrics.audit_failures.inc)
    tokens = TokenClient(client.directory, clock)
    keeper = access = None
    is_limited = rates(settings) != (Rates(), Rates())
    if settings.asks_for_tokens or is_limited:
        token_directory = TokenDirectory(clock)
        keeper = LeaseKeeper(tokens, token_directory, clock, secrets.token_hex(16))
        keeper.start()
        if settings.asks_for_tokens:
            access = AccessControl(
                token_directory,
                keeper,
                clock=clock,
                metrics=metrics,
                failed_per_second=settings.failed_authentications_per_second,
            )
    limiter = None
    if is_limited and keeper is not None:
        limiter = _limiter(settings, keeper, clock, rng, metrics)
    app = GatewayApp(
        client,
        clock=clock,
        rng=rng,
        metrics=metrics,
        version=version("svc-cluster"),
        readiness=lambda: {
            "node_reachable": client.usable_nodes > 0,
            **({} if access is None else {"access_tokens_fresh": access.is_ready}),
        },
        tokens=tokens,
        access=access,
        audit=audit,
        limiter=limiter,
        cors=settings.cors,
        compression=settings.compression,
        basin_host_suffixes=settings.basin_host_suffixes,
        public_hosts=[*(settings.public_hosts or ()), settings.host],
        body_bytes_in_flight_max=settings.body_mib_in_flight << 20,
        usage=UsageClient(client.directory, clock),
    )
    app.start()
    try:
        server = await serve(
            app,
            settings.host,
            settings.port,
            tls=None if certificate is None else certificate.context,
            header_seconds=header_seconds,
            connections_max=settings.connections_max,
            unread_bytes_max=(settings.body_mib_in_flight << 20) // UNREAD_SHARE,
            unread_gauge=metrics.http_unread_body_bytes,
        )
    except OSError as cause:
        raise AddressError(
            f"port {settings.port} on {settings.host} cannot be listened on ({cause.strerror}): "
            "end the process that uses it, or choose another port"
        ) from cause
    tasks = Tasks()
    hear_loop_faults(metrics)
    tasks.spawn(LoopTurns(metrics).run(), "watch the event loop")
    if certificate is not None:
        tasks.spawn(certificate.watch(), "watch the public certificate")
    return RunningGateway(app, server, client, tasks, keeper, audit)


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


def _metrics(settings: GatewaySettings) -> Metrics:
    """With what does not change while the process runs."""
    metrics = Metrics(process=True)
    say_build(metrics, "gateway")
    if settings.tls_cert is not None:
        show_expiry(metrics, "public", Path(settings.tls_cert))
    if settings.peer_tls_cert is not None:
        show_expiry(metrics, "peer", Path(settings.peer_tls_cert))
    return metrics


def rates(settings: GatewaySettings) -> tuple[Rates, Rates]:
    """Of the account, and of each access token."""

    def of(owner: str) -> Rates:
        requests, append_mib, read_mib = (
            getattr(settings, f"{owner}_{what}_per_second")
            for what in ("requests", "append_mib", "read_mib")
        )
        return Rates(
            requests,
            None if append_mib is None else append_mib * MIB,
            None if read_mib is None else read_mib * MIB,
        )

    return of("account"), of("token")


def _client(
    sessions: dict[NodeId, NodeSession], clock: Clock, rng: random.Random, metrics: Metrics
) -> ReplicaClient:
    """The way to the cluster, in use."""
    loop = asyncio.get_running_loop()
    client = ReplicaClient(sessions=sessions, loop=loop, clock=clock, rng=rng, metrics=metrics)
    client.start()
    return client


class RunningGateway:
    """A listening gateway and its sessions."""

    def __init__(
        self,
        app: GatewayApp,
        server: Server,
        client: ReplicaClient,
        tasks: Tasks,
        keeper: LeaseKeeper | None,
        audit: AuditTrail,
    ) -> None:
        self.audit = audit
        self._app = app
        self._keeper = keeper
        self._tasks = tasks
        self._server = server
        self._client = client

    async def close(self) -> None:
        """Refuse what is new, finish what has begun, end."""
        self._app.drain()
        await self._tasks.cancel_all()
        await self._server.close(GRACE_SECONDS)
        await self._app.close()
        if self._keeper is not None:
            await self._keeper.close()
        await self._client.close()
        self.audit.close()


async def run_gateway(settings: GatewaySettings, stop: asyncio.Event) -> None:
    """Run until `stop`."""
    rng = random.SystemRandom()
    running = await start_gateway(settings, connect_sessions(settings, rng))
    reopen_on_hangup(running.audit)
    await stop.wait()
    await running.close()
