"""Who asks: the access token of a request, and what comes of it.

A refusal tells a token that has expired, which only its holder can show, from one that never was or
was revoked, which look alike. Source: contract 12.1.
"""

from __future__ import annotations

import re
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import (
    DeadlineError,
    InvalidError,
    MalformedError,
    RateLimitedError,
    ServiceError,
    TokenMissingError,
    UnauthenticatedError,
    UnavailableError,
)
from svc_cluster.base.ids import TimestampMs
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.access.client_identity import (
    NO_SUCH_TOKEN,
    ClientIdentity,
    certificate_missing,
    check_is_no_page,
    identity_of,
)
from svc_cluster.gateway.access.failed_attempts import FailedAttempts
from svc_cluster.gateway.access.lease import LeaseKeeper
from svc_cluster.gateway.access.read_ticket import (
    ELSEWHERE,
    OVER,
    READS_ALONE,
    TICKET_OPERATIONS,
    ReadTicket,
    parse_ticket,
    ticket_text,
)
from svc_cluster.gateway.access.token_directory import (
    EXPIRED,
    NO_LEASE,
    End,
    TokenDirectory,
    Watch,
)
from svc_cluster.gateway.request.negotiation import Query
from svc_cluster.gateway.request.request_head import RequestHead
from svc_cluster.http.message import Request
from svc_cluster.model.access import FULL_GRANT, Grant, NameSet
from svc_cluster.model.access_secret import is_secret_text, secret_hash
from svc_cluster.model.access_token import AccessToken, AskedBy, AuthenticationOff

_SCHEME: Final = "bearer"
UNKNOWN: Final = "the access token is unknown or revoked"
_TOKEN_CHARACTERS_MAX: Final = 1024


class Caller:
    """A Caller sends a request. This one is everybody, where nobody is asked for a token."""

    grant: Grant = FULL_GRANT
    serial: int = 0
    """The serial of the token; 0 for everybody. For telling callers apart: rights go by `grant`
    here, and by `asked_by` elsewhere."""
    asked_by: AskedBy = AuthenticationOff.OFF
    payer: int = 0
    """Serial of the token whose limits of rates it counts against; 0 for everybody."""
    token_id: str = "-"
    reads_alone: bool = False
    """Whatever it does, nothing may come of it."""

    def check_stream(self, head: RequestHead, stream: str) -> None:
        """Raises UnauthenticatedError where what the caller shows is not for this stream. That has
        its name as the caller says it. Raises MalformedError where the basin is not named."""

    def read_ticket(self, basin: str, streams: NameSet, seconds: int) -> tuple[str, TimestampMs]:
        """Make a ticket in the caller's name, for what it was found that the caller may read.
        Return its text, and until when it holds. `streams` holds full names. Raises
        InvalidError."""
        raise InvalidError("nobody is asked for an access token here: read without a ticket")

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


class ForeignPage(Caller):
    """A page of another origin, where nobody is asked for a token. It reads what a browser fetches
    for it, unseen, and makes no stream by that."""

    reads_alone = True


EVERYBODY: Final = Caller()
FOREIGN_PAGE_CALLER: Final = ForeignPage()


class TokenHolder(Caller):
    """The holder of a token that this gateway found valid, by its secret or by a certificate."""

    def __init__(
        self, directory: TokenDirectory, token: AccessToken, end: End | None = None
    ) -> None:
        """`end`: of what was shown beside the token, or in its place."""
        self._directory = directory
        self._token = token
        self._end = end
        self.grant = directory.grant_of(token)
        self.serial = token.serial
        self.asked_by = token.serial
        self.payer = directory.payer_of(token)
        self.token_id = token.token_id

    @property
    def is_good(self) -> bool:
        """Whether the token, as it was found, is good now, with nothing shown beside it."""
        return self._end is None and self._directory.has(self._token)

    def check(self) -> None:
        fault = self._directory.fault(self._token, self._end)
        if fault is not None:
            raise fault

    def while_valid(
        self, grace_seconds: float = 0, *, is_write: bool = False
    ) -> AbstractAsyncContextManager[None]:
        wrap = _with_effects if is_write else _as_it_is
        return Watch(self._directory, self._token, grace_seconds, wrap, self._end)

    def read_ticket(self, basin: str, streams: NameSet, seconds: int) -> tuple[str, TimestampMs]:
        ends_at_ms = self._directory.ticket_end(self._token, seconds)
        if self._end is not None:
            ends_at_ms = min(ends_at_ms, self._end.at_ms)
        ticket = ReadTicket(self._token.serial, ends_at_ms, basin, streams)
        return ticket_text(ticket, self._token), ends_at_ms


