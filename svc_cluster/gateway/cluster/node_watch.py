"""A gateway follows which nodes there are: its settings name the first ones, the catalog all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import NodeId
from svc_cluster.gateway.cluster.directory import Directory

LOOK_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 1.0


class NodeLinks(Protocol):
    """The conversations with nodes' services, which may come and go."""

    def meet(self, node: NodeId, address: str, other: str = "") -> None:
        """Have one with the node, there, from now on; where it does not answer as itself, at
        `other` in turn. Repeatable."""
        ...

    def leave(self, node: NodeId) -> None:
        """End it, if there is one."""
        ...


class NodeWatch:
    """The one of a gateway."""

    def __init__(self, directory: Directory, links: NodeLinks, own: Mapping[NodeId, str]) -> None:
        """`own`: the nodes of the settings, of which none is forgotten. They are where these say,
        unless they say otherwise themselves."""
        self._directory = directory
        self._links = links
        self._own = dict(own)
        self._known = set(own)

    async def run(self) -> None:
        """Never returns."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                told = await self._directory.ask_catalog_any_node(_fill, ANSWER_SECONDS)
            except ServiceError:
                continue  # an older node, or none: what is known stays
            if told.WhichOneof("result") == "nodes":
                self.take(told.nodes)

    def take(self, told: pb.NodeList) -> None:
        """A node has told which nodes there are."""
        for row in told.nodes:
            node = NodeId(row.node_id)
            settled = self._own.get(node, row.address)
            if row.link_address or settled:
                self._links.meet(node, row.link_address or settled, settled)
            if node not in self._known:
                self._known.add(node)
                self._directory.met(node)
        for node in self._known - self._own.keys() - {NodeId(row.node_id) for row in told.nodes}:
            self._known.discard(node)
            self._links.leave(node)
            self._directory.left(node)


def _fill(request: pb.Request) -> None:
    request.list_nodes.SetInParent()
