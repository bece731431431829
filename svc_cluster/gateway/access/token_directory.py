"""The access tokens as this gateway knows them, and until when it may go by that.

What it knows is at most one lease old. Without a live lease nobody is let in: a token may have been
revoked meanwhile. Whoever holds something open (a session, a waiting read) is watched here, and
told as soon as its token is no good any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from hmac import compare_digest
from types import TracebackType
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import ServiceError, UnauthenticatedError, UnavailableError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.catalog.leases import LEASE_SECONDS
from svc_cluster.gateway.access.read_ticket import TAMPERED
from svc_cluster.gateway.cluster.token_client import TokenNews
from svc_cluster.model.access import Grant
from svc_cluster.model.access_token import NO_PARENT, ROOT_TOKEN_ID, AccessToken
from svc_cluster.model.ticket_request import TICKET_SECONDS_MAX

EXPIRED: Final = "the access token has expired"
NO_LEASE: Final = "access tokens cannot be checked at the moment"
TICKET_CLOCK_SKEW_SECONDS: Final = 60
"""So far ahead the clock of the gateway that issued a read ticket may be of that of another."""


@dataclass(frozen=True, slots=True)
class End:
    """When something ends that a caller shows beside its token, or in its place: a read ticket, a
    certificate."""

    at_ms: TimestampMs
    says: str
    """What is said to who comes later."""


class TokenDirectory:
    """Tokens by serial, by id and by hash, as of `version`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_serial: dict[int, AccessToken] = {}
        self._by_hash: dict[bytes, AccessToken] = {}
        self._by_id: dict[str, AccessToken] = {}
        self._grants: dict[bytes, Grant] = {}
        self._payers: dict[int, int] = {}
        """By serial: whose limits of rates it counts against."""
        self._lease_until: float | None = None
        self._watched: dict[tuple[bytes, End | None], set[Watch]] = {}
        """By what they are good for: the token, and the end of what was shown beside it."""
        self._next: dict[int, AccessToken] = {}
        """While all tokens are being read: those that have come."""
        self._next_version: int | None = None
        self.version = 0
        self.reading_after: int | None = None
        """While all tokens are being read, page by page: the last serial that is there."""

    def __len__(self) -> int:
        return len(self._by_serial)

    # -- from the catalog

    def take(self, news: TokenNews, asked_at: float) -> bool:
        """Take over an answer to what was asked at `asked_at` (monotonic). False: there is more
        to ask for, or to confirm, at once."""
        if self.reading_after is not None:
            return self._take_page(news)
        if news.behind:
            # what is known stays in force as long as its lease
            self.reading_after = 0
            self._next = {}
            self._next_version = None
            return False
        if news.version < self.version:
            return True
        for serial, token in news.changes:
            self._put(serial, token)
        complete = news.granted
        confirmed = news.version == self.version
        self.version = news.version
        if news.granted:
            until = asked_at + LEASE_SECONDS
            self._lease_until = max(until, self._lease_until or until)
        self.sweep()
        return complete and confirmed

    def _take_page(self, news: TokenNews) -> bool:
        if self._next_version is None:
            self._next_version = news.version
        for serial, token in news.changes:
            if token is not None:
                self._next[serial] = token
                self.reading_after = serial
        if news.all_read:
            # of the moment of the first page, and in part later; what came since is asked for next
            for serial in [s for s in self._by_serial if s not in self._next]:
                self._put(serial, None)
            for serial, token in self._next.items():
                self._put(serial, token)
            self.version = self._next_version
            self.reading_after = None
            self._next = {}
            self.sweep()
        return False

    def _put(self, serial: int, token: AccessToken | None) -> None:
        old = self._by_serial.pop(serial, None)
        self._payers.pop(serial, None)
        holder = None if old is None else self._by_hash.get(old.secret_hash)
        if old is not None and holder is not None and holder.serial == serial:
            # not another token's with the same secret, which is still good
            del self._by_hash[old.secret_hash]
            self._grants.pop(old.secret_hash, None)
        named = None if old is None else self._by_id.get(old.token_id)
        if named is not None and named.serial == serial:
            # not a newer one, which was given the id again
            del self._by_id[named.token_id]
        if token is not None:
            self._by_serial[serial] = token
            newest = self._by_id.get(token.token_id)
            if newest is None or newest.serial < serial:
                self._by_id[token.token_id] = token
            self._by_hash[token.secret_hash] = token
            self._grants[token.secret_hash] = token.grant
            # Parents come first: they are older, and changes are told in their order.
            parent = self._by_serial.get(token.parent)
            is_first = parent is None or _is_root(parent)
            self._payers[serial] = serial if is_first else self._payers[token.parent]

    # -- for requests

    @property
    def is_fresh(self) -> bool:
        return self.seconds_left > 0

    @property
    def seconds_left(self) -> float:
        """Return how many seconds are left of the lease; 0: there is none, or it is over."""
        if self._lease_until is None:
            return 0.0
        return max(0.0, self._lease_until - self._clock.monotonic())

    def find(self, secret_hash: bytes) -> AccessToken | None:
        """The token with this hash, if it has not expired."""
        token = self._by_hash.get(secret_hash)
        if token is None or not compare_digest(token.secret_hash, secret_hash):
            return None
        return None if token.is_expired(self._clock.wall_ms()) else token

    def has(self, token: AccessToken) -> bool:
        """Whether this very token is known here, has not expired, and may be judged by."""
        if self._by_serial.get(token.serial) is not token or self._lease_until is None:
            return False
        is_fresh = self._lease_until > self._clock.monotonic()
        return is_fresh and not token.is_expired(self._clock.wall_ms())

    def of_id(self, token_id: str) -> AccessToken | None:
        """Return the token with this id, if it has not expired."""
        token = self._by_id.get(token_id)
        return None if token is None or token.is_expired(self._clock.wall_ms()) else token

    def id_has_expired(self, token_id: str) -> bool:
        """Whether the token with this id is known, and its time is over."""
        named = self._by_id.get(token_id)
        return named is not None and named.is_expired(self._clock.wall_ms())

    def of_serial(self, serial: int) -> AccessToken | None:
        """The token with this serial, be it over."""
        return self._by_serial.get(serial)

    def has_expired(self, secret_hash: bytes) -> bool:
        """Whether there was a token with this hash whose time is over. One that is told so has
        shown its secret; nobody else learns that there was one."""
        token = self._by_hash.get(secret_hash)
        return token is not None and token.is_expired(self._clock.wall_ms())

    def grant_of(self, token: AccessToken) -> Grant:
        """Return the grant of a token that was found here."""
        return self._grants.get(token.secret_hash) or token.grant

    def payer_of(self, token: AccessToken) -> int:
        """Serial of the token whose limits of rates `token` counts against: the first of its chain
        below the root. Whoever has a token can issue others with it, which would otherwise each
        bring limits of their own."""
        return self._payers.get(token.serial, token.serial)

    def fault(self, token: AccessToken, end: End | None = None) -> ServiceError | None:
        """Why `token`, once found here, is no good now, or what was shown with that end."""
        known = self._by_serial.get(token.serial)
        if known is not token and known != token:
            return UnauthenticatedError("the access token has been revoked")
        if token.is_expired(self._clock.wall_ms()):
            return UnauthenticatedError(EXPIRED)
        if end is not None and self._clock.wall_ms() >= end.at_ms:
            return UnauthenticatedError(end.says)
        return None if self.is_fresh else UnavailableError(NO_LEASE)

    def ticket_end(self, token: AccessToken, seconds: int) -> TimestampMs:
        """Until when a read ticket of `token` holds that is to hold for `seconds` from now: no
        longer than the token."""
        ends_at_ms = self._clock.wall_ms() + 1000 * seconds
        if token.expires_at is not None:
            ends_at_ms = min(ends_at_ms, token.expires_at.unix_ns // 1_000_000)
        return TimestampMs(ends_at_ms)

    def check_ticket_end(self, ends_at_ms: TimestampMs) -> None:
        """Raises UnauthenticatedError for a read ticket that would hold for longer than any that is
        issued. The seal alone does not tell: a token's holder can make the same."""
        seconds_max = TICKET_SECONDS_MAX + TICKET_CLOCK_SKEW_SECONDS
        if ends_at_ms > self._clock.wall_ms() + 1000 * seconds_max:
            raise UnauthenticatedError(TAMPERED)

    def watch(self, watch: Watch) -> None:
        self._watched.setdefault(watch.key, set()).add(watch)

    def unwatch(self, watch: Watch) -> None:
        watches = self._watched.get(watch.key)
        if watches is not None:
            watches.discard(watch)
            if not watches:
                del self._watched[watch.key]

    def sweep(self) -> None:
        """Tell all whose token is no good any more. To be called every now and then: expiry and
        the end of a lease happen by themselves."""
        for watches in list(self._watched.values()):
            first = next(iter(watches))
            fault = self.fault(first.token, first.end)
            if fault is not None:
                for watch in list(watches):
                    watch.fail(fault)


def _is_root(token: AccessToken) -> bool:
    return token.token_id == ROOT_TOKEN_ID and token.parent == NO_PARENT


class Watch:
    """A block that ends with an error when its token is no good any more, as `asyncio.timeout` ends
    one when time is over. The error comes `grace_seconds` later for what should not be broken off
    in the middle. It may not span a `yield`."""

    def __init__(
        self,
        directory: TokenDirectory,
        token: AccessToken,
        grace_seconds: float,
        wrap: Callable[[ServiceError], ServiceError],
        end: End | None = None,
    ) -> None:
        self.token = token
        self.end = end
        self.key = (token.secret_hash, end)
        self._directory = directory
        self._grace_seconds = grace_seconds
        self._wrap = wrap
        self._fault: ServiceError | None = None
        self._has_cancelled = False
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        fault = self._directory.fault(self.token, self.end)
        if fault is not None:
            raise fault
        task = asyncio.current_task()
        assert task is not None, "a block runs in a task"
        self._task = task
        self._cancelling = task.cancelling()
        self._directory.watch(self)

    def fail(self, fault: ServiceError) -> None:
        if self._fault is not None:
            return
        self._fault = fault
        if self._grace_seconds:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._grace_seconds, self._cancel)
        else:
            self._cancel()

    def _cancel(self) -> None:
        self._has_cancelled = True
        self._task.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._directory.unwatch(self)
        if self._timer is not None:
            self._timer.cancel()
        if not self._has_cancelled or self._task.uncancel() > self._cancelling:
            return
        if kind is asyncio.CancelledError:
            assert self._fault is not None, "it was the reason"
            raise self._wrap(self._fault) from value
