"""Leads are evened out over the nodes by hand-over: on the leader of the catalog, one at a time.

After a rolling restart the nodes that were up first lead all groups; nobody but this moves leads to
those that came later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.base.steps_in_turns import in_turns
from svc_cluster.base.tasks import Tasks
from svc_cluster.catalog.lead_plan import MOVES_MAX, STEP_GROUPS, LeadMove, plan_steps, spread
from svc_cluster.replica.host import Host
from svc_cluster.replica.looking import look_on
from svc_cluster.replica.node_questions import (
    FIGURES,
    PLACE,
    Ask,
    leaders_of_all,
    members_of,
    overviews,
)
from svc_cluster.replica.standing_drain import LOOK_SECONDS, StandingDrain

AT_ONCE_MAX: Final = 8
"""Hand-overs of the cluster at one time: each lets the writes of its group wait for a moment."""

ROUND_SECONDS: Final = 1.5
"""A round begins no hand-over later than that; what is left is another round's."""

LOOKS: Final = 2
"""Looks in a row that find the leads uneven before they are moved unasked: a node that has just
come, or is about to go, is left alone."""

FAILED_SECONDS: Final = 600.0
"""A group that a node did not take over is not planned for it again for so long: its replica there
may be stopped or parked, and the group's writes would stand still for nothing."""

FAILED_MAX: Final = 4096
"""Such pairs that are known at one time, the oldest of them forgotten first."""

QUIET_LOOKS_MAX: Final = 60
"""Looks that are left out, at most, behind rounds that moved nothing."""


