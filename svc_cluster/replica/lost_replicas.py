"""This tells whether replicas may be missing from a node's log, and makes those in their place.

None of these knows what its predecessor has promised, so each recovers before it counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.log_ops import CreateReplica, RecoveredLog
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.replica.generations import Generations
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.group_services import GroupServices


class LostReplicas:
    """The doubt of one node about its own log. It lasts over restarts, until it is settled."""

    def __init__(self, services: GroupServices, generations: Generations) -> None:
        self._services = services
        self._generations = generations
        self.are_possible = False
        """A replica that the log does not name cannot know what it promised."""

    def look(self, begin: Callable[[], None], *, gone: bool) -> None:
        """Take the doubt from the log, or note it there where the log is `gone`; then `begin`."""
        wal = self._services.wal
        self.are_possible = gone or wal.has_losses
        if self.are_possible:
            self._services.log.warning(
                "log_lost_frames", reason="replicas that it does not name are repaired first"
            )
        if gone and not wal.has_losses:
            # a start that is cut short behind the first frame would not know of it
            wal.note_losses(begin)
        else:
            begin()

    def new_log(self, group_id: GroupId) -> RecoveredLog:
        """Make a replica of which nothing is here."""
        generation = self._generations.new()
        # a vote needs a later frame of this group, so nothing has to wait for this one
        self._services.wal.append(group_id, [CreateReplica(generation)], None)
        if self.are_possible:
            self._services.wal.distrust(group_id)
        return RecoveredLog(group_id, generation, damaged=self.are_possible)

    def checked(self, log: RecoveredLog) -> RecoveredLog:
        """Distrust a replica of which only the beginning is there. It was made in another's place,
        and the frame that says so did not reach the disk. Distrust one whose bytes beside the state
        store are damaged too: no other is touched."""
        is_blank = not (log.term or log.entries or log.base_index)
        harm = self._services.store.harm
        if log.generation in harm.generations:
            # once its log says that it is damaged, nothing else needs to
            self._services.wal.distrust(log.group_id)
            self._services.wal.sync(partial(harm.forget, log.generation))
            return replace(log, damaged=True)
        if not self.are_possible or log.damaged or not is_blank:
            return log
        self._services.wal.distrust(log.group_id)
        return replace(log, damaged=True)

    def settle(self) -> None:
        """Every replica that may have been lost is here again, distrusted: others are new."""
        if self.are_possible:
            self.are_possible = False
            self._services.wal.settle_losses()


def is_lost_for_good(group: AnyGroup, record: BasinRecord | None, own: NodeId) -> bool:
    """Whether the replica here recovers and was the only one, by the row of its basin. Nobody can
    mend it then, and nobody will ever lead its group. One that recovers beside others is none of
    these, whoever of them is there. `record` is None where it is not known, or not to be trusted.
    """
    if not group.engine.recovery or record is None or record.change is not None:
        return False
    return set(record.replicas) == {own}


def is_mendable(group: AnyGroup, record: BasinRecord | None, own: NodeId) -> bool:
    """Whether the replica recovers and the others of its group can mend it: they are a quorum. A
    learner, which may know no member yet, is mended by whoever is one."""
    members = group.engine.members
    if not group.engine.recovery:
        return False
    if own in members:
        return len(members) - 1 > len(members) // 2
    return bool(members) or (record is not None and not is_lost_for_good(group, record, own))
