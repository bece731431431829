"""This keeps groups that do not serve on this node until its process is started again. They are
stopped by a fault of theirs, or parked before what only a newer release can apply. All other groups
go on beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from svc_cluster.base.ids import GroupId
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.faults import ends_the_process
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.group_services import GroupServices

PARKED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Payload that all parked basins of a node may hold in memory; beyond it the one that holds most
stops, which gives it back and then takes and acknowledges nothing more."""


@dataclass(frozen=True, slots=True)
class Held:
    """One such group."""

    group_id: GroupId
    basin: str
    """Empty: not known here."""
    state: str
    """`stopped` or `parked`."""
    reason: str


class ParkedTooLongError(Exception):
    """The parked basins of a node hold more than `PARKED_BYTES_MAX`."""


class HeldGroups:
    """A node's, as its host meets them. What they have in the log stays there: the next start of
    the process tries again."""

    def __init__(
        self,
        services: GroupServices,
        basins: Mapping[GroupId, BasinReplica],
        name_of: Callable[[GroupId], str],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._services = services
        self._basins = basins
        self._name_of = name_of
        self._on_fatal = on_fatal
        self.unopened: dict[GroupId, RecoveredLog] = {}
        """Groups of which not even a replica could be made."""
        self._why_unopened: dict[GroupId, str] = {}

    def cannot_open(self, log: RecoveredLog, fault: BaseException) -> None:
        """A replica could not be made of what log and store hold for it."""
        # what the disk has of it is not read before the next start
        self.unopened[log.group_id] = replace(log, entries=[])
        self._why_unopened[log.group_id] = _said(fault)
        self.failed(log.group_id, fault)

    def failed(self, group_id: GroupId, fault: BaseException) -> None:
        """A fault has ended the work of one basin's group; or the process, where it is not of the
        group's own making."""
        if ends_the_process(fault):
            self._on_fatal(fault)
            return
        replica = self._basins.get(group_id)
        if replica is not None:
            replica.stop()
        self._services.log_of(group_id).error(
            "group_stopped",
            remedy="the other basins go on; the next start of this node tries again: with a "
            "release that mends the fault, which the exception shows",
            exc_info=fault,
        )

    def why_unopened(self, group_id: GroupId) -> str:
        """Why no replica could be made of a group that is here; empty where that is not so."""
        return self._why_unopened.get(group_id, "") if group_id in self.unopened else ""

    def rows(self, catalog: CatalogReplica | None) -> list[Held]:
        """All of them now."""
        out = [
            Held(group_id, self._name_of(group_id), "stopped", self._why_unopened[group_id])
            for group_id in self.unopened
        ]
        groups: list[AnyGroup] = [] if catalog is None else [catalog.group]
        groups += [basin.group for basin in self._basins.values()]
        for group in groups:
            if group.fault or group.parked:
                state, reason = "parked", group.parked
                if group.fault:
                    state, reason = "stopped", group.fault
                out.append(Held(group.group_id, self._name_of(group.group_id), state, reason))
        return out

    def is_log_held(self, catalog: CatalogReplica | None) -> bool:
        """Tells whether the oldest segment of the log is kept for one of them, which needs it to go
        on. Then no segment is freed, whoever wrote it."""
        held = {one.group_id for one in self.rows(catalog)}
        return bool(held) and not held.isdisjoint(self._services.wal.pinned_by())

    def bound_parked(self) -> None:
        """Called now and then: keep what the parked ones hold in memory within its bound."""
        # who is parked is never at rest
        parked = [
            replica.group
            for replica in self._services.rest.awake()
            if replica.group.group_id in self._basins
            and replica.group.parked
            and not replica.group.stopped
        ]
        parked.sort(key=lambda group: group.parked_bytes)
        while sum(group.parked_bytes for group in parked) > PARKED_BYTES_MAX:
            most = parked.pop()
            most.fail(ParkedTooLongError(f"parked before {most.parked}, with too much behind it"))


def _said(fault: BaseException) -> str:
    return f"{type(fault).__name__}: {fault}"
