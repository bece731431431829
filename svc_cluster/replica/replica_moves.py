"""The catalog's leader has replicas moved to where the planner of placement wants them.

Unasked it empties nodes that are drained or removed; everything else that a plan finds it begins
while an operator wishes it. What is open stands in the catalog's rows, so that whoever leads the
catalog next goes on with it; the wish is in memory, and who has it repeats it (docs/adr/0066).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.base.steps_in_turns import in_turns
from svc_cluster.base.tasks import Tasks
from svc_cluster.catalog.catalog_commands import CatalogCommand
from svc_cluster.catalog.group_change import CancelChange, beginning
from svc_cluster.catalog.member_changes import why_not_begun
from svc_cluster.catalog.node_rows import is_active, replacing
from svc_cluster.catalog.placement_loads import NO_LOAD
from svc_cluster.catalog.placement_model import (
    NodeStanding,
    PlacementGroup,
    PlacementNode,
    PlacementPlan,
    PlannedChange,
    Policy,
    Reason,
)
from svc_cluster.catalog.placement_plan import plan_steps
from svc_cluster.catalog.placement_queue import (
    GONE_SECONDS,
    PLANNED,
    OpenMoves,
    PlacementQueue,
    Watched,
    as_open,
    command_for,
    watched,
)
from svc_cluster.catalog.placement_view import (
    fewer_votes,
    leaving_catalog,
    placement_nodes,
    zones_of,
)
from svc_cluster.model import versions
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.host import Host
from svc_cluster.replica.looking import look_on
from svc_cluster.replica.node_questions import FIGURES, Leads, leaders_of_all, overviews

LOOK_SECONDS: Final = 1.0

WISH_SECONDS: Final = 15.0
"""For so long behind an operator's last word everything that a plan finds is begun."""

QUEUE_MAX: Final = 256
"""Changes of one plan, of which a few are open at one time."""

PLAN_SECONDS: Final = 2.0
"""Between two plans, at least; and ten times as long as the last one took."""

PLAN_SHARE: Final = 10

EMPTY_SECONDS: Final = 10.0
"""Behind a plan that found nothing to be begun, as long as the nodes are what they were."""

REST_SECONDS: Final = 30.0
"""The same where nobody wishes anything: a node that was removed stays in the rows for ever."""

WALK_GROUPS: Final = 512
"""Groups that are looked at in one turn of the event loop."""

CHANGE_SECONDS: Final = 4.0
"""So long the catalog may take for one command."""

Nodes = tuple[PlacementNode, ...]


@dataclass(slots=True)
class MovesProgress:
    """What has been done on this node since it leads the catalog, and why nothing is begun."""

    begun: int = 0
    given_up: int = 0
    waits: str = ""
    is_done: bool = False
    """A plan for all that is wished found nothing, and nothing is open."""
    open: list[Watched] = field(default_factory=list)


