"""What the workers of one part share in one process: the span, the pace, the bodies, the tally."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.lab.load.figures import Tally
from svc_cluster.lab.load.order import Share
from svc_cluster.lab.load.pacing import FineTimer, OpenLoop
from svc_cluster.lab.load.requests import Bodies, LoadAccess
from svc_cluster.lab.load.scenarios import Part

CONNECTING_MAX: Final = 64
"""Long answers of one part and process that are being asked for at once."""


@dataclass(slots=True)
class Work:
    """One share under way. What is due and not answered is in `open`, until it is."""

    access: LoadAccess
    share: Share
    tally: Tally
    clock: Clock
    timer: FineTimer
    pace: OpenLoop | None
    bodies: Bodies | None
    rng: random.Random
    open: dict[int, float] = field(default_factory=dict)
    connecting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONNECTING_MAX))
    _number: int = 0

    @property
    def part(self) -> Part:
        return self.share.part

    async def next_due(self) -> float | None:
        """The moment that the next request counts from, when it has come; None: the span is
        over. In a closed loop that is now."""
        now = self.clock.monotonic()
        if now >= self.tally.end:
            return None
        if self.pace is None:
            return now
        due = self.pace.take()
        if due is not None and due > now:
            await self.timer.until(due)
        return due

    def sent(self, due: float) -> int:
        """Note a request that is under way from now on; returns its number."""
        self._number += 1
        self.open[self._number] = due
        return self._number

    def answered(self, number: int) -> None:
        """Count the answer to a request, a success."""
        due = self.open.pop(number)
        part = self.part
        self.tally.answered(
            due, self.clock.monotonic(), records=part.batch, metered_bytes=part.metered_bytes
        )

    def failed(self, number: int, kind: str, *, unanswered: bool = False) -> None:
        """Count a request that did not go well."""
        due = self.open.pop(number)
        self.tally.failed(kind, due, self.clock.monotonic(), unanswered=unanswered)

    def close(self) -> None:
        """Count what was due in the span and has no answer, or was not even sent."""
        now = self.clock.monotonic()
        for due in self.open.values():
            self.tally.failed("unanswered", due, now, unanswered=True)
        self.open.clear()
        if self.pace is not None:
            for due in self.pace.rest():
                self.tally.not_sent(due, now)
