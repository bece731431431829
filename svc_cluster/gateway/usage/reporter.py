"""Tells the cluster what was counted here, every few seconds, as long as there is anything to tell.

A report that got no answer is sent again as it was, with its number, until it is known to count: it
counts once however often it arrives. What is counted meanwhile goes into the next one.
"""

from __future__ import annotations

import asyncio
from typing import Final

from svc_cluster.base.errors import (
    BasinDeletionPendingError,
    BasinNotFoundError,
    InvalidError,
    ServiceError,
)
from svc_cluster.base.log import get_logger
from svc_cluster.base.metrics import Metrics
from svc_cluster.base.tasks import Tasks
from svc_cluster.gateway.cluster.usage_client import UsageBackend
from svc_cluster.gateway.usage.usage_ledger import Place, UsageLedger
from svc_cluster.model.usage_table import REPORT_GIVEN_UP_SECONDS

INTERVAL_SECONDS: Final = 5.0
"""How much at most is lost with a gateway that is killed."""
AT_ONCE_MAX: Final = 16
"""Reports under way at one time."""
BEFORE_QUERY_SECONDS: Final = 1.0
"""How long a query waits for what was counted here before it."""
LAST_SECONDS: Final = 2.0
"""How long a gateway that ends tries to tell the rest."""

log = get_logger("gateway.usage")


class UsageReporter:
    """One for each gateway process."""

    def __init__(
        self,
        ledger: UsageLedger,
        backend: UsageBackend,
        metrics: Metrics,
        *,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self._ledger = ledger
        self.backend = backend
        self._metrics = metrics
        self._interval_seconds = interval_seconds
        self._tasks = Tasks()
        self._sending: dict[Place, asyncio.Event] = {}

    def start(self) -> None:
        self._tasks.spawn(self._report_for_ever(), "report usage")

    async def close(self) -> None:
        """Tell what is left, as far as that is done soon."""
        await self._tasks.cancel_all()
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await self.report_all()
        except TimeoutError:
            log.warning("usage_not_reported", places=len(self._ledger.due()))

    async def before_query(self, place: Place) -> None:
        """Return when all that was counted here so far is told; or when it took too long."""
        try:
            async with asyncio.timeout(BEFORE_QUERY_SECONDS):
                await self.report(place)
        except TimeoutError:
            pass

    async def report_all(self) -> None:
        """Once to each place where there is something to tell."""
        places = self._ledger.due()
        self._metrics.usage_reports_waiting.set(len(places))
        for at in range(0, len(places), AT_ONCE_MAX):
            await asyncio.gather(*map(self.report, places[at : at + AT_ONCE_MAX]))

    async def report(self, place: Place) -> None:
        """Tell what there is, as far as that can be done now. Raises nothing."""
        while (sending := self._sending.get(place)) is not None:
            await sending.wait()
        over = self._sending[place] = asyncio.Event()
        try:
            # first what an earlier attempt may have left, then what was counted since
            while self._ledger.is_due(place) and await self._send(place):
                pass
        finally:
            del self._sending[place]
            over.set()

    async def _send(self, place: Place) -> bool:
        """Whether it is settled what becomes of one report."""
        ledger = self._ledger
        report = ledger.next_report(place)
        assert report is not None, "there is something to tell"
        reports = self._metrics.usage_reports
        try:
            await self.backend.report(place, report)
        except (BasinNotFoundError, BasinDeletionPendingError):
            ledger.drop(place)
            reports.labels("basin_gone").inc()
        except InvalidError as fault:
            log.error("usage_report_refused", cause=str(fault))
            ledger.drop(place)
            reports.labels("refused").inc()
        except Exception as fault:  # also one of our own, of this report alone
            if not isinstance(fault, ServiceError):
                log.error("usage_report_failed", exc_info=fault)
            if ledger.sent_for_seconds(place) < REPORT_GIVEN_UP_SECONDS:
                reports.labels("failed").inc()
                return False
            ledger.drop(place)
            reports.labels("given_up").inc()
        else:
            ledger.taken(place)
            reports.labels("taken").inc()
        return True

    async def _report_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._interval_seconds)
            await self.report_all()


def reporter_of(
    ledger: UsageLedger, usage: UsageBackend | None, metrics: Metrics, interval_seconds: float
) -> UsageReporter | None:
    """None where use is told to nobody."""
    if usage is None:
        return None
    return UsageReporter(ledger, usage, metrics, interval_seconds=interval_seconds)
