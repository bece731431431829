"""`svc-cluster local --nodes 1`: node and gateway in one process, joined by a loopback link.

Everything an append passes through is the same as in a cluster, the fsync included; only the
socket between gateway and node is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from svc_cluster.base.ids import NodeId
from svc_cluster.cli.processes.gateway_links import features
from svc_cluster.cli.processes.gateway_process import RunningGateway, start_gateway
from svc_cluster.cli.processes.node_process import RunningNode
from svc_cluster.cli.processes.start_checks import embedded_connections_max
from svc_cluster.gateway.limits.body_budget import BodyPatience
from svc_cluster.http.connection import HEADER_SECONDS
from svc_cluster.link.credit import send_credits
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.handshake import Identity
from svc_cluster.link.outbox import NoCreditError
from svc_cluster.link.session import NodeSession
from svc_cluster.replica.link_server import ServiceCaller
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.settings import GatewaySettings, NodeSettings


class LoopbackLink:
    """This is a link to a node of the same process. It takes messages in and gives messages out, in
    order, with the credit that a link over a socket has."""

    def __init__(
        self, node: ReplicaNode, events: NodeSession, features: tuple[str, ...] = ()
    ) -> None:
        """`features` are those of the gateway."""
        loop = asyncio.get_running_loop()
        self._call_soon = loop.call_soon
        self._credits = send_credits()
        identity = Identity(node.config.cluster_id, "gateway", NodeId(0), "embedded")
        self._back = _WayBack(self._arrive)
        self._caller = ServiceCaller(node, identity, self._back, features)
        self._back.on_dealt_with = self._dealt_with
        self._events = events
        events.attach(self)
        events.link_up(node.speaker())

    @property
    def held_bytes(self) -> int:
        """Nothing is kept on the way: the node counts what it was asked."""
        return 0

    @property
    def is_up(self) -> bool:
        return True

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        credit = self._credits[kind]
        if not credit.allows(len(payload)):
            raise NoCreditError
        credit.queued += len(payload)
        self._call_soon(self._caller.message, kind, payload)

    def knock(self) -> None:
        """Both sides are one process."""

    def has_credit(self, kind: FrameKind, size: int) -> bool:
        return self._credits[kind].allows(size)

    def _dealt_with(self, kind: FrameKind, size: int) -> None:
        self._credits[kind].dealt_with += size

    def _arrive(self, kind: FrameKind, payload: bytes) -> None:
        self._call_soon(self._events.message, kind, payload)

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        self._back.told(kind, size)
        self._caller.room(kind, size)

    async def close(self) -> None:
        self._caller.link_down()


class _WayBack:
    """From the node to the gateway beside it."""

    def __init__(self, arrive: Callable[[FrameKind, bytes], None]) -> None:
        self._arrive = arrive
        self._credits = send_credits()
        self.on_dealt_with: Callable[[FrameKind, int], None] = lambda _kind, _size: None

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        credit = self._credits[kind]
        if not credit.allows(len(payload)):
            raise NoCreditError
        credit.queued += len(payload)
        self._arrive(kind, payload)

    def told(self, kind: FrameKind, size: int) -> None:
        self._credits[kind].dealt_with += size

    def waiting_bytes(self, kind: FrameKind) -> int:
        return 0

    def give_up(self, reason: str) -> None:
        """It ends with the process: the gateway beside the node takes what it is answered."""

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        self.on_dealt_with(kind, size)


class EmbeddedNode:
    """One node and one gateway in this process."""

    def __init__(
        self,
        node: NodeSettings,
        gateway: GatewaySettings,
        *,
        header_seconds: float = HEADER_SECONDS,
        body_patience: BodyPatience = BodyPatience(),
    ) -> None:
        self._body_patience = body_patience
        self._header_seconds = header_seconds
        self._node_settings = node
        # here, behind whatever chose the settings: more connections would take the node's files
        most = embedded_connections_max(node, gateway.connections_max)
        self.gateway_settings = msgspec.structs.replace(gateway, connections_max=most)
        self.node: RunningNode
        self._gateway: RunningGateway

    async def start(self) -> None:
        self.node = RunningNode(self._node_settings)
        await self.node.start()
        traces = self.gateway_settings.traces_endpoint is not None
        session = NodeSession(asyncio.get_running_loop(), traces=traces)
        LoopbackLink(self.node.node, session, features(self.gateway_settings))
        self._gateway = await start_gateway(
            self.gateway_settings,
            {NodeId(self._node_settings.node_id): session},
            header_seconds=self._header_seconds,
            body_patience=self._body_patience,
        )

    async def stop(self) -> None:
        await self._gateway.close()
        await self.node.close()


def embedded_settings(
    directory: Path, cluster_id: str, secret: Path, ports: list[int], overrides: dict[str, Any]
) -> tuple[NodeSettings, GatewaySettings]:
    """`ports`: rpc, admin, public."""
    rpc, admin, public = ports
    audit_log = str(directory / "audit.log")
    nodes = {"1": f"127.0.0.1:{rpc}"}
    return (
        NodeSettings(
            cluster_id=cluster_id,
            node_id=1,
            data_dir=str(directory / "node-1"),
            nodes=nodes,
            secret_file=str(secret),
            admin_address=f"127.0.0.1:{admin}",
            replication_factor=1,
            **{"audit_log": audit_log, **overrides},
        ),
        GatewaySettings(
            cluster_id=cluster_id,
            nodes=nodes,
            secret_file=str(secret),
            port=public,
            audit_log=audit_log,
        ),
    )
