"""A gateway as a process: sessions with every node, the HTTP port, no state."""

from __future__ import annotations

import asyncio
import random
import secrets
from importlib.metadata import version
from typing import Final

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import NodeId
from svc_cluster.base.metrics import Metrics
from svc_cluster.base.tasks import Tasks
from svc_cluster.cli.process import say_build
from svc_cluster.cli.tls_files import peer_tls, public_certificate
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.authentication import AccessControl
from svc_cluster.gateway.http.connection import HEADER_SECONDS
from svc_cluster.gateway.http.server import Server, serve
from svc_cluster.gateway.lease import LeaseKeeper
from svc_cluster.gateway.replica_client import ReplicaClient
from svc_cluster.gateway.token_client import TokenClient
from svc_cluster.gateway.token_directory import TokenDirectory
from svc_cluster.link.grpc_link import GrpcLink
from svc_cluster.link.handshake import Identity, make_metadata
from svc_cluster.link.session import NodeSession
from svc_cluster.link.tls import node_name
from svc_cluster.replica.peers import SESSION_METHOD
from svc_cluster.settings import GatewaySettings, SettingsError, read_secret

GRACE_SECONDS: Final = 5.0
"""Requests under way when the gateway ends may take this long."""


def connect_sessions(settings: GatewaySettings, rng: random.Random) -> dict[NodeId, NodeSession]:
    """One session with each node, kept up in the background."""
    secret = read_secret(settings.secret_file)
    tls = peer_tls(settings)
    identity = Identity(settings.cluster_id, "gateway", NodeId(0), secrets.token_hex(16))
    loop = asyncio.get_running_loop()
    sessions: dict[NodeId, NodeSession] = {}
    for node, address in settings.nodes.items():
        session = NodeSession(loop)
        session.attach(
            GrpcLink(
                address=address,
                method=SESSION_METHOD,
                metadata=lambda: make_metadata(secret, identity, secrets.token_hex(16)),
                events=session,
                rng=rng,
                tls=tls,
                server_name=node_name(NodeId(int(node))),
            )
        )
        sessions[NodeId(int(node))] = session
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
    rng = random.SystemRandom()
    clock = SystemClock()
    client = ReplicaClient(sessions=sessions, loop=asyncio.get_running_loop(), clock=clock, rng=rng)
    client.start()
    metrics = Metrics(process=True)
    say_build(metrics, "gateway")
    tokens = TokenClient(client.directory, clock)
    keeper = access = None
    if settings.asks_for_tokens:
        token_directory = TokenDirectory(clock)
        keeper = LeaseKeeper(tokens, token_directory, clock, secrets.token_hex(16))
        access = AccessControl(token_directory, keeper)
        keeper.start()
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
        cors=settings.cors,
        compression=settings.compression,
        basin_host_suffixes=settings.basin_host_suffixes,
        body_bytes_in_flight_max=settings.body_mib_in_flight << 20,
    )
    try:
        server = await serve(
            app,
            settings.host,
            settings.port,
            tls=None if certificate is None else certificate.context,
            header_seconds=header_seconds,
        )
    except OSError as cause:
        raise SettingsError(
            f"port {settings.port} on {settings.host} cannot be listened on: end the process "
            "that uses it, or choose another port"
        ) from cause
    tasks = Tasks()
    if certificate is not None:
        tasks.spawn(certificate.watch(), "watch the public certificate")
    return RunningGateway(app, server, client, tasks, keeper)


class RunningGateway:
    """A listening gateway and its sessions."""

    def __init__(
        self,
        app: GatewayApp,
        server: Server,
        client: ReplicaClient,
        tasks: Tasks,
        keeper: LeaseKeeper | None,
    ) -> None:
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


async def run_gateway(settings: GatewaySettings, stop: asyncio.Event) -> None:
    """Run until `stop`."""
    rng = random.SystemRandom()
    running = await start_gateway(settings, connect_sessions(settings, rng))
    await stop.wait()
    await running.close()
