"""What a node asks every node of its cluster, itself among them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Final, Protocol

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.catalog.node_rows import NodeState
from svc_cluster.catalog.placement_loads import NO_LOAD, Load
from svc_cluster.replica.host import Host

NODE_SECONDS: Final = 1.0
"""How long a node may take to answer before it is taken for one that does not."""

LED_PAGE: Final = 10_000
"""Groups in one answer about who leads what, some 30 KiB of them."""

LED_MAX: Final = 1_000_000
"""More groups than a node can lead: asking for them ends, whatever it answers."""

EVERYTHING: Final = pb.OverviewRequest()
FIGURES: Final = pb.OverviewRequest(without_lists=True)
"""What the groups come to, and no list: an answer of some hundred bytes."""
PLACE: Final = pb.OverviewRequest(without_lists=True, without_groups=True)
"""Only what a node knows without a look at its groups, such as whether it takes leads."""

Fill = Callable[[pb.Request], None]


class Ask(Protocol):
    """`CatalogCalls.ask_any`."""

    def __call__(
        self, node: NodeId, fill: Fill, group_id: GroupId = ..., seconds: float = ...
    ) -> Awaitable[pb.Response | None]: ...


async def overviews(
    ask: Ask,
    nodes: Iterable[NodeId],
    asked_for: pb.OverviewRequest = EVERYTHING,
    seconds: float = NODE_SECONDS,
) -> dict[NodeId, pb.NodeOverview]:
    """What the nodes say of themselves, those that answer."""

    def fill(request: pb.Request) -> None:
        request.overview.SetInParent()
        request.overview.MergeFrom(asked_for)

    async def one(node: NodeId) -> pb.NodeOverview | None:
        response = await ask(node, fill, seconds=seconds)
        is_told = response is not None and response.WhichOneof("result") == "overview"
        return response.overview if response is not None and is_told else None

    asked = list(nodes)
    found = await asyncio.gather(*map(one, asked))
    return {node: told for node, told in zip(asked, found, strict=True) if told is not None}


@dataclass(frozen=True, slots=True)
class GatewaysElsewhere:
    """The newest version that each gateway speaks that talks to another node. Those nodes are
    `silent` that have not said who talks to them."""

    newest: Mapping[str, int]
    silent: tuple[NodeId, ...]


async def gateways_elsewhere(host: Host) -> GatewaysElsewhere:
    """What the other nodes say now, each within `NODE_SECONDS`."""
    own = host.services.node_id
    others = [node for node in host.all_nodes() if node != own]
    told = await overviews(host.ask_any, others)
    found: dict[str, int] = {}
    for one in (gateway for each in told.values() for gateway in each.gateways):
        found[one.process] = min(one.newest, found.get(one.process, one.newest))
    return GatewaysElsewhere(found, tuple(node for node in others if node not in told))


async def led_groups(
    ask: Ask, node: NodeId, *, with_loads: bool = False
) -> dict[GroupId, Load] | None:
    """The groups that a node leads, ascending, and what they bear: nothing where that is not asked
    for or not known. None where the node does not answer."""
    found: dict[GroupId, Load] = {}
    behind = 0
    while len(found) < LED_MAX:

        def fill(request: pb.Request, behind: int = behind) -> None:
            request.list_led.start_after = behind
            request.list_led.limit = LED_PAGE
            request.list_led.with_loads = with_loads

        response = await ask(node, fill)
        if response is None or response.WhichOneof("result") != "led_groups":
            return None
        page = response.led_groups
        loads = map(Load, page.stored_bytes, page.appends)
        found |= zip(map(GroupId, page.groups), chain(loads, repeat(NO_LOAD)), strict=False)
        if not page.has_more or not page.groups or page.groups[-1] <= behind:
            break
        behind = page.groups[-1]
    return found


@dataclass(frozen=True, slots=True)
class Leads:
    """Who leads what, of the nodes that have answered."""

    counts: dict[NodeId, int]
    leaders: dict[GroupId, NodeId]
    """A group of which two say that they lead it has none yet."""
    loads: dict[GroupId, Load]
    """What is known of the groups that have a leader; empty where it was not asked for."""
    are_all: bool = True
    """Every node that was asked has answered."""

    @property
    def whole_loads(self) -> Mapping[GroupId, Load]:
        """What all groups bear, or nothing, where some node has not answered. What some groups bear
        says nothing beside those of which it is not known."""
        return self.loads if self.are_all else {}


async def leaders_of_all(ask: Ask, nodes: Iterable[NodeId], *, with_loads: bool = False) -> Leads:
    """How many groups each node leads, and who leads each group."""
    asked = list(nodes)
    told = await asyncio.gather(*(led_groups(ask, node, with_loads=with_loads) for node in asked))
    counts: dict[NodeId, int] = {}
    leaders: dict[GroupId, NodeId] = {}
    loads: dict[GroupId, Load] = {}
    doubtful: set[GroupId] = set()
    for node, groups in zip(asked, told, strict=True):
        if groups is None:
            continue
        counts[node] = len(groups)
        for group_id in groups:
            if group_id in leaders:
                doubtful.add(group_id)
            leaders[group_id] = node
        if with_loads:
            loads |= groups
    for group_id in doubtful:
        del leaders[group_id]
    return Leads(counts, leaders, loads, len(counts) == len(asked))


def members_of(host: Host, group_id: GroupId) -> tuple[NodeId, ...]:
    """The nodes with a replica of a group, by the catalog here; none where it is not known."""
    if group_id == CATALOG_GROUP:
        catalog = host.catalog
        return host.catalog_nodes if catalog is None else catalog.own_group.replicas
    record = None if host.catalog is None else host.catalog.state.basins_by_group.get(group_id)
    return () if record is None else record.replicas


def is_drained(host: Host) -> bool:
    """Whether the catalog, as this node has applied it, says that the node drains."""
    record = None if host.catalog is None else host.catalog.state.nodes.get(host.services.node_id)
    return record is not None and record.state is NodeState.DRAINING
