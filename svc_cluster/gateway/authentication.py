"""Who asks: the access token of a request, and what comes of it.

A refusal says nothing about the token: one that never was, was revoked or is over look alike.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import (
    DeadlineError,
    RateLimitedError,
    ServiceError,
    UnauthenticatedError,
    UnavailableError,
)
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.failed_attempts import FailedAttempts
from svc_cluster.gateway.http.message import Request
from svc_cluster.gateway.lease import LeaseKeeper
from svc_cluster.gateway.token_directory import NO_LEASE, TokenDirectory, Watch
from svc_cluster.model.access import FULL_GRANT, Grant
from svc_cluster.model.access_secret import is_secret_text, secret_hash
from svc_cluster.model.access_token import AccessToken, AskedBy, AuthenticationOff

_SCHEME: Final = "bearer"
_TOKEN_CHARACTERS_MAX: Final = 1024


class Caller:
    """Whoever sends a request. This one is everybody, where nobody is asked for a token."""

    grant: Grant = FULL_GRANT
    serial: int = 0
    """Of the token; 0 for everybody. For telling callers apart: rights go by `grant` here, and by
    `asked_by` elsewhere."""
    asked_by: AskedBy = AuthenticationOff.OFF
    payer: int = 0
    """Serial of the token whose limits of rates it counts against; 0 for everybody."""
    token_id: str = "-"

    def check(self) -> None:
        """Raises UnauthenticatedError when the token is no good any more, UnavailableError when
        that cannot be told."""

    def while_valid(
        self, grace_seconds: float = 0, *, is_write: bool = False
    ) -> AbstractAsyncContextManager[None]:
        """A block that ends as soon as `check` would raise, by raising that. `is_write`: what is
        broken off may have had its effect."""
        return nullcontext()

    def shown(self, stream: str) -> str:
        """A stream's name as the caller says it."""
        return stream.removeprefix(self.grant.name_prefix)


EVERYBODY: Final = Caller()


class TokenHolder(Caller):
    """The holder of a token that this gateway found valid."""

    def __init__(self, directory: TokenDirectory, token: AccessToken) -> None:
        self._directory = directory
        self._token = token
        self.grant = directory.grant_of(token)
        self.serial = token.serial
        self.asked_by = token.serial
        self.payer = directory.payer_of(token)
        self.token_id = token.token_id

    def check(self) -> None:
        fault = self._directory.fault(self._token)
        if fault is not None:
            raise fault

    def while_valid(
        self, grace_seconds: float = 0, *, is_write: bool = False
    ) -> AbstractAsyncContextManager[None]:
        wrap = _with_effects if is_write else _as_it_is
        return Watch(self._directory, self._token, grace_seconds, wrap)


def _as_it_is(fault: ServiceError) -> ServiceError:
    return fault


def _with_effects(fault: ServiceError) -> ServiceError:
    if isinstance(fault, UnauthenticatedError):
        return UnauthenticatedError(fault.message, may_have_taken_effect=True)
    return DeadlineError(fault.message)


class AccessControl:
    """Finds out who sends a request."""

    def __init__(
        self,
        directory: TokenDirectory,
        keeper: LeaseKeeper,
        *,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        failed_per_second: float | None = None,
    ) -> None:
        """`failed_per_second`: attempts of one address that are answered 401; more get 429. None:
        no limit; needs a clock."""
        assert failed_per_second is None or clock is not None, "rates need a clock"
        self._directory = directory
        self._keeper = keeper
        self._clock = clock
        self._failures = None if metrics is None else metrics.auth_failures
        self._failed = FailedAttempts(failed_per_second)

    @property
    def is_ready(self) -> bool:
        return self._directory.is_fresh

    async def caller_of(self, request: Request) -> Caller:
        """Raises UnauthenticatedError, RateLimitedError for an address that fails too much, and
        UnavailableError while nobody's token can be checked."""
        try:
            return await self._holder(request)
        except UnauthenticatedError:
            # only now: a valid token is let in, whatever else comes from its address
            wait_ms = 0
            if self._clock is not None and request.header("authorization") is not None:
                wait_ms = self._failed.note(request.connection.address, self._clock.monotonic())
            self._count("rate_limited" if wait_ms else "unauthenticated")
            if wait_ms:
                raise RateLimitedError(
                    "too many requests without a valid access token", wait_ms
                ) from None
            raise

    def _count(self, reason: str) -> None:
        if self._failures is not None:
            self._failures.labels(reason).inc()

    async def _holder(self, request: Request) -> TokenHolder:
        secret = bearer_secret(request)
        if not self._directory.is_fresh:
            raise UnavailableError(NO_LEASE)
        hashed = secret_hash(secret)
        token = self._directory.find(hashed)
        if token is None:
            # perhaps it was issued a moment ago, through another gateway
            await self._keeper.look_up()
            token = self._directory.find(hashed)
        if token is None:
            raise UnauthenticatedError("the access token is not valid")
        return TokenHolder(self._directory, token)


def bearer_secret(request: Request) -> str:
    """What `authorization: Bearer ...` holds. Raises UnauthenticatedError for anything that no
    token of ours looks like."""
    values = [value for name, value in request.headers if name == "authorization"]
    if not values:
        raise UnauthenticatedError("send an access token: authorization: Bearer <token>")
    scheme, _, secret = values[0].partition(" ")
    secret = secret.strip(" ")
    if (
        len(values) > 1
        or scheme.lower() != _SCHEME
        or len(secret) > _TOKEN_CHARACTERS_MAX
        or not is_secret_text(secret)
    ):
        raise UnauthenticatedError("the access token is not valid")
    return secret
