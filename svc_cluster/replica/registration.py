"""A node makes its data directory known to the catalog at each start, and says where it runs and
how it is reached. It says so again whenever more may be said."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import Logger
from svc_cluster.catalog import node_facts
from svc_cluster.catalog.node_facts import NO_FACTS, AnnouncedFacts
from svc_cluster.catalog.node_rows import REMOVED
from svc_cluster.codec.node_facts_pb import put_facts
from svc_cluster.replica.cluster_version import ClusterVersion
from svc_cluster.replica.formation_rounds import registered_otherwise

RETRY_SECONDS: Final = 0.3
REPEAT_SECONDS: Final = 5.0
"""How often a node that may be removed says so again: it hears then that it was."""

Fill = Callable[[pb.Request], None]


def removed(node_id: NodeId) -> str:
    return (
        f"node {node_id} was removed from the cluster, which refuses its data directory for ever: "
        "stop it; where one is needed, let a node come with a new directory, under this id or "
        f"another one: svc-cluster admin member add {node_id}"
    )


class Registration:
    """The one of a node."""

    def __init__(
        self,
        node_id: NodeId,
        incarnation: str,
        address: str,
        facts: AnnouncedFacts,
        version: ClusterVersion,
        *,
        ask: Callable[[Fill], Awaitable[pb.Response | None]],
        is_whole: Callable[[], bool],
        log: Logger,
        may_be_removed: Callable[[], bool] = lambda: False,
        on_removed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`ask` asks the catalog's leader. `is_whole`: a directory that took a place says with its
        registration that its replicas are. `on_removed` is told the sentence, once."""
        self._who = node_id, incarnation, address
        self._facts = facts
        self._version = version
        self._ask = ask
        self._is_whole = is_whole
        self._log = log
        self._may_be_removed = may_be_removed
        self._on_removed = on_removed
        self._news = asyncio.Event()
        self.is_done = False
        self.refusal: str | None = None
        """Why the cluster goes on without this node; None: it does not."""

    def look(self) -> None:
        """More may be written now, or the node may be removed by now."""
        self._news.set()

    async def run(self) -> None:
        """Returns when the node is refused."""
        told_as: bool | None = None
        while self.refusal is None:
            self._news.clear()
            # who does not know the version yet may be where only these facts say that it is
            is_written = self._version.active >= node_facts.SINCE
            if told_as == is_written:
                told_as = await self._next_time(told_as)
            elif await self._tell():
                told_as = is_written
            else:
                await asyncio.sleep(RETRY_SECONDS)

    async def _next_time(self, told_as: bool) -> bool | None:
        """Wait until something is to be said. What was said last then; None: it is said again."""
        try:
            async with asyncio.timeout(REPEAT_SECONDS if self._may_be_removed() else None):
                await self._news.wait()
        except TimeoutError:
            return None
        return told_as

    async def _tell(self) -> bool:
        """Whether it is known now."""
        response = await self._ask(self._fill) if self._is_whole() else None
        if response is None:
            return False
        if response.WhichOneof("result") == "done":
            if not self.is_done:
                self.is_done = True
                self._log.info("node_registered")
            return True
        if response.refusal.code == "invalid":
            is_removed = response.refusal.message == REMOVED
            self.refusal = (removed if is_removed else registered_otherwise)(self._who[0])
            self._log.error("node_refused", reason=self.refusal)
            if is_removed:
                self._on_removed(self.refusal)
        return False

    def _fill(self, request: pb.Request) -> None:
        out = request.register_node
        out.node_id, out.incarnation, out.address = self._who
        if self._facts != NO_FACTS:
            put_facts(out.facts, self._facts)