def _as_it_is(fault: ServiceError) -> ServiceError:
    return fault


def _with_effects(fault: ServiceError) -> ServiceError:
    if isinstance(fault, UnauthenticatedError):
        return UnauthenticatedError(fault.message, may_have_taken_effect=True)
    return DeadlineError(fault.message)


class TicketHolder(TokenHolder):
    """The holder of a read ticket: may read what the ticket says, as far as its token may now."""

    reads_alone = True

    def __init__(
        self, directory: TokenDirectory, token: AccessToken, ticket: ReadTicket, end: End
    ) -> None:
        super().__init__(directory, token, end)
        self._ticket = ticket
        self.grant = replace(self.grant, operations=self.grant.operations & TICKET_OPERATIONS)

    def check_stream(self, head: RequestHead, stream: str) -> None:
        name = self.grant.name_prefix + stream
        if head.basin != self._ticket.basin or name not in self._ticket.streams:
            raise UnauthenticatedError(ELSEWHERE)

    def while_valid(
        self, grace_seconds: float = 0, *, is_write: bool = False
    ) -> AbstractAsyncContextManager[None]:
        assert not is_write, "nothing is written with a ticket"
        return super().while_valid(grace_seconds)


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
        needs_certificate: bool = False,
    ) -> None:
        """`failed_per_second`: attempts of one address that are answered 401; more get 429. None:
        no limit; needs a clock. `needs_certificate`: nobody is let in who shows no certificate."""
        assert failed_per_second is None or clock is not None, "rates need a clock"
        self._directory = directory
        self._keeper = keeper
        self._clock = clock
        self._failures = None if metrics is None else metrics.auth_failures
        self._failed = FailedAttempts(failed_per_second)
        self._needs_certificate = needs_certificate

    def limit_failures(self, per_second: float | None) -> None:
        """So many attempts of one address are answered 401 from now on; None: no limit."""
        assert per_second is None or self._clock is not None, "rates need a clock"
        self._failed.change(per_second)

    @property
    def is_ready(self) -> bool:
        return self._directory.is_fresh

    def kept_caller(self, request: Request) -> Caller | None:
        """Who has sent an earlier request of this connection with this very head, by a token alone,
        if that is as good as it was. None: `caller_of` finds it out, or says why not."""
        holder = None if request.head_note is None else request.head_note.caller
        if not isinstance(holder, TokenHolder) or self._needs_certificate:
            return None
        return holder if request.connection.certificate is None and holder.is_good else None

    async def caller_of(self, request: Request, *, takes_ticket: bool = False) -> Caller:
        """Raises UnauthenticatedError, RateLimitedError for an address that fails too much. Raises
        UnavailableError while nobody's token can be checked. `takes_ticket`: what is asked is done
        for whoever shows a read ticket, too. Which token a client certificate stands for is looked
        at for each request, since the connection may outlive either."""
        ticket = ticket_of(request)
        certificate = request.connection.certificate
        shows_secret = ticket is not None or request.header("authorization") is not None
        try:
            if certificate is None and self._needs_certificate:
                raise certificate_missing(shows_secret=shows_secret)
            identity = None if certificate is None else identity_of(certificate)
            if ticket is not None:
                return await self._ticket_holder(request, ticket, identity, takes_ticket)
            if identity is not None and not shows_secret:
                check_is_no_page(request)
                return await self._certified(identity)
            if not shows_secret:
                check_ticket(request.query)
            return await self._holder(request, identity)
        except UnauthenticatedError:
            # only now: a valid token is let in, whatever else comes from its address
            wait_ms = 0
            if self._clock is not None and (shows_secret or certificate is not None):
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

    async def _certified(self, identity: ClientIdentity) -> TokenHolder:
        identity.check_alone()
        directory, token_id = self._directory, identity.token_id
        if not directory.is_fresh:
            raise UnavailableError(NO_LEASE)
        token = directory.of_id(token_id)
        if token is None:
            # perhaps it was issued a moment ago, through another gateway
            await self._keeper.look_up()
            token = directory.of_id(token_id)
        if token is None:
            is_over = directory.id_has_expired(token_id)
            raise UnauthenticatedError(EXPIRED if is_over else NO_SUCH_TOKEN)
        return self._admitted(token, identity)

    def _admitted(self, token: AccessToken, identity: ClientIdentity | None) -> TokenHolder:
        """The holder of a token that was found, if the certificate beside it is good for it."""
        if identity is None:
            return TokenHolder(self._directory, token)
        identity.check(token)
        holder = TokenHolder(self._directory, token, identity.end)
        holder.check()
        return holder

    async def _holder(self, request: Request, identity: ClientIdentity | None) -> TokenHolder:
        hashed = _shown_hash(request)
        if not self._directory.is_fresh:
            raise UnavailableError(NO_LEASE)
        token = self._directory.find(hashed)
        if token is None:
            # perhaps it was issued a moment ago, through another gateway
            await self._keeper.look_up()
            token = self._directory.find(hashed)
        if token is None:
            raise UnauthenticatedError(EXPIRED if self._directory.has_expired(hashed) else UNKNOWN)
        holder = self._admitted(token, identity)
        if identity is None and request.head_note is not None:
            request.head_note.caller = holder
        return holder

    async def _ticket_holder(
        self,
        request: Request,
        text: str,
        identity: ClientIdentity | None,
        takes_ticket: bool,
    ) -> TicketHolder:
        if request.header("authorization") is not None:
            raise UnauthenticatedError("send an access token or a read ticket, not both")
        sealed = parse_ticket(text)
        if not takes_ticket:
            raise UnauthenticatedError(READS_ALONE)
        directory = self._directory
        if not directory.is_fresh:
            raise UnavailableError(NO_LEASE)
        token = directory.of_serial(sealed.ticket.serial)
        if token is None:
            # perhaps it was issued a moment ago, through another gateway
            await self._keeper.look_up()
            token = directory.of_serial(sealed.ticket.serial)
        if token is None:
            raise UnauthenticatedError("the access token of the read ticket is unknown or revoked")
        ticket = sealed.open(token)
        directory.check_ticket_end(ticket.ends_at_ms)
        ends = [End(ticket.ends_at_ms, OVER)]
        if identity is not None:
            identity.check(token)
            ends.append(identity.end)
        holder = TicketHolder(directory, token, ticket, min(ends, key=lambda end: end.at_ms))
        holder.check()
        return holder


