"""A node is drained, or no more, because an operator says so: decided on the catalog's leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import InvalidError
from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.catalog_commands import DrainNode
from svc_cluster.catalog.node_drain import drain_left, why_not_drained
from svc_cluster.catalog.node_rows import NodeState
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.repeatable import Fill, Operation

TELL: Final = 0
DRAIN: Final = 1
UNDRAIN: Final = 2


class DrainOperations:
    """The operation `drain_node`. `find` raises for a node that has no catalog; `deadline` is
    monotonic seconds."""

    def __init__(
        self,
        find: Callable[[pb.Request], CatalogReplica],
        deadline: Callable[[pb.Request], float],
    ) -> None:
        self._catalog = find
        self._deadline = deadline
        self.operations: dict[str, Operation] = {"drain_node": self._drain}

    async def _drain(self, request: pb.Request) -> Fill:
        """May be asked for again. Raises InvalidError with a sentence for an operator."""
        catalog = self._catalog(request)
        asked = request.drain_node
        node_id = NodeId(asked.node_id)
        await catalog.linearize()

        def sequence(_: object) -> DrainNode | None:
            state = catalog.state
            if asked.verb == DRAIN:
                reason = why_not_drained(state, node_id, forced=asked.forced)
            else:
                reason = None if node_id in state.nodes else f"no node {node_id} is registered"
            if reason is not None:
                raise InvalidError(reason)
            wanted = NodeState.DRAINING if asked.verb == DRAIN else NodeState.ACTIVE
            if state.nodes[node_id].state is wanted:
                return None
            return DrainNode(node_id, asked.verb == DRAIN)

        if asked.verb in (DRAIN, UNDRAIN):
            await catalog.change(sequence, self._deadline(request))
        left = drain_left(catalog.state, node_id)
        if left is None:
            raise InvalidError(f"no node {node_id} is registered")

        def fill(response: pb.Response) -> None:
            out = response.node_drain
            out.state = left.state.name.lower()
            out.replicas = left.replicas
            out.alone = left.alone

        return fill
