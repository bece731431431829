"""A node that came up with an empty data directory is given its place without an operator.

It is for clusters in which a volume belongs to its node (`replace_lost_nodes`). The leader of the
catalog looks; what it does is what `admin member replace` does, behind the same fence. A second
node that comes up empty is left to an operator: a volume is probably not mounted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import NodeId
from svc_cluster.base.seldom import Seldom
from svc_cluster.base.tasks import Tasks
from svc_cluster.catalog.replacement import why_not_unasked
from svc_cluster.model.formation import Asking
from svc_cluster.replica.asking_nodes import asking_nodes
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.host import Host
from svc_cluster.replica.looking import look_on
from svc_cluster.replica.node_questions import overviews

LOOK_SECONDS: Final = 2.0
LOOKS: Final = 3
"""Looks in a row at which the same empty directory asks and nothing is against it. It has said so
again since the look before: what was heard once is no sign that anything runs there."""

AGAIN_SECONDS: Final = 600.0
"""A leader replaces one node unasked in so long: a volume that is lost again and again is for an
operator to look at."""

ASK_SECONDS: Final = 3.0


ON_THE_WAY_SECONDS: Final = 0.2
"""When another node heard something is known so exactly."""


class LostNodes:
    """One for each node. It acts where the node leads the catalog."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._tasks = Tasks()
        self._asked: tuple[NodeId, Asking] | None = None
        """Who asked at the last look, with which directory, and when that was said."""
        self._looks = 0
        self._not_before = float("-inf")
        self._refusals = Seldom()
        self.replaced = 0

    def start(self) -> None:
        """Look now and then, where the settings say so."""
        if self._host.settings.replace_lost_nodes:
            looks = look_on(self._look, LOOK_SECONDS, "lost nodes")
            self._tasks.spawn(looks, "replace lost nodes")

    async def stop(self) -> None:
        await self._tasks.cancel_all()

    async def _look(self) -> None:
        catalog = self._host.catalog
        leads = catalog is not None and catalog.group.is_serving
        asking = await asking_nodes(self._host) if leads else {}
        if catalog is None or not asking:
            self._asked, self._looks = None, 0
            return
        node_id, asks = min(asking.items(), key=lambda each: each[0])
        known = catalog.state.nodes.get(node_id)
        if known is not None and known.is_replacing and known.incarnation == asks.incarnation:
            return  # it has the place, and comes to know
        self._looks = self._looks + 1 if self._has_said_it_again(node_id, asks) else 1
        self._asked = node_id, asks
        reason = await self._why_not(catalog, node_id, asking)
        if reason is not None:
            self._looks = 0
            self._say_left(node_id, reason)
        elif self._looks >= LOOKS:
            self._looks = 0
            await self._replace(node_id)

    def _has_said_it_again(self, node_id: NodeId, asks: Asking) -> bool:
        """Whether it asked at the look before, and has done so since, with the same directory."""
        if self._asked is None:
            return False
        before, said = self._asked
        return (before, said.incarnation) == (node_id, asks.incarnation) and (
            asks.heard_at > said.heard_at + ON_THE_WAY_SECONDS
        )

    async def _why_not(
        self, catalog: CatalogReplica, node_id: NodeId, asking: Mapping[NodeId, Asking]
    ) -> str | None:
        if self._host.services.clock.monotonic() < self._not_before:
            return (
                f"a node was replaced less than {AGAIN_SECONDS:.0f} s ago: find out why data "
                "directories are lost"
            )
        nodes = self._host.all_nodes()
        seen = await overviews(self._host.ask_any, [node for node in nodes if node != node_id])
        whole = {
            node: not (told.groups_recovering or told.groups_held or told.groups_without_leader)
            for node, told in seen.items()
        }
        is_up = self._host.is_peer_up(node_id)
        state, own = catalog.state, catalog.own_group
        return why_not_unasked(state, own, node_id, asking, whole, nodes, is_up=is_up)

    async def _replace(self, node_id: NodeId) -> None:
        def fill(request: pb.Request) -> None:
            request.replace_node.node_id = node_id

        own = self._host.services.node_id
        response = await self._host.ask_any(own, fill, seconds=ASK_SECONDS)
        if response is None or response.WhichOneof("result") != "replacement":
            said = "no answer in time" if response is None else response.refusal.message
            self._say_left(node_id, said)
        elif not response.replacement.refused:
            self.replaced += 1
            self._not_before = self._host.services.clock.monotonic() + AGAIN_SECONDS
            self._host.services.log.warning(
                "lost_node_replaced", lost_node=node_id, ordinal=response.replacement.ordinal
            )

    def _say_left(self, node_id: NodeId, reason: str) -> None:
        count = self._refusals.note(self._host.services.clock.monotonic())
        if count is not None:
            self._host.services.log.warning(
                "lost_node_not_replaced", lost_node=node_id, reason=reason, looks=count
            )
