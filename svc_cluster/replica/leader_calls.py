"""What a node asks of the catalog's leader, which may be the node itself, or of another node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.session import NodeSession
from svc_cluster.replica.host import Host
from svc_cluster.replica.node_questions import NODE_SECONDS
from svc_cluster.replica.own_caller import OwnCaller
from svc_cluster.replica.roles import OWN
from svc_cluster.replica.service import Service

ASK_DEADLINE_MS: Final = 3000

Fill = Callable[[pb.Request], None]


class CatalogCalls:
    """The calls of one node. Whoever makes them repeats them."""

    def __init__(
        self,
        host: Host,
        service: Service,
        sessions: Mapping[NodeId, NodeSession],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._host = host
        self._service = service
        self._sessions = sessions
        self._loop = loop

    async def ask_leader(self, fill: Fill) -> pb.Response | None:
        """One request to the catalog's leader as far as it is known here; None when it is not, or
        when no answer came."""
        catalog = self._host.catalog
        if catalog is None or (leader := catalog.group.engine.leader) is None:
            return None
        if leader != self._host.services.node_id:
            return await self.ask_node(leader, fill)
        request = pb.Request(id=1, group_id=CATALOG_GROUP, deadline_ms=ASK_DEADLINE_MS)
        fill(request)
        return await self._ask_self(request)

    async def ask_around(self, fill: Fill) -> pb.Response | None:
        """The same, but each other node is asked, once, where nobody tells this one who leads. That
        is so while nobody finds it where it is by now."""
        response = await self.ask_leader(fill)
        if response is not None:
            return response
        for node in sorted(self._sessions):
            if node not in self._sessions:
                continue
            response = await self.ask_node(node, fill)
            if response is not None and not response.refusal.not_leader:
                return response
        return None

    async def ask_node(
        self, node: NodeId, fill: Fill, deadline_ms: int = ASK_DEADLINE_MS
    ) -> pb.Response | None:
        """One request about the catalog to another node; None when no answer came."""
        if (session := self._sessions.get(node)) is None:
            return None
        try:
            async with asyncio.timeout(deadline_ms / 1000):
                return await session.call(CATALOG_GROUP, deadline_ms, fill)
        except (ConnectionError, TimeoutError):
            return None

    async def ask_any(
        self,
        node: NodeId,
        fill: Fill,
        group_id: GroupId = CATALOG_GROUP,
        seconds: float = NODE_SECONDS,
    ) -> pb.Response | None:
        """One request about a group to a node, which may be this one; None when no answer came."""
        deadline_ms = round(seconds * 1000)
        if node == self._host.services.node_id:
            request = pb.Request(id=1, group_id=group_id, deadline_ms=deadline_ms)
            fill(request)
            return await self._ask_self(request)
        if (session := self._sessions.get(node)) is None:
            return None
        try:
            async with asyncio.timeout(seconds):
                return await session.call(group_id, deadline_ms, fill)
        except (ConnectionError, TimeoutError):
            return None

    async def _ask_self(self, request: pb.Request) -> pb.Response | None:
        caller = OwnCaller(self._loop.create_future())
        session = self._service.session(caller)
        data = request.SerializeToString()
        session.request(FrameKind.CALL, request.id, data, len(data), OWN)
        try:
            async with asyncio.timeout(ASK_DEADLINE_MS / 1000):
                return pb.Response.FromString(await caller.answer)
        except TimeoutError:
            return None
        finally:
            session.close()
