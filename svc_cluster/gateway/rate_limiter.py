"""The limits of rates, applied to requests: what is over one is refused with the time to wait
(429), before anything of it happens; what streams is slowed down.

Bytes are metered bytes, as everywhere. An append counts with its announced length until its records
are known, a read with what the last ones took until it has taken its own.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

import xxhash

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import RateLimitedError
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.http.body import StreamedBody
from svc_cluster.gateway.http.budget import declared_length
from svc_cluster.gateway.http.message import BytesBody, Request
from svc_cluster.gateway.http.router import Operation
from svc_cluster.gateway.rate_limit import Asker, Cost, RateLimit, Rates

_TOKEN_HEADERS: Final = ("svc-request-token", "s2-request-token")


class Allowance:
    """What one request may take, as it takes it. Of this one nothing is counted."""

    def appended(self, metered_bytes: int) -> None:
        """The records of a unary append are known."""

    def took(self, metered_bytes: int) -> None:
        """Records were read."""

    async def pace_append(self, metered_bytes: int) -> None:
        """Return when a batch of a session may go on."""

    @property
    def read_wait_seconds(self) -> float:
        """How long a streaming read waits behind what it took; 0 or less: it goes on."""
        return 0.0

    def close(self) -> None:
        """The request was answered, or its answer has begun."""


UNLIMITED: Final = Allowance()


class RateLimiter:
    """The limits of one gateway."""

    def __init__(
        self,
        account: Rates,
        token: Rates,
        *,
        clock: Clock,
        metrics: Metrics,
        gateways: Callable[[], int] = lambda: 1,
    ) -> None:
        """`token`: for each access token and all that were issued with it, and so on; the root's
        each have their own. `gateways`: how many share the limits, this one among
        them."""
        self.limit = RateLimit(account, token)
        self.clock = clock
        self.waiting_bytes = metrics.rate_limit_waiting_bytes
        self._refused = metrics.rate_limited
        self._gateways = gateways

    def admit(
        self, request: Request, operation: Operation, token: int, *, is_stream: bool
    ) -> Allowance:
        """Charge a request. `token`: serial of the token that pays for it, the first of its chain
        below the root. `is_stream`: it opens a session or a stream of events, which is slowed down
        as it goes. Raises RateLimitedError; a body that has
        arrived whole is then still there."""
        limit = self.limit
        limit.share(max(1, self._gateways()))
        size = None
        cost = Cost(requests=1.0)
        if operation is Operation.APPEND and not is_stream:
            size = declared_length(request)
            announced = limit.mean_append_bytes if size is None else size
            cost = Cost(1.0, append_bytes=max(1.0, announced))
        elif operation is Operation.READ and not is_stream:
            cost = Cost(1.0, read_bytes=max(1.0, limit.mean_read_bytes))
        asker = _asker(request, token)
        wait = limit.ask(asker, cost, self.clock.monotonic())
        if wait is not None:
            self._refused.labels(wait.reason).inc()
            raise RateLimitedError(
                "a limit of this account is used up for now"
                if wait.reason.startswith("account")
                else "a limit of this access token is used up for now",
                max(1, math.ceil(wait.seconds * 1000)),
            )
        return _Counted(self, token, cost, learns_append=size is None, is_stream=is_stream)


class _Counted(Allowance):
    def __init__(
        self,
        limiter: RateLimiter,
        token: int,
        charged: Cost,
        *,
        learns_append: bool,
        is_stream: bool,
    ) -> None:
        self._limiter = limiter
        self._token = token
        self._append_charged = charged.append_bytes
        self._learns_append = learns_append
        self._read_left = charged.read_bytes
        self._is_unary_read = bool(charged.read_bytes)
        self._is_stream = is_stream
        self._taken = 0
        self._turn = 0.0

    def appended(self, metered_bytes: int) -> None:
        if self._append_charged:
            if self._learns_append:
                self._limiter.limit.appended(metered_bytes)
            self._settle(Cost(append_bytes=metered_bytes - self._append_charged))
            self._append_charged = 0.0

    def took(self, metered_bytes: int) -> None:
        self._taken += metered_bytes
        covered = min(self._read_left, metered_bytes)
        self._read_left -= covered
        now = self._settle(Cost(read_bytes=metered_bytes - covered))
        if self._is_stream:
            limit = self._limiter.limit
            self._turn = now + limit.debt(self._token, Cost(read_bytes=1.0), now)

    async def pace_append(self, metered_bytes: int) -> None:
        cost = Cost(1.0, append_bytes=metered_bytes)
        limiter = self._limiter
        wait = limiter.limit.slow(self._token, cost, limiter.clock.monotonic())
        if wait <= 0:
            return
        limiter.waiting_bytes.inc(metered_bytes)
        try:
            await asyncio.sleep(wait)
        except asyncio.CancelledError:  # the batch does not happen
            self._settle(Cost(-1.0, append_bytes=-metered_bytes))
            raise
        finally:
            limiter.waiting_bytes.dec(metered_bytes)

    @property
    def read_wait_seconds(self) -> float:
        return self._turn - self._limiter.clock.monotonic()

    def close(self) -> None:
        if self._is_unary_read:
            self._limiter.limit.read(self._taken)
            self._settle(Cost(read_bytes=-self._read_left))
            self._read_left = 0.0

    def _settle(self, difference: Cost) -> float:
        now = self._limiter.clock.monotonic()
        self._limiter.limit.settle(self._token, difference, now)
        return now


def _asker(request: Request, token: int) -> Asker:
    """Known again by all that is here of the request; that is its body too, where that has arrived
    as a whole."""
    hasher = xxhash.xxh3_64(
        f"{request.method} {request.raw_path}?{request.query} "
        f"{request.header('content-length')} {request.header('svc-basin')}".encode(
            "utf-8", "replace"
        )
    )
    head = hasher.intdigest()
    content = 0
    for name in _TOKEN_HEADERS:
        value = request.header(name)
        if value:
            hasher.update(value.encode("utf-8", "replace"))
            content = hasher.intdigest()
    body = request.body
    data = body.complete() if isinstance(body, StreamedBody) else None
    if data is not None:
        request.body = BytesBody(data)
        if data and not content:
            hasher.update(data)
            content = hasher.intdigest()
    return Asker(request.connection, token, head, content)
