"""What the nodes bear, as the catalog's leader has asked them of late, for where new basins go.

Nobody asks while no basin is made. It decides nothing but places: where nothing is known, or a node
does not answer, basins are placed by the number of replicas, as the rules want them all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from typing import Final

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.steps_in_turns import in_turns
from svc_cluster.base.tasks import Tasks
from svc_cluster.catalog.placement_loads import Load, sum_steps
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.host import Host
from svc_cluster.replica.node_questions import leaders_of_all

RECENT_SECONDS: Final = 60.0
"""For so long behind an answer nobody is asked again."""

WAIT_SECONDS: Final = 0.5
"""So long the first creation behind that waits for the answers; what comes later is for the next
one."""


class NodeLoads:
    """One for each node. It asks where a basin is to be made, hence on the catalog's leader."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._tasks = Tasks()
        self._asking: asyncio.Task[None] | None = None
        self._asked_at = float("-inf")
        self._known: Mapping[NodeId, Load] = {}

    async def recent(self, catalog: CatalogReplica) -> Mapping[NodeId, Load]:
        """Return what is known of the nodes: the groups whose leaders have answered."""
        now = self._host.services.clock.monotonic()
        is_due = now - self._asked_at >= RECENT_SECONDS and catalog.group.is_serving
        if is_due and self._asking is None:
            self._asked_at = now
            self._asking = self._tasks.spawn_one(self._ask(catalog), "loads of nodes")
        if self._asking is not None:
            await asyncio.wait([self._asking], timeout=WAIT_SECONDS)
        return self._known

    async def _ask(self, catalog: CatalogReplica) -> None:
        try:
            nodes = self._host.all_nodes()
            leads = await leaders_of_all(self._host.ask_any, nodes, with_loads=True)
            found: dict[NodeId, Load] = {}
            await in_turns(_summed(catalog, leads.loads, found))
            self._known = found
        finally:
            self._asking = None

    async def stop(self) -> None:
        await self._tasks.cancel_all()


def _summed(
    catalog: CatalogReplica, loads: Mapping[GroupId, Load], found: dict[NodeId, Load]
) -> Generator[int, None, None]:
    known = catalog.state.basins_by_group
    members = (
        (group_id, record.replicas)
        for group_id in [*known]
        if (record := known.get(group_id)) is not None
    )
    return sum_steps(members, loads, found)
