"""A new leader of the catalog asks its predecessor which leases the gateways have. So a planned
change makes no revocation wait.

Everybody is asked: only the predecessor answers with leases, and only once it can give none any
more. After its crash nobody does, and what nobody knows of is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import NodeId, Term
from svc_cluster.base.log import Logger
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec import lease_hand_over
from svc_cluster.replica.catalog import CatalogReplica

AGAIN_SECONDS_MIN: Final = 0.02
AGAIN_SECONDS_MAX: Final = 0.5
"""Between two rounds; twice as long each time. There is none once the leases are over anyway."""

ASK_DEADLINE_MS: Final = 500
"""A member that answers nothing does not keep the others from being asked again."""

Ask = Callable[[NodeId, Callable[[pb.Request], None], int], Awaitable[pb.Response | None]]


class LeaseSuccession:
    """One for each node; does something while the catalog's replica leads."""

    def __init__(
        self,
        catalog: Callable[[], CatalogReplica | None],
        ask: Ask,
        clock: Clock,
        log: Logger,
        tasks: Tasks,
    ) -> None:
        """`ask` waits for so many milliseconds, and gives None when no answer came."""
        self._catalog = catalog
        self._ask = ask
        self._clock = clock
        self._log = log
        self._tasks = tasks
        self._asking: Term | None = None

    def leads(self) -> None:
        """The catalog's replica of this node leads; called at least once in each term."""
        catalog = self._catalog()
        if catalog is None:
            return
        term = catalog.group.engine.term
        if term == self._asking or not catalog.leases.wants_told(term, self._clock.monotonic()):
            return
        self._asking = term
        self._tasks.spawn(self._inquire(catalog, term), "ask for leases")

    async def _inquire(self, catalog: CatalogReplica, term: Term) -> None:
        engine = catalog.group.engine
        # the predecessor may have no vote any more
        known = {*engine.members, *catalog.state.nodes}
        others = sorted(known - {engine.node_id})
        pause = AGAIN_SECONDS_MIN
        while catalog.leases.wants_told(term, self._clock.monotonic()):
            await asyncio.gather(*(self._ask_one(catalog, term, other) for other in others))
            if not catalog.group.is_serving or engine.term != term:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, AGAIN_SECONDS_MAX)

    async def _ask_one(self, catalog: CatalogReplica, term: Term, other: NodeId) -> None:
        response = await self._ask(other, partial(_fill, term), ASK_DEADLINE_MS)
        if response is None or response.WhichOneof("result") != "handed_leases":
            return  # perhaps of a release that hands nothing on
        try:
            handed = lease_hand_over.get(response.handed_leases)
        except Exception as fault:  # also one of our own: what nobody knows of is waited for
            self._log.warning("leases_refused", peer_node=other, reason=str(fault))
            return
        if handed is not None and catalog.leases.take_over(term, handed, self._clock.monotonic()):
            self._log.info("leases_taken_over", peer_node=other, gateways=len(handed.leases))
            catalog.lease_news.notify()
            # its process may be waiting for this before it ends
            await self._ask(other, partial(_fill, term, taken=True), ASK_DEADLINE_MS)


def _fill(term: Term, request: pb.Request, *, taken: bool = False) -> None:
    request.hand_on_leases.term = term
    request.hand_on_leases.taken = taken