class ReplicaMoves:
    """One for each node. It acts where the node leads the catalog."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._tasks = Tasks()
        self._lock = asyncio.Lock()
        self._open = OpenMoves()
        self._queue = PlacementQueue()
        self._nodes: Nodes = ()
        """The nodes as the last plan saw them."""
        self._plan_at = float("-inf")
        self._wished_until = float("-inf")
        self._term = 0
        """In which the node leads the catalog, as looked at last; 0: it does not."""
        self.progress = MovesProgress()

    def start(self) -> None:
        self._tasks.spawn(look_on(self.look, LOOK_SECONDS, "replica moves"), "move replicas")

    async def stop(self) -> None:
        await self._tasks.cancel_all()

    def wish(self) -> None:
        """An operator wants everything carried out that a plan finds, for `WISH_SECONDS`."""
        now = self._now
        if now >= self._wished_until:
            self._plan_at = float("-inf")
            self._queue = PlacementQueue()
            self.progress.is_done = False
        self._wished_until = now + WISH_SECONDS

    @property
    def _now(self) -> float:
        return self._host.services.clock.monotonic()

    @property
    def is_wished(self) -> bool:
        return self._now < self._wished_until

    async def look(self) -> None:
        """Give up what leads nowhere, and begin what may begin."""
        async with self._lock:
            catalog = self._led()
            if catalog is None:
                self._forget()
                return
            if catalog.version.active < versions.SEALED_CONFIGURATIONS:
                self.progress.waits = "the cluster is not at a version at which replicas move"
                return
            if self._term != catalog.group.engine.term:
                self._forget()
                self._term = catalog.group.engine.term
                await self._see_all(catalog)
            else:
                self._see_known(catalog)
            await self._give_up(catalog)
            if self._is_wanted(catalog):
                await self._go_on(catalog)
            else:
                self.progress.waits = ""

    async def refresh(self) -> None:
        """Look at all that is open, also what others have ordered since the last plan."""
        async with self._lock:
            catalog = self._led()
            if catalog is not None:
                await self._see_all(catalog)

    def _led(self) -> CatalogReplica | None:
        catalog = self._host.catalog
        if catalog is None or not catalog.group.is_serving or self._host.draining:
            return None
        return catalog

    def _forget(self) -> None:
        self._term, self._plan_at = 0, float("-inf")
        self._nodes = ()
        self._open, self._queue, self.progress = OpenMoves(), PlacementQueue(), MovesProgress()

    def _is_wanted(self, catalog: CatalogReplica) -> bool:
        leaving = not all(map(is_active, catalog.state.nodes.values()))
        return leaving or self.is_wished

    # -- what is open

    async def _see_all(self, catalog: CatalogReplica) -> None:
        found = []
        groups = [CATALOG_GROUP, *sorted(catalog.state.basins_by_group)]
        for number, group_id in enumerate(groups, start=1):
            found += self._watched(catalog, group_id)
            if number % WALK_GROUPS == 0:
                await asyncio.sleep(0)
        self._see(found)

    def _see_known(self, catalog: CatalogReplica) -> None:
        self._see([one for group in self._open.changes for one in self._watched(catalog, group)])

    def _see(self, found: list[Watched]) -> None:
        self._open.see(found, self._now)
        self.progress.open = found

    def _watched(self, catalog: CatalogReplica, group_id: GroupId) -> list[Watched]:
        row = catalog.group_row(group_id)
        found = None if row is None else watched(row)
        return [] if found is None else [found]

    def _is_up(self, node_id: NodeId) -> bool:
        return node_id == self._host.services.node_id or self._host.is_peer_up(node_id)

    async def _give_up(self, catalog: CatalogReplica) -> None:
        nodes, now = catalog.state.nodes, self._now
        for one in self._open.to_give_up(nodes, self._is_up, now, GONE_SECONDS):
            command = CancelChange(one.group_id, one.change_id)
            if await self._say(catalog, partial(_same, command)):
                self.progress.given_up += 1
                self._log("replica_move_given_up", one.group_id, one.to, one.reason)
        self._see_known(catalog)

    # -- what begins

    async def _go_on(self, catalog: CatalogReplica) -> None:
        busy = replacing(catalog.state.nodes)
        if busy is not None:
            self.progress.waits = f"node {busy} is being replaced"
            return
        nodes = tuple(placement_nodes(catalog.state, catalog.initial))
        if _standings(nodes) != _standings(self._nodes):
            self._queue, self._plan_at = PlacementQueue(), float("-inf")
        if not len(self._queue) and self._now >= self._plan_at:
            await self._take_votes(catalog)
            await self._plan(catalog, nodes)
        for change in self._queue.take(self._open.changes.values()):
            await self._begin(catalog, change)

    async def _take_votes(self, catalog: CatalogReplica) -> None:
        """Have fewer votes in the catalog where one leaves that nobody else could have."""

        def sequence() -> CatalogCommand | None:
            own = catalog.own_group
            away = {node for node in catalog.state.nodes if not self._is_up(node)}
            votes = fewer_votes(own, catalog.state.nodes, away)
            if votes is None or own.change is not None or away & {*votes}:
                return None
            command = beginning(own, votes, PLANNED + Reason.DRAIN.name.lower())
            return None if why_not_begun(own, catalog.state.nodes, command) else command

        if await self._say(catalog, sequence):
            self.progress.begun += 1

    async def _plan(self, catalog: CatalogReplica, nodes: Nodes) -> None:
        began, everything = self._now, self.is_wished
        there = [one.node_id for one in nodes if one.standing is not NodeStanding.LOST]
        seen = await overviews(self._host.ask_any, there, FIGURES)
        leads = Leads({}, {}, {})
        if everything:
            leads = await leaders_of_all(self._host.ask_any, seen, with_loads=True)
        await self._see_all(catalog)
        slow = self._open.slow(self._now)
        # whose catalog is damaged opens nothing that comes
        able = {
            n
            for n, told in seen.items()
            if told.takes_appends and n not in slow and not told.groups_recovering
        }
        placed = [replace(one, takes_more=one.node_id in able) for one in nodes]
        not_whole = [n for n, told in seen.items() if told.groups_recovering or told.groups_held]
        silent = {*there} - {*seen}
        away = {one.node_id for one in nodes if one.standing is NodeStanding.ACTIVE} & silent
        self.progress.waits = _why_slow(sorted(away), sorted(not_whole))
        may_balance = everything and not (away or not_whole)
        steps = _steps(catalog, placed, leads, silent, self._open, everything=may_balance)
        found = await in_turns(steps)
        self._nodes = nodes
        changes = [one for one in found.changes if may_balance or _leaves(placed, one)]
        self._queue = PlacementQueue(changes)
        took = self._now - began
        pause = EMPTY_SECONDS if everything else REST_SECONDS
        if changes or self._open.changes:
            pause = PLAN_SECONDS
        self._plan_at = self._now + max(pause, PLAN_SHARE * took)
        is_over = not (changes or self._open.changes)
        self.progress.is_done = may_balance and is_over

    async def _begin(self, catalog: CatalogReplica, change: PlannedChange) -> None:
        """Begin a change as long as all of its next members are there; the next plan has what was
        not begun."""
        if not all(self._is_up(node) for node in change.members):
            return

        def sequence() -> CatalogCommand | None:
            return command_for(change, catalog.group_row(change.group_id), catalog.state.nodes)

        if await self._say(catalog, sequence):
            self.progress.begun += 1
            self.progress.is_done = False
            reason = change.reason.name.lower()
            self._log("replica_move_begun", change.group_id, change.members, reason)
        found = self._watched(catalog, change.group_id)
        self._see([*self._open.changes.values(), *found])

    async def _say(
        self, catalog: CatalogReplica, sequence: Callable[[], CatalogCommand | None]
    ) -> bool:
        """Whether the command was made and took effect; the next look sees what came of others."""
        is_made = False

        def make(_: object) -> CatalogCommand | None:
            nonlocal is_made
            command = sequence()
            is_made = command is not None
            return command

        try:
            await catalog.change(make, self._now + CHANGE_SECONDS)
        except ServiceError:
            return False
        return is_made

    def _log(self, event: str, group_id: GroupId, to: Collection[NodeId], reason: str) -> None:
        self._host.services.log_of(group_id).info(event, to=list(to), reason=reason)


def _same(command: CatalogCommand) -> CatalogCommand:
    return command


def _standings(nodes: Nodes) -> list[tuple[NodeId, NodeStanding]]:
    return [(one.node_id, one.standing) for one in nodes]


def _why_slow(away: list[NodeId], not_whole: list[NodeId]) -> str:
    if away:
        return f"node {away[0]} is away: loads are not evened out, and its groups stay"
    if not_whole:
        return f"replicas on node {not_whole[0]} are not whole: loads are not evened out"
    return ""


def _leaves(nodes: list[PlacementNode], change: PlannedChange) -> bool:
    """Whether the change empties a node that is drained or removed."""
    active = {one.node_id for one in nodes if one.standing is NodeStanding.ACTIVE}
    return change.leaving not in active


def _steps(
    catalog: CatalogReplica,
    nodes: list[PlacementNode],
    leads: Leads,
    away: Collection[NodeId],
    opened: OpenMoves,
    *,
    everything: bool,
) -> Generator[int, None, PlacementPlan]:
    """The plan of the cluster as it is now. Of a group with a member on a node that is away nothing
    else moves: the others are needed. Without `everything`, groups stay that no node has to lose.
    """
    active = {one.node_id for one in nodes if one.standing is NodeStanding.ACTIVE}
    zones = {place.name: zones_of(place.name, nodes) for place in catalog.offered}
    policy = Policy(zones, incoming_max=QUEUE_MAX, changes_max=QUEUE_MAX)
    groups: list[PlacementGroup] = []
    loads = leads.whole_loads
    leaving = leaving_catalog(catalog.own_group, catalog.state.nodes, away)
    if leaving is not None:
        groups.append(leaving)
    for number, group_id in enumerate(sorted(catalog.state.basins_by_group), start=1):
        if number % WALK_GROUPS == 0:
            yield 1
        record = catalog.state.basins_by_group.get(group_id)
        if record is None:
            continue
        members = record.replicas
        stays = record.deleted_at_ms is not None or len(members) == 1
        groups.append(
            PlacementGroup(
                group_id,
                members,
                record.location,
                load=loads.get(group_id, NO_LOAD),
                leader=leads.leaders.get(group_id),
                recovering=frozenset(node for node in members if node in away),
                is_fixed=stays or not (everything or any(one not in active for one in members)),
            )
        )
    found = yield from plan_steps(nodes, groups, as_open(opened.changes.values()), policy)
    while groups:
        del groups[-WALK_GROUPS:]
        yield 1
    return found