class LeadBalance:
    """One for each node. It acts where the node leads the catalog."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = asyncio.Lock()
        self._tasks = Tasks()
        self.drain = StandingDrain(host)
        self._uneven = 0
        self._left_out = 0
        self._fruitless = 0
        self._failed: dict[tuple[GroupId, NodeId], float] = {}
        """When a taker last did not take a group over."""
        self.moved = 0
        """Leads that were moved by rounds on this node."""

    def start(self) -> None:
        """Look now and then, where the settings say so; at the own drain in any case."""
        self._tasks.spawn(look_on(self.drain.look, LOOK_SECONDS, "drain"), "drain")
        if self._host.settings.balance_seconds:
            looks = look_on(self._look, self._host.settings.balance_seconds, "leads")
            self._tasks.spawn(looks, "balance leads")

    async def stop(self) -> None:
        await self._tasks.cancel_all()

    @property
    def _ask(self) -> Ask:
        return self._host.ask_any

    async def round(self, *, dry_run: bool = False) -> pb.LeadBalance:
        """Ask all nodes, plan, and move what can be moved in `ROUND_SECONDS`. One round at a time:
        a second caller's begins when the first is over."""
        async with self._lock:
            told, moves = await self._plan()
            for move in moves:
                told.moves.add(group_id=move.group_id, from_node=move.giver, to_node=move.taker)
            if not dry_run:
                await self._perform(moves, told)
            return told

    async def _plan(self) -> tuple[pb.LeadBalance, list[LeadMove]]:
        nodes = self._host.all_nodes()
        seen = await overviews(self._ask, nodes, PLACE)
        leads = await leaders_of_all(self._ask, seen)
        counts, leaders = leads.counts, leads.leaders
        takers = [node for node in counts if not seen[node].avoids_leads]
        members = await self._members(leaders)
        moves = await in_turns(plan_steps(leaders, members, takers, fixed=(CATALOG_GROUP,)))
        catalog = self._host.catalog
        known = 0 if catalog is None else len(catalog.state.basins_by_group) + 1
        told = pb.LeadBalance(
            has_more=len(moves) >= MOVES_MAX, without_leader=max(known - len(leaders), 0)
        )
        for node, led in sorted(counts.items()):
            told.counts.add(node_id=node, led=led, avoids_leads=node not in takers)
        return told, moves

    async def _members(self, leaders: Mapping[GroupId, NodeId]) -> dict[GroupId, list[NodeId]]:
        """Who may lead each group: its members, but those that did not take it over of late."""
        now = self._host.services.clock.monotonic()
        self._failed = {pair: at for pair, at in self._failed.items() if now - at < FAILED_SECONDS}
        members: dict[GroupId, list[NodeId]] = {}
        for number, group_id in enumerate(leaders, start=1):
            able = [
                node
                for node in members_of(self._host, group_id)
                if (group_id, node) not in self._failed
            ]
            if able:
                members[group_id] = able
            if number % STEP_GROUPS == 0:
                await asyncio.sleep(0)
        return members

    async def _perform(self, moves: list[LeadMove], told: pb.LeadBalance) -> None:
        clock = self._host.services.clock
        until = clock.monotonic() + ROUND_SECONDS
        waiting = deque(enumerate(moves))

        async def work() -> None:
            # who goes itself decides nothing any more
            while waiting and clock.monotonic() < until and not self._host.draining:
                place, move = waiting.popleft()
                told.moves[place].done = await self._move(move)

        await asyncio.gather(*(work() for _ in range(min(AT_ONCE_MAX, len(moves)))))
        told.has_more = told.has_more or bool(waiting)
        told.moved = sum(move.done for move in told.moves)
        self.moved += told.moved
        if moves:
            self._host.services.log.info("leads_balanced", planned=len(moves), moved=told.moved)

    async def _move(self, move: LeadMove) -> bool:
        def fill(request: pb.Request) -> None:
            request.give_lead.to = move.taker

        response = await self._ask(move.giver, fill, move.group_id)
        if response is not None and response.WhichOneof("result") == "done":
            return True
        if response is None or _cannot(response.refusal):
            self._note_failed(move)
        return False

    def _note_failed(self, move: LeadMove) -> None:
        """The next plans have another group or another taker in its place."""
        note_failed(
            self._failed, (move.group_id, move.taker), self._host.services.clock.monotonic()
        )

    # -- unasked

    async def _look(self) -> None:
        """Cheap as long as the leads are even: one small question to each node."""
        catalog = self._host.catalog
        if catalog is None or not catalog.group.is_serving or self._host.draining:
            self._uneven = self._left_out = self._fruitless = 0
            return
        if self._left_out:
            self._left_out -= 1
            return
        nodes = self._host.all_nodes()
        seen = await overviews(self._ask, nodes, FIGURES)
        self._uneven = self._uneven + 1 if _is_uneven(seen, len(nodes)) else 0
        if self._uneven < LOOKS:
            return
        self._uneven = 0
        told = await self.round()
        # the members of the groups may not allow more: ask ever more seldom
        self._fruitless = 0 if told.moved else self._fruitless + 1
        self._left_out = min(2**self._fruitless, QUIET_LOOKS_MAX) if self._fruitless else 0


def note_failed(
    failed: dict[tuple[GroupId, NodeId], float], pair: tuple[GroupId, NodeId], now: float
) -> None:
    """The newest stands last, one that is known already too; of `FAILED_MAX` others the oldest is
    given up for it."""
    failed.pop(pair, None)
    while len(failed) >= FAILED_MAX:
        del failed[next(iter(failed))]
    failed[pair] = now


def _cannot(refusal: pb.Refusal) -> bool:
    """Whether the same move would fail again: not for one that was only not begun."""
    return refusal.code == UnavailableError.code.value and not refusal.not_leader


def _is_uneven(seen: dict[NodeId, pb.NodeOverview], nodes: int) -> bool:
    """Whether leads are to be moved unasked: while all are there and whole, and none is going."""
    is_whole = not any(
        one.groups_recovering or one.groups_held or one.failed_checks for one in seen.values()
    )
    if len(seen) < nodes or not is_whole:
        return False
    return spread([one.groups_led for one in seen.values() if not one.avoids_leads]) > 1
