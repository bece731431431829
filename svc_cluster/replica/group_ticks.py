"""The ticks of one node's groups, and how long it takes nobody's silence for an end.

A node that is behind with what it has to do has not heard yet what others have sent. Who counted
that as silence would elect, which makes more of it, without an end. So groups are told with each
tick by how much elections wait. The catalog never is: gateways count on another leader of it in
time (ADR 0035).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from svc_cluster.raft.group import Tick
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.group_walks import GroupWalks

if TYPE_CHECKING:
    from svc_cluster.replica.host import Replica

AT_EASE_GROUPS: Final = 200
"""Groups of a node that may be awake while it hears each in time, on two slow processors that three
nodes share."""

GRACE_SECONDS_A_GROUP: Final = 0.0025
"""For each group beyond that, elections wait so much longer at most."""

GRACE_SECONDS_MAX: Final = 2.0
"""However many there are: a leader without a quorum steps down by then, and what was lost without
a word of its connections is missed."""

GRACE_A_SECOND_BEHIND: Final = 10.0
"""Messages wait in more lines than one tick does, each as long as that or longer."""

BEHIND_SECONDS: Final = 2.0
"""For so long a node counts as being as far behind as it once was: what came then is still dealt
with."""


class Backlog:
    """How far a node is behind, by its own ticks."""

    def __init__(self) -> None:
        self._behind = 0.0
        self._found_at = float("-inf")

    def ticked(self, due: float, now: float) -> None:
        """Every group that is awake was ticked, by `now`, which was to be at `due`."""
        behind = max(0.0, now - due)
        if behind >= self._behind or now - self._found_at > BEHIND_SECONDS:
            self._behind, self._found_at = behind, now

    def grace(self, awake: int) -> float:
        """Return the seconds that elections wait beyond the usual, where so many groups are awake.
        It is 0 on a node that is at ease, however many there are."""
        most = min(GRACE_SECONDS_MAX, GRACE_SECONDS_A_GROUP * max(0, awake - AT_EASE_GROUPS))
        return min(most, GRACE_A_SECOND_BEHIND * self._behind)


class GroupTicks:
    """Those of one node."""

    def __init__(
        self,
        services: GroupServices,
        walks: GroupWalks,
        seconds: float,
        before: Callable[[], None],
        guarded: Callable[[Callable[..., object]], Callable[..., None]],
    ) -> None:
        """`seconds`: from one tick to the next. `before` is called before each. `guarded`: see
        `Host.guarded`."""
        self.seconds = seconds
        self.grace = 0.0
        """See `Tick.grace`."""
        self._services = services
        self._walks = walks
        self._before = before
        self._next = guarded(self.tick)
        self._handle: asyncio.TimerHandle | None = None
        self._backlog = Backlog()
        self._due: float | None = None

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def of(self, group_id: GroupId, now: float) -> Tick:
        """Return the tick that a group of this number is given now."""
        return Tick(now, 0.0 if group_id == CATALOG_GROUP else self.grace)

    def tick(self) -> None:
        """Tick every group that is awake, and again after a while."""
        if self._due is None:
            self._due = self._services.clock.monotonic()
        self._before()
        awake = self._services.rest.awake()
        self.grace = self._backlog.grace(len(awake))
        self._walks.start(awake, self._tick_group, self._ticked, is_tick=True)

    def _tick_group(self, replica: Replica) -> None:
        group, now = replica.group, self._services.clock.monotonic()
        rest = group.rest
        if rest.asleep:
            return  # since the walk began
        if not rest.pace.is_due(now, rest.uses, waits=not replica.proposer.is_idle):
            return
        group.step(self.of(group.group_id, now))
        try:
            group.sweep(now)
            replica.proposer.sweep(now)
        except Exception as fault:
            group.fail(fault)

    def _ticked(self) -> None:
        assert self._due is not None, "a tick is over"
        now = self._services.clock.monotonic()
        self._backlog.ticked(self._due, now)
        pause = self._services.rest.tick_seconds(self.seconds)
        self._due = now + pause
        self._handle = self._services.loop.call_later(pause, self._next)
