"""A new cluster comes to the newest version that its initial nodes speak, without anybody's word.
There is nothing in it that an older release has written or could go back to.

Which version that is stands in the formation. Whoever leads the catalog raises it, step by step; a
cluster of before, or one with an older node among its first, is left to `upgrade finalize`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import ServiceError, TransactionConflictError
from svc_cluster.base.log import Logger
from svc_cluster.base.tasks import Tasks
from svc_cluster.catalog.active_version import NodeVersion, RaiseActiveVersion
from svc_cluster.model.formation import FormationRecord
from svc_cluster.replica.catalog import CatalogReplica

AGAIN_SECONDS: Final = 0.2
DEADLINE_SECONDS: Final = 3.0


def next_raise(record: FormationRecord, active: int, newest: int) -> RaiseActiveVersion | None:
    """The step by which the cluster comes to the version that it begins at; None: it is there.
    `newest`: what this program speaks."""
    version = active + 1
    if version > min(record.begins_at, newest):
        return None
    said = tuple(
        NodeVersion(node, incarnation, record.begins_at) for node, incarnation in record.members
    )
    return RaiseActiveVersion(version, said)


class Beginning:
    """One for each node; does something while the catalog's replica leads."""

    def __init__(
        self,
        catalog: Callable[[], CatalogReplica | None],
        record: Callable[[], FormationRecord],
        clock: Clock,
        log: Logger,
        tasks: Tasks,
    ) -> None:
        """`record`: the formation as it is on this node's disk."""
        self._catalog = catalog
        self._record = record
        self._clock = clock
        self._log = log
        self._tasks = tasks
        self._is_raising = False

    def leads(self) -> None:
        """The catalog's replica of this node leads; called at least once in each term."""
        catalog = self._catalog()
        if catalog is not None and not self._is_raising and self._step(catalog) is not None:
            self._is_raising = True
            self._tasks.spawn(self._raise(catalog), "begin at the newest version")

    def _step(self, catalog: CatalogReplica) -> RaiseActiveVersion | None:
        active, newest = catalog.state.active_version.now, catalog.version.spoken.newest
        return next_raise(self._record(), active, newest)

    async def _raise(self, catalog: CatalogReplica) -> None:
        try:
            while catalog.group.is_serving and self._step(catalog) is not None:
                deadline = self._clock.monotonic() + DEADLINE_SECONDS
                try:
                    await catalog.change(partial(self._next, catalog), deadline)
                except TransactionConflictError as conflict:
                    # an initial node has another directory by now: that is an operator's to raise
                    self._log.warning("beginning_left", reason=str(conflict))
                    return
                except ServiceError:
                    await asyncio.sleep(AGAIN_SECONDS)
                else:
                    active = catalog.state.active_version.now
                    self._log.info("cluster_begins", active_version=active)
        finally:
            self._is_raising = False

    def _next(self, catalog: CatalogReplica, now_ms: object) -> RaiseActiveVersion | None:
        return self._step(catalog)
