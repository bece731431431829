"""`svc-cluster local --nodes 1`: node and gateway in one process, joined by a loopback link.

Everything an append passes through is the same as in a cluster, the fsync included; only the
socket between gateway and node is missing.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from svc_cluster.base.ids import NodeId
from svc_cluster.cli.gateway_process import RunningGateway, start_gateway
from svc_cluster.cli.node_process import RunningNode
from svc_cluster.gateway.http.connection import HEADER_SECONDS
from svc_cluster.link.session import NodeSession
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.settings import GatewaySettings, NodeSettings


class LoopbackLink:
    """A link to a node of the same process: bytes in, bytes out, in order."""

    def __init__(self, node: ReplicaNode, events: NodeSession) -> None:
        loop = asyncio.get_running_loop()
        self._call_soon = loop.call_soon
        self._service = node.service.session(lambda data: self._answer(data))
        self._events = events
        events.attach(self)
        events.link_up()

    def send(self, data: bytes) -> None:
        self._call_soon(self._service.message, data)

    def _answer(self, data: bytes) -> None:
        self._call_soon(self._arrive, data)

    def _arrive(self, data: bytes) -> None:
        self._service.sent(len(data))
        self._events.message(data)

    async def close(self) -> None:
        self._service.close()


class EmbeddedNode:
    """One node and one gateway in this process."""

    def __init__(
        self,
        node: NodeSettings,
        gateway: GatewaySettings,
        *,
        header_seconds: float = HEADER_SECONDS,
    ) -> None:
        self._header_seconds = header_seconds
        self._node_settings = node
        self._gateway_settings = gateway
        self.node: RunningNode
        self._gateway: RunningGateway

    async def start(self) -> None:
        self.node = RunningNode(self._node_settings)
        await self.node.start()
        session = NodeSession(asyncio.get_running_loop())
        LoopbackLink(self.node.node, session)
        self._gateway = await start_gateway(
            self._gateway_settings,
            {NodeId(self._node_settings.node_id): session},
            header_seconds=self._header_seconds,
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
