"""How often one group is ticked: what is at work with every tick of its node, what is calm with one
in some.

A tick is what lets a group's time pass: for elections, heartbeats, and those who wait. A group that
hears its peers, and in which nobody waits for anything, has but its heartbeats to give. Messages
are heard at the time it is: a group that was not ticked for a while is ticked ahead of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from svc_cluster.raft.group import Role

if TYPE_CHECKING:
    from svc_cluster.replica.group_replica import AnyGroup

CALM_TICK_SECONDS: Final = 0.1
"""From one tick of a calm group to the next, at least: the time between two heartbeats, each of
which the ticks of its node bring then at most one of these late."""

SILENCE_SECONDS: Final = 0.25
"""A group that hears nobody for so long is not calm: more than two heartbeats, and half of the time
behind which a follower may stand for election."""


class TickPace:
    """The one of a group. All times are monotonic seconds."""

    __slots__ = ("_calm_at_stir", "_group", "_heard_at", "_stepped_at", "_ticked_at", "_uses")

    def __init__(self, group: AnyGroup) -> None:
        self._group = group
        self._heard_at = self._ticked_at = self._stepped_at = float("-inf")
        # what is ticked ahead of a message counts for those alone: its heartbeats are due by the
        # node's ticks, of which it must not take the one that would have brought them
        self._uses = -1
        self._calm_at_stir = -1
        """What the group's `stirs` were when it was last found settled: it is so until they differ,
        and to find it is dear."""

    def is_due(self, now: float, uses: int, *, waits: bool) -> bool:
        """Whether the group is to be ticked now, which is taken for done if so. `uses` differs when
        something was asked of it; `waits`: somebody waits for what the group does not know of."""
        is_early = now - self._ticked_at < CALM_TICK_SECONDS
        if is_early and uses == self._uses and not waits and self._is_calm(now):
            return False
        self._ticked_at = self._stepped_at = now
        self._uses = uses
        return True

    def hears(self, now: float, usual: float) -> bool:
        """A message of a peer is about to be dealt with. Returns whether the group is to be ticked
        ahead of it, as it was not within the `usual` time, which is taken for done if so."""
        self._heard_at = now
        if now - self._stepped_at <= usual:
            return False
        self._stepped_at = now
        return True

    def _is_calm(self, now: float) -> bool:
        group = self._group
        engine = group.engine
        if now - self._heard_at >= SILENCE_SECONDS and len(engine.members) > 1:
            return False
        if self._calm_at_stir == group.stirs:
            return True
        is_calm = engine.role in (Role.LEADER, Role.FOLLOWER) and group.is_settled
        self._calm_at_stir = group.stirs if is_calm else -1
        return is_calm
