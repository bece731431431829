"""A node whose data directory is lost is replaced: decided on the catalog's leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import InvalidError
from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.catalog_commands import ReplaceNode
from svc_cluster.catalog.replacement import lost_basins, why_not_replaced
from svc_cluster.replica.asking_nodes import asking_nodes
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.host import Host
from svc_cluster.replica.repeatable import Fill, Operation

LOST_BASINS_TOLD_MAX: Final = 100


def came_later(node_id: NodeId) -> str:
    return (
        f"node {node_id} came to the cluster later, and only one that began it is given another "
        "directory in its place: drain and remove it, and let it come again with a join token: "
        f"svc-cluster admin member add {node_id}"
    )


class ReplacementOperations:
    """The operations of a node that give places away: all are the catalog leader's."""

    def __init__(
        self,
        find: Callable[[pb.Request], CatalogReplica],
        deadline: Callable[[pb.Request], float],
        host: Host,
    ) -> None:
        self._catalog = find
        self._deadline = deadline
        self._host = host
        self.operations: dict[str, Operation] = {"replace_node": self._replace}

    async def _replace(self, request: pb.Request) -> Fill:
        """May be asked for again: a place that is being taken is not given away twice. Raises
        InvalidError with a sentence for an operator."""
        catalog = self._catalog(request)
        node_id = NodeId(request.replace_node.node_id)
        also_lost = request.replace_node.also_lost
        await catalog.linearize()
        asking = await asking_nodes(self._host)
        lost: list[str] = []
        refused = False

        def sequence(_: object) -> ReplaceNode | None:
            nonlocal lost, refused
            state = catalog.state
            known = state.nodes.get(node_id)
            if known is not None and node_id not in catalog.initial:
                raise InvalidError(came_later(node_id))
            # asked for again; the directory may ask until this node has the new fence on its disk
            asks = asking.get(node_id)
            if known is not None and known.is_replacing:
                is_another = asks is not None and asks.incarnation != known.incarnation
                if asks is None or not (asks.is_now and is_another):
                    return None
            is_up = self._host.is_peer_up(node_id) or node_id == self._host.services.node_id
            reason = why_not_replaced(state, catalog.own_group, node_id, asking, is_up=is_up)
            if reason is not None:
                raise InvalidError(reason)
            assert known is not None, "it is registered"
            assert asks is not None, "it asks"
            lost = lost_basins(state, node_id)
            refused = bool(lost) and not also_lost
            return None if refused else ReplaceNode(node_id, known.ordinal + 1, asks.incarnation)

        await catalog.change(sequence, self._deadline(request))
        known = catalog.state.nodes[node_id]

        def fill(response: pb.Response) -> None:
            out = response.replacement
            out.ordinal = known.ordinal
            out.incarnation = known.incarnation
            out.lost_basins.extend(lost[:LOST_BASINS_TOLD_MAX])
            out.lost_basins_count = len(lost)
            out.refused = refused

        return fill