def ticket_of(request: Request) -> str | None:
    """Return the read ticket in the query; None: there is none, or the query is malformed."""
    if "ticket" not in request.query:
        return None
    try:
        return Query(request.query).text("ticket")
    except MalformedError:
        return None


def check_ticket(query: str) -> None:
    """Raises UnauthenticatedError where a ticket stands in a query that is malformed. A request
    that shows nothing else would be told to show something."""
    if _TICKET.search(query):
        try:
            Query(query)
        except MalformedError as cause:
            raise UnauthenticatedError(
                f"the read ticket in the query shows nothing: {cause.message}"
            ) from None


_TICKET: Final = re.compile(r"(?:^|&)ticket=")


def _shown_hash(request: Request) -> bytes:
    """The hash of the secret that is shown: made once for a head that is there again. What the
    token may, and whether it still holds, is looked at each time. Raises UnauthenticatedError."""
    note = request.head_note
    if note is not None and isinstance(note.credential, bytes):
        return note.credential
    hashed = secret_hash(bearer_secret(request))
    if note is not None:
        note.credential = hashed
    return hashed


def bearer_secret(request: Request) -> str:
    """Return what stands behind `Bearer` in the header `authorization`. Raises
    UnauthenticatedError for anything that no token of ours looks like."""
    values = [value for name, value in request.headers if name == "authorization"]
    if not values:
        raise TokenMissingError("send an access token: authorization: Bearer <token>")
    scheme, _, secret = values[0].partition(" ")
    secret = secret.strip(" ")
    if (
        len(values) > 1
        or scheme.lower() != _SCHEME
        or len(secret) > _TOKEN_CHARACTERS_MAX
        or not is_secret_text(secret)
    ):
        raise UnauthenticatedError(UNKNOWN)
    return secret
