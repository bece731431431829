"""This has two listeners. One serves administration with everything; the other health alone, in
clear, for probes that know neither certificates nor secrets."""

from __future__ import annotations

from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from svc_cluster._pb.cluster.v1 import admin_pb2_grpc
from svc_cluster.administration.admin_service import Administration
from svc_cluster.administration.call_gate import CallGate
from svc_cluster.administration.credentials import Trust, listener_credentials
from svc_cluster.administration.node_health import NodeHealth
from svc_cluster.administration.operations import (
    ANSWER_BYTES_MAX,
    CALLS_MAX,
    HEALTH,
    REFLECTION,
    SERVICE,
)
from svc_cluster.base.log import get_logger
from svc_cluster.base.tasks import Tasks
from svc_cluster.link.tls import PeerTls
from svc_cluster.link.tls_context import DISTRUSTED
from svc_cluster.replica.looking import look_on

REQUEST_BYTES_MAX: Final = 4 * 1024
HEADER_BYTES_MAX: Final = 8 * 1024
CALLS_OF_A_CONNECTION_MAX: Final = 32
HANDSHAKE_SECONDS: Final = 5
IDLE_SECONDS: Final = 60
"""A connection without a call is ended."""

TRUST_SECONDS: Final = 1.0
"""How often the file of the cluster's CAs is looked at."""
FAREWELL_SECONDS: Final = 2.0
"""What calls under way have on connections that end because of it."""

log = get_logger("administration")

OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.max_receive_message_length", REQUEST_BYTES_MAX),
    ("grpc.max_send_message_length", ANSWER_BYTES_MAX),
    ("grpc.max_metadata_size", HEADER_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", HEADER_BYTES_MAX),
    ("grpc.max_concurrent_streams", CALLS_OF_A_CONNECTION_MAX),
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_SECONDS * 1000),
    ("grpc.max_connection_idle_ms", IDLE_SECONDS * 1000),
    # two processes at one port would each get half of the callers
    ("grpc.so_reuseport", 0),
)


class Listener:
    """One port. `bind`, then `start`, then `stop`; nothing is answered before `start`."""

    def __init__(self, gate: CallGate, health: NodeHealth) -> None:
        self._gate = gate
        self._health = health
        self._administration: Administration | None = None
        self._address = ""
        self._tls: PeerTls | None = None
        self._trust: Trust | None = None
        self._tasks = Tasks()
        self._server = self._made()

    def _made(self) -> grpc.aio.Server:
        server = grpc.aio.server(
            interceptors=[self._gate], options=OPTIONS, maximum_concurrent_rpcs=CALLS_MAX
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        if self._administration is not None:
            add: Any = admin_pb2_grpc.add_AdministrationServicer_to_server
            add(self._administration, server)
            reflection.enable_server_reflection((SERVICE, HEALTH, REFLECTION), server)
        return server

    def serve(self, administration: Administration) -> None:
        """Administration too, and reflection, by which clients learn what is served."""
        self._administration = administration
        self._server = self._made()

    def bind(self, address: str, tls: PeerTls | None) -> int:
        """The port. Raises RuntimeError for an address that cannot be listened on,
        CertificateError."""
        self._tls = tls
        self._trust = None if tls is None else Trust(tls)
        port = self._bind(address)
        self._address = f"{address.rpartition(':')[0]}:{port}"
        return port

    def _bind(self, address: str) -> int:
        bound: Any = (
            self._server.add_insecure_port(address)
            if self._tls is None
            else self._server.add_secure_port(address, listener_credentials(self._tls))
        )
        return int(bound)

    async def start(self) -> None:
        await self._health.look()
        await self._server.start()
        self._tasks.spawn(self._health.follow(), "follow readiness")
        if self._trust is not None:
            looks = look_on(self._look, TRUST_SECONDS, "trust of administration")
            self._tasks.spawn(looks, "follow the cluster's CAs")

    async def _look(self) -> None:
        """A CA that was taken out of the file ends what stands on it. The library tells no
        connection from another, so that all of them end; who is still trusted comes back."""
        assert self._trust is not None, "only then looks are taken"
        if not self._trust.has_shrunk():
            return
        log.warning("connections_ended", reason=DISTRUSTED)
        await self._server.stop(FAREWELL_SECONDS)
        self._server = self._made()
        self._bind(self._address)
        await self._server.start()
        self._trust.begin_anew()

    async def stop(self, grace_seconds: float) -> None:
        """New calls are refused, and whoever watches is told that this is the end; calls under way
        have `grace_seconds`."""
        await self._tasks.cancel_all()
        await self._health.end()
        await self._server.stop(grace_seconds)
