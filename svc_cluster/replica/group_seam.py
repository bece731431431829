"""The seam between two configurations of a group, where one replica of it meets that."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.ids import NodeId
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.feed import Feed
from svc_cluster.raft.group import NotLeaderError
from svc_cluster.raft.seal import GroupSeal
from svc_cluster.replica.seamed import seam_of

if TYPE_CHECKING:
    from svc_cluster.replica.group_replica import GroupReplica


class GroupSeam:
    """This is how one replica seals its configuration, hears of later ones, and leaves it."""

    def __init__(self, group: GroupReplica[Any]) -> None:
        self._group = group
        self.on_ended: Callable[[Configuration], None] = _nobody_begins
        """Told of the next configuration when this one has ended: nothing is left to be done in it.
        """
        self.on_behind: Callable[[], None] = _nobody_asks
        """Told that a peer speaks of a later configuration than is known here."""
        self.heard_at: dict[NodeId, float] | None = None
        """When each peer was heard last; None: nobody wants to know."""
        self.is_ending = False
        """What the engine still has to write is written, and nothing is applied any more."""

    def heard(self, sender: NodeId, now: float) -> None:
        """A peer has said something. `now` is monotonic."""
        if self.heard_at is not None:
            self.heard_at[sender] = now

    def seal(self, seal: GroupSeal) -> bool:
        """End the configuration with this entry, which may be lost. Whether the log has it now."""
        group = self._group
        engine = group.engine
        assert isinstance(engine, EngineGroup), "only who leads seals"
        group.rest.used()
        is_sealed = False

        def seal_it() -> None:
            nonlocal is_sealed
            try:
                engine.seal(seal)
            except NotLeaderError:
                return
            is_sealed = True

        group.have(seal_it)
        return is_sealed

    def take(self, feed: Feed) -> None:
        """Somebody tells what is decided. What contradicts that is refused, and logged."""
        seam = seam_of(self._group.engine)
        if not self._group.stopped and seam is not None:
            self._group.have(partial(seam.take, feed))

    def learn(self, configuration: Configuration) -> None:
        """Somebody tells a configuration that has begun."""
        seam = seam_of(self._group.engine)
        if not self._group.stopped and seam is not None:
            self._group.have(partial(seam.learn, configuration))

    def look_for_end(self) -> None:
        """Hand over to the next configuration once this one has ended here. What the engine still
        has to write is written before; nothing is applied meanwhile."""
        group = self._group
        seam = seam_of(group.engine)
        if seam is None or group.stopped or self.is_ending:
            return
        if seam.behind is not None:
            self.on_behind()
        if seam.next_at(group.applied_index) is None:
            return
        self.is_ending = True
        group.drain_now()
        next_one = seam.next_at(group.applied_index)
        if next_one is not None and not group.stopped:
            group.refuse_above(next_one.seal_index)
            self.on_ended(next_one)


def _nobody_begins(next_one: Configuration) -> None:
    """Nobody is told."""


def _nobody_asks() -> None:
    """Nobody is told."""
