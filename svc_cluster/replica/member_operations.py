"""Which nodes there are: asked of any node, and told by its catalog."""

from __future__ import annotations

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import UnavailableError
from svc_cluster.catalog.node_rows import members
from svc_cluster.replica.host import Host
from svc_cluster.replica.repeatable import Fill, Operation


class MemberOperations:
    """The operations of a node that concern the nodes."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.operations: dict[str, Operation] = {"list_nodes": self._list}

    async def _list(self, request: pb.Request) -> Fill:
        """Tell them as the catalog here has them, which may lag. Raises UnavailableError where it
        is not to be trusted."""
        catalog = self._host.catalog
        if catalog is None or catalog.group.engine.recovery:
            raise UnavailableError("the node does not know the catalog yet")
        rows = members(catalog.state.nodes)

        def fill(response: pb.Response) -> None:
            response.nodes.SetInParent()
            for row in rows:
                response.nodes.nodes.add(
                    node_id=row.node_id,
                    address=row.address,
                    link_address=row.facts.link_address,
                    host=row.facts.host,
                    zone=row.facts.zone,
                    state=row.state.name.lower(),
                )

        return fill
