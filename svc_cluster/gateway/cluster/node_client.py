"""What the gateway asks every node of itself, for people who look at the cluster as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import NodeId
from svc_cluster.base.tasks import start_task
from svc_cluster.gateway.cluster.leaders import Fill

NODE_SECONDS: Final = 1.5
"""How long a node may take to answer before it is told as one that does not."""

STANDINGS_SECONDS: Final = NODE_SECONDS
"""How long is waited for what the catalog has of the nodes, however many of its nodes are asked."""

KEPT_SECONDS: Final = 0.25
"""How long an answer is told to those who ask after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What a node says of itself. Sizes are in bytes; `lag_entries` is of the group that has most
    committed entries to apply; `leads` are basins by name, the empty name is the catalog's."""

    version: str
    groups: int
    groups_led: int
    groups_without_leader: int
    groups_held: int
    lag_entries: int
    is_draining: bool
    wal_bytes: int
    free_bytes: int
    takes_appends: bool
    leads: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedNode:
    """What the catalog has of a node, whether it answers or not. Host and zone are empty where it
    does not say; `state` is active or draining, or empty where no node that answers knows it."""

    host: str = ""
    zone: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class KnownNode:
    """`facts` are None for a node that has no answer in time."""

    standing: ListedNode
    facts: NodeFacts | None


class NodeBackend(Protocol):
    async def nodes(self) -> dict[int, KnownNode]:
        """Every node of the cluster by its id."""
        ...

    async def close(self) -> None: ...


class Nodes(Protocol):
    """`gateway.cluster.directory.Directory`, as far as it is needed here."""

    @property
    def nodes(self) -> Sequence[NodeId]: ...

    async def ask_every_node(self, fill: Fill, seconds: float) -> list[pb.Response | None]: ...

    async def ask_catalog_any_node(self, fill: Fill, seconds: float) -> pb.Response: ...


class NodeClient:
    """A NodeBackend over the links of this gateway. All who ask at a time share one question to the
    nodes, and what was answered is told again for KEPT_SECONDS: how many ask costs nodes nothing.
    """

    def __init__(self, cluster: Nodes, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._asking: asyncio.Task[dict[int, KnownNode]] | None = None
        self._answered_at = 0.0

    async def nodes(self) -> dict[int, KnownNode]:
        """Ask all at once, unless that is under way or has just been done."""
        asking = self._asking
        if asking is not None and asking.done():
            is_over = self._clock.monotonic() >= self._answered_at + KEPT_SECONDS
            if is_over or asking.cancelled() or asking.exception() is not None:
                asking = None
        if asking is None:
            asking = self._asking = start_task(self._ask(), "ask every node")
        # who goes away takes nothing from the others
        return dict(await asyncio.shield(asking))

    async def close(self) -> None:
        """End a question that is under way."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _ask(self) -> dict[int, KnownNode]:
        found = await self._told()
        self._answered_at = self._clock.monotonic()
        return found

    async def _told(self) -> dict[int, KnownNode]:
        answers, standings = await asyncio.gather(
            self._cluster.ask_every_node(_fill_overview, NODE_SECONDS), self._standings()
        )
        facts = {
            answer.overview.node_id: _facts(answer.overview)
            for answer in answers
            if answer is not None
        }
        return {
            int(node): KnownNode(standings.get(node, ListedNode()), facts.get(node))
            for node in self._cluster.nodes
        }

    async def _standings(self) -> dict[int, ListedNode]:
        """Return what a node of the catalog tells of all nodes; nothing where none does in time."""
        try:
            async with asyncio.timeout(STANDINGS_SECONDS):
                told = await self._cluster.ask_catalog_any_node(_fill_list, NODE_SECONDS)
        except (ServiceError, TimeoutError):
            return {}
        return {
            row.node_id: ListedNode(host=row.host, zone=row.zone, state=row.state)
            for row in told.nodes.nodes
        }


def _fill_overview(request: pb.Request) -> None:
    request.overview.SetInParent()


def _fill_list(request: pb.Request) -> None:
    request.list_nodes.SetInParent()


def _facts(told: pb.NodeOverview) -> NodeFacts:
    return NodeFacts(
        version=told.version,
        groups=told.groups,
        groups_led=told.groups_led,
        groups_without_leader=told.groups_without_leader,
        groups_held=told.groups_held,
        lag_entries=told.lag_entries,
        is_draining=told.draining,
        wal_bytes=told.wal_bytes,
        free_bytes=told.free_bytes,
        takes_appends=told.takes_appends,
        leads=tuple(told.leads),
    )
