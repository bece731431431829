"""A gateway's conversations with the nodes' services, over TCP or TLS, each kept up."""

from __future__ import annotations

import asyncio
import random
import secrets

from svc_cluster.base.ids import NodeId
from svc_cluster.base.tasks import Tasks
from svc_cluster.cli.processes.tls_files import peer_tls
from svc_cluster.link.connector import Connector
from svc_cluster.link.conversation import Terms
from svc_cluster.link.features import STAGES
from svc_cluster.link.frame_turns import FrameTurns
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import HandshakeError, Identity
from svc_cluster.link.session import NodeSession
from svc_cluster.link.tls import node_name
from svc_cluster.link.tls_context import CallerTls
from svc_cluster.settings import GatewaySettings
from svc_cluster.settings_checks import read_secret


class GatewayLinks:
    """One session with each node of the settings, and with those that are met later."""

    def __init__(self, settings: GatewaySettings, rng: random.Random) -> None:
        self.sessions: dict[NodeId, NodeSession] = {}
        self._secret = read_secret(settings.secret_file)
        tls = peer_tls(settings)
        self._callers = None if tls is None else CallerTls(tls)
        identity = Identity(settings.cluster_id, "gateway", NodeId(0), secrets.token_hex(16))
        self._speaker = Speaker(identity, features(settings))
        self._has_traces = settings.traces_endpoint is not None
        self._rng = rng
        self._turns = FrameTurns(asyncio.get_running_loop())
        self._connectors: dict[NodeId, Connector] = {}
        self._tasks = Tasks()
        for node, address in settings.nodes.items():
            self.meet(NodeId(int(node)), address)

    def meet(self, node: NodeId, address: str, other: str = "") -> None:
        """Does what `NodeLinks.meet` does."""
        if node not in self._connectors:
            self._begin(node, address)
        self._connectors[node].redirect(address, other)

    def _begin(self, node: NodeId, address: str) -> None:
        loop = asyncio.get_running_loop()
        session = self.sessions[node] = NodeSession(loop, traces=self._has_traces)
        connector = self._connectors[node] = Connector(
            loop=loop,
            address=address,
            terms=lambda: Terms(self._secret, self._speaker, expected),
            events=session,
            rng=self._rng,
            tls=self._callers,
            server_name=node_name(node),
            turns=self._turns,
        )

        def expected(other: Speaker) -> None:
            """The address may be another node's by now."""
            if other.identity.node_id != node:
                raise HandshakeError(f"node {other.identity.node_id} answers for node {node}")

        session.attach(connector)
        connector.start()

    def leave(self, node: NodeId) -> None:
        """Does what `NodeLinks.leave` does."""
        self._connectors.pop(node, None)
        session = self.sessions.pop(node, None)
        if session is not None:
            self._tasks.spawn(session.close(), f"leave node {node}")


def features(settings: GatewaySettings) -> tuple[str, ...]:
    """Return what the gateway's greeting names: where nobody looks at a leader's stages, it does
    not take them."""
    is_told = settings.slow_request_ms is not None or settings.traces_endpoint is not None
    return (STAGES,) if is_told else ()
