"""A node is told by others of nodes that its own catalog does not know.

It may have no catalog: one that began the cluster and whose directory was lost knows the nodes of
its settings alone. Or an old one, of before it was away. Whoever leads the catalog by now may have
come meanwhile, and gives it the catalog only once it talks to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import NodeId

AGAIN_SECONDS: Final = 1.0
"""Between two rounds, whoever greets meanwhile."""

NODES_MAX: Final = 1024
"""A cluster has no more rows for nodes."""

Fill = Callable[[pb.Request], None]


class Introductions:
    """Those of one node."""

    def __init__(
        self,
        *,
        has_catalog: Callable[[], bool],
        others: Callable[[], Iterable[NodeId]],
        ask: Callable[[NodeId, Fill], Awaitable[pb.Response | None]],
        meet: Callable[[Mapping[NodeId, str]], None],
    ) -> None:
        """`others`: whom it can ask. `meet` takes the nodes that it is told of, and where they are;
        those that it knows are among them."""
        self._has_catalog = has_catalog
        self._others = others
        self._ask = ask
        self._meet = meet
        self._strangers = asyncio.Event()

    def stranger(self) -> None:
        """Somebody has greeted whom this node does not know."""
        self._strangers.set()

    async def run(self) -> None:
        """Never returns: ask around as long as there is no catalog, and behind each stranger."""
        while True:
            if self._has_catalog():
                await self._strangers.wait()
            self._strangers.clear()
            for other in sorted(self._others()):
                response = await self._ask(other, _fill)
                if response is not None and response.WhichOneof("result") == "nodes":
                    self._meet(
                        {
                            NodeId(row.node_id): row.link_address or row.address
                            for row in response.nodes.nodes[:NODES_MAX]
                        }
                    )
            await asyncio.sleep(AGAIN_SECONDS)


def _fill(request: pb.Request) -> None:
    request.list_nodes.SetInParent()
