"""These are the limits of rates, applied to requests. What is over one is refused with the time to
wait (429), before anything of it happens; what streams is slowed down.

Bytes are metered bytes, as everywhere. An append counts with its announced length until its records
are known, though with no more than a batch may have, and not at all when they never are; a read
counts with what the last ones took until it has taken its own. What streams asks as
everybody does, and comes again by itself: one at a time for each token, in the order in which they
came, so that thousands of sessions are one that asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import Callable
from typing import Final
from weakref import WeakValueDictionary

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import RateLimitedError
from svc_cluster.base.limits import BATCH_METERED_BYTES_MAX
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.limits.rate_limit import Cost, RateLimit, Rates, Wait
from svc_cluster.gateway.request.body_head import declared_length
from svc_cluster.gateway.request.endpoint import Moves
from svc_cluster.http.message import NOWHERE, Request

_NOBODY: Final = 0
"""The serial of no token: the line of all tokens together has it."""


class Allowance:
    """What one request may take, as it takes it. Of this one nothing is counted."""

    @property
    def paces_reads(self) -> bool:
        """Whether a streaming read has to wait for what it takes, by the limits of now."""
        return False

    def appended(self, metered_bytes: int) -> None:
        """The records of a unary append are known."""

    def took(self, metered_bytes: int) -> None:
        """Records were read."""

    async def pace_append(self, metered_bytes: int) -> None:
        """Return when a batch of a session may go on, which is then charged."""

    async def pace_read(self, *, is_behind: bool) -> None:
        """Return when a streaming read may go on behind what it took. `is_behind`: there is more
        to be read at once, about as much as before."""

    def close(self) -> None:
        """The request was answered, or its answer has begun, or that has ended."""


UNLIMITED: Final = Allowance()


class RateLimiter:
    """The limits of one gateway."""

    def __init__(
        self,
        account: Rates,
        token: Rates,
        *,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics,
        gateways: Callable[[], int] = lambda: 1,
    ) -> None:
        """`token`: for each access token and all that were issued with it, and so on; the root's
        each have their own. `rng` spreads the waits. `gateways`: how many share the limits, this
        one among them."""
        self.limit = RateLimit(account, token, rng)
        self.clock = clock
        self.waiting_bytes = metrics.rate_limit_waiting_bytes
        self._refused = metrics.rate_limited
        self._gateways = gateways
        self._changed = asyncio.Event()
        """Set when the limits are others; then there is a new one."""
        self._lines: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        """The lines of what streams, by the token that pays. A line is there while somebody is in
        it."""

    def change(self, account: Rates, token: Rates) -> None:
        """Other limits from now on; what streams asks again at once, whatever it waited for."""
        self.limit.change(account, token)
        self._changed.set()
        self._changed = asyncio.Event()

    def admit(self, request: Request, moves: Moves, token: int, *, is_stream: bool) -> Allowance:
        """Charge a request. `token`: serial of the token that pays for it, the first of its chain
        below the root. `is_stream`: it opens a session or a stream of events, which is slowed down
        as it goes. Raises RateLimitedError; nothing is charged then."""
        limit = self.limit
        size = None
        cost = Cost(requests=1.0)
        if moves is Moves.APPENDED and not is_stream:
            size = declared_length(request)
            announced = limit.mean_append_bytes if size is None else size
            cost = Cost(1.0, append_bytes=min(max(1.0, announced), BATCH_METERED_BYTES_MAX))
        elif moves is Moves.READ and not is_stream:
            cost = Cost(1.0, read_bytes=max(1.0, limit.mean_read_bytes))
        connection = request.connection
        told = connection.note
        wait = self._ask(token, cost, told if isinstance(told, Wait) else None)
        if connection is not NOWHERE:
            connection.note = wait
        if wait is not None:
            self._refused.labels(wait.reason).inc()
            raise RateLimitedError(
                "a limit of this account is used up for now"
                if wait.is_of_account
                else "a limit of this access token is used up for now",
                max(1, math.ceil((wait.at - self.clock.monotonic()) * 1000)),
            )
        return _Counted(self, token, cost, learns_append=size is None)

    async def pace(self, token: int, cost: Cost) -> None:
        """Return once this may go on; it is charged then, and not before."""
        async with self._line(token):
            while (wait := self._ask(token, cost)) is not None:
                if not wait.is_of_account:
                    await self._until(wait)
                elif await self._pace_in_account(token, cost, wait):
                    return

    async def _pace_in_account(self, token: int, cost: Cost, wait: Wait | None) -> bool:
        """Tells whether it may go on. It may not when its own token is what it waits for by now,
        which is nothing to keep others in the line for."""
        async with self._line(_NOBODY) if token else contextlib.nullcontext():
            while wait is not None and wait.is_of_account:
                await self._until(wait)
                wait = self._ask(token, cost)
        return wait is None

    def _ask(self, token: int, cost: Cost, told: Wait | None = None) -> Wait | None:
        self.limit.share(max(1, self._gateways()))
        return self.limit.ask(token, cost, self.clock.monotonic(), told)

    async def _until(self, wait: Wait) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait.at - self.clock.monotonic()):
                await self._changed.wait()

    def _line(self, token: int) -> asyncio.Lock:
        line = self._lines.get(token)
        if line is None:
            line = self._lines[token] = asyncio.Lock()
        return line


class _Counted(Allowance):
    def __init__(
        self, limiter: RateLimiter, token: int, charged: Cost, *, learns_append: bool
    ) -> None:
        self._limiter = limiter
        self._token = token
        self._append_charged = charged.append_bytes
        self._learns_append = learns_append
        self._read_left = charged.read_bytes
        """Charged and not taken yet."""
        self._learns_read = bool(charged.read_bytes)
        self._taken = 0
        """Since it last went on."""

    @property
    def paces_reads(self) -> bool:
        return self._limiter.limit.has_reads

    def appended(self, metered_bytes: int) -> None:
        if self._append_charged:
            if self._learns_append:
                self._limiter.limit.appended(metered_bytes)
            self._settle(Cost(append_bytes=metered_bytes - self._append_charged))
            self._append_charged = 0.0

    def took(self, metered_bytes: int) -> None:
        if self.paces_reads or self._learns_read:
            self._taken += metered_bytes  # what no limit was there for is never asked for
        covered = min(self._read_left, metered_bytes)
        self._read_left -= covered
        self._settle(Cost(read_bytes=metered_bytes - covered))

    async def pace_append(self, metered_bytes: int) -> None:
        waiting = self._limiter.waiting_bytes
        waiting.inc(metered_bytes)
        try:
            await self._limiter.pace(self._token, Cost(1.0, append_bytes=metered_bytes))
        finally:
            waiting.dec(metered_bytes)

    async def pace_read(self, *, is_behind: bool) -> None:
        if not self._taken:
            return
        # What nobody waits to read may not come for hours: it is charged when it does.
        ahead = max(1.0, self._taken - self._read_left) if is_behind else 1.0
        await self._limiter.pace(self._token, Cost(read_bytes=ahead))
        self._read_left += ahead
        self._taken = 0

    def close(self) -> None:
        if self._learns_read:
            self._learns_read = False
            self._limiter.limit.read(self._taken)
        # no records were known: a body that broke off, was too large or meant nothing
        self._settle(Cost(append_bytes=-self._append_charged, read_bytes=-self._read_left))
        self._append_charged = self._read_left = 0.0

    def _settle(self, difference: Cost) -> None:
        limiter = self._limiter
        limiter.limit.settle(self._token, difference, limiter.clock.monotonic())
