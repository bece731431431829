"""What is to be moved for replicas to be where the rules want them, by the catalog's leader."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.steps_in_turns import in_turns
from svc_cluster.catalog.placement_model import PlacementGroup, PlacementPlan, Policy
from svc_cluster.catalog.placement_plan import plan_steps
from svc_cluster.catalog.placement_view import (
    open_changes,
    placement_groups,
    placement_nodes,
    zones_of,
)
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.host import Host
from svc_cluster.replica.node_questions import Leads, leaders_of_all
from svc_cluster.replica.repeatable import Fill, Operation
from svc_cluster.replica.replica_moves import ReplicaMoves

STEP_GROUPS: Final = 512
"""Groups that are looked at in one turn of the event loop."""

TOLD_MAX: Final = 1000
"""Changes of one plan that is only told, some 30 KiB of them."""


class Rebalancing:
    """The operation `plan_placement`. `find` raises for a node that has no catalog."""

    def __init__(
        self, find: Callable[[pb.Request], CatalogReplica], host: Host, moves: ReplicaMoves
    ) -> None:
        self._catalog = find
        self._host = host
        self._moves = moves
        self.operations: dict[str, Operation] = {"plan_placement": self._tell}

    async def _tell(self, request: pb.Request) -> Fill:
        """All that one plan finds, whatever may begin at one time, or how far it is carried out."""
        catalog, asked = self._catalog(request), request.plan_placement
        await catalog.linearize()
        if asked.carry_out and not asked.progress_only:
            self._moves.wish()
            return self._progress
        await self._moves.refresh()
        if asked.progress_only:
            return self._progress
        nodes = self._host.all_nodes()
        leads = await leaders_of_all(self._host.ask_any, nodes, with_loads=True)
        found = await in_turns(_steps(catalog, leads))

        def fill(response: pb.Response) -> None:
            out = response.placement_plan
            for change in found.changes:
                out.changes.add(
                    group_id=change.group_id,
                    from_node=change.leaving,
                    to_node=change.coming,
                    reason=change.reason.name.lower(),
                )
            for move in found.transfers:
                out.transfers.add(group_id=move.group_id, from_node=move.giver, to_node=move.taker)
            out.has_more = found.has_more
            self._progress(response)

        return fill

    def _progress(self, response: pb.Response) -> None:
        progress, out = self._moves.progress, response.placement_plan.progress
        out.begun, out.given_up = progress.begun, progress.given_up
        out.is_done, out.waits = progress.is_done, progress.waits
        for one in progress.open[:TOLD_MAX]:
            out.open.add(
                group_id=one.group_id, to=one.to, reason=one.reason, given_up=one.is_given_up
            )


def _steps(catalog: CatalogReplica, leads: Leads) -> Generator[int, None, PlacementPlan]:
    state = catalog.state
    nodes = placement_nodes(state, catalog.initial)
    zones = {place.name: zones_of(place.name, nodes) for place in catalog.offered}
    policy = Policy(zones, incoming_max=TOLD_MAX, changes_max=TOLD_MAX)
    groups: list[PlacementGroup] = []
    for group in placement_groups(state, catalog.own_group, leads.leaders, leads.whole_loads):
        groups.append(group)
        if len(groups) % STEP_GROUPS == 0:
            yield 1
    found = yield from plan_steps(
        nodes, groups, open_changes([catalog.own_group, *state.basins.values()]), policy
    )
    while groups:
        del groups[-STEP_GROUPS:]
        yield 1
    return found
