"""What begins next of a plan, and which changes that are open are given up. Pure.

A plan of a large cluster takes a while to make, so it is made for more changes than may be open at
one time, and what it found begins as those before it end.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.catalog.group_change import BeginChange, GroupRow, beginning
from svc_cluster.catalog.member_changes import why_not_begun
from svc_cluster.catalog.node_rows import NodeRecord, is_active
from svc_cluster.catalog.placement_model import (
    CHANGES_MAX,
    INCOMING_MAX,
    OpenChange,
    PlannedChange,
    Reason,
)

PLANNED: Final = "planned: "
"""How the reason of a change begins that no operator has asked for."""

GONE_SECONDS: Final = 60.0
"""A planned change of whose next members one is away for so long is given up: its place in the
limits is for others, and the planner finds another node."""

SLOW_SECONDS: Final = 600.0
"""A node to which a change is open for longer is planned for no other group: it may be full, slow
or in want of an operator."""


@dataclass(frozen=True, slots=True)
class Watched:
    """It is a change that is open, as the catalog's leader follows it."""

    group_id: GroupId
    change_id: int
    coming: tuple[NodeId, ...]
    to: tuple[NodeId, ...]
    reason: str
    is_given_up: bool

    @property
    def is_planned(self) -> bool:
        return self.reason.startswith(PLANNED)


def watched(record: GroupRow) -> Watched | None:
    """None: no change of its members is open."""
    change = record.change
    if change is None:
        return None
    coming = tuple(node for node in change.replicas if node not in record.replicas)
    return Watched(
        record.group_id,
        change.change_id,
        coming,
        change.replicas,
        change.reason,
        change.is_cancelled,
    )


def as_open(changes: Iterable[Watched]) -> list[OpenChange]:
    """The same as the planner counts them."""
    return [OpenChange(one.group_id, one.coming, one.to) for one in changes]


class PlacementQueue:
    """What a plan found and nobody has begun yet, the most urgent first."""

    def __init__(self, changes: Iterable[PlannedChange] = ()) -> None:
        self._waiting = deque(changes)

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, in_flight: Collection[Watched]) -> list[PlannedChange]:
        """Take out what may begin now: as many as the planner's limits leave beside open ones."""
        groups = {one.group_id for one in in_flight}
        incoming = Counter(node for one in in_flight for node in one.coming)
        room = CHANGES_MAX - len(in_flight)
        taken: list[PlannedChange] = []
        left: deque[PlannedChange] = deque()
        while self._waiting and len(taken) < room:
            change = self._waiting.popleft()
            if change.group_id in groups:
                continue  # it was planned without that one
            if incoming[change.coming] >= INCOMING_MAX:
                left.append(change)
                continue
            groups.add(change.group_id)
            incoming[change.coming] += 1
            taken.append(change)
        self._waiting = left + self._waiting
        return taken


class OpenMoves:
    """The open changes of the cluster as its catalog's leader has come to know them. Since when it
    has known is in its memory alone: who leads next begins to count anew."""

    def __init__(self) -> None:
        self.changes: dict[GroupId, Watched] = {}
        self._since: dict[int, float] = {}
        self._gone_since: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self.changes)

    def see(self, changes: Iterable[Watched], now: float) -> None:
        """All that are open now; what is not among them is over."""
        self.changes = {one.group_id: one for one in changes}
        known = {one.change_id for one in self.changes.values()}
        self._since = {number: self._since.get(number, now) for number in known}
        self._gone_since = {n: at for n, at in self._gone_since.items() if n in known}

    def slow(self, now: float) -> set[NodeId]:
        """Nodes that have not taken something in for a long time."""
        return {
            node
            for one in self.changes.values()
            if now - self._since[one.change_id] > SLOW_SECONDS
            for node in one.coming
        }

    def to_give_up(
        self,
        nodes: Mapping[NodeId, NodeRecord],
        is_up: Callable[[NodeId], bool],
        now: float,
        gone_seconds: float = GONE_SECONDS,
    ) -> list[Watched]:
        """The planned ones whose next node is not to have it any more, or of whose next members one
        is away for too long."""
        found = []
        for one in self.changes.values():
            if not one.is_planned or one.is_given_up:
                continue
            # who stays is needed as well: without it the change is never sealed
            is_there = all(is_up(node) for node in one.to)
            if is_there:
                self._gone_since.pop(one.change_id, None)
            since = self._gone_since.get(one.change_id)
            if since is None and not is_there:
                since = self._gone_since[one.change_id] = now
            is_gone = since is not None and now - since >= gone_seconds
            if is_gone or not all(takes_replicas(nodes, node) for node in one.coming):
                found.append(one)
        return found


def takes_replicas(nodes: Mapping[NodeId, NodeRecord], node_id: NodeId) -> bool:
    """Whether replicas may go to this node by its row."""
    return node_id in nodes and is_active(nodes[node_id])


def command_for(
    change: PlannedChange, record: GroupRow | None, nodes: Mapping[NodeId, NodeRecord]
) -> BeginChange | None:
    """The command that begins a planned change; None: it is not what is wanted any more."""
    if record is None or record.deleted_at_ms is not None:
        return None
    before = {change.leaving if one == change.coming else one for one in change.members}
    if set(record.replicas) != before or not takes_replicas(nodes, change.coming):
        return None
    if change.reason is Reason.DRAIN and takes_replicas(nodes, change.leaving):
        return None  # it is drained no more
    reason = PLANNED + change.reason.name.lower()
    command = beginning(record, change.members, reason)
    if why_not_begun(record, nodes, command) is not None:
        return None
    return command
