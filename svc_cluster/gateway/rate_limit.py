"""How fast the account and each access token may go: decisions only. `now` is monotonic seconds.

Every limit is a virtual schedule: the moment at which all that it has let through or promised is
paid for at its rate. Whoever comes within BURST_SECONDS of that goes on; whoever does not is told
how long to wait, and its turn behind the others is **promised** to it. Nobody else gets what is
promised, so that one announced wait is enough. A promise belongs to the connection it was made on;
once that is closed, or carries other requests, it belongs to whoever comes next from the same
address, with the same token, for the same. It lapses HOLD_SECONDS behind its time, and what it had
reserved is given back.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

BURST_SECONDS: Final = 1.0
"""Of each limit's rate that may be used at once after a pause."""
HOLD_SECONDS: Final = 2.0
"""How late one may come and still find what was promised."""
EARLY_SECONDS: Final = 0.002
"""How early one may come: waits are announced in whole milliseconds."""
WAIT_SECONDS_MAX: Final = 10.0
"""Promises for later than this are made only to connections that have none."""
FAR_PROMISES_MAX: Final = 64
"""Of those."""
PROMISES_OF_CONNECTION_MAX: Final = 100
"""As many requests as may be under way on one connection of HTTP/2."""
PROMISES_MAX: Final = 10_000
"""Promises at one time. Whoever comes on top is told when to come, and finds nothing reserved."""
TOKENS_KEPT: Final = 4096
"""Tokens whose limits are remembered though they owe nothing."""
RECENT_MAX: Final = 4096
_MEAN_WEIGHT: Final = 0.125
_MEAN_BYTES_FIRST: Final = 64 * 1024.0


class Rates(NamedTuple):
    """Per second; None: without limit. Values are above 0."""

    requests: float | None = None
    append_bytes: float | None = None
    read_bytes: float | None = None


class Cost(NamedTuple):
    """What a request takes of each limit; 0: it has nothing to do with that one."""

    requests: float = 0.0
    append_bytes: float = 0.0
    read_bytes: float = 0.0


class Connection:
    """Of a client, as far as limits are concerned. Whoever owns it says when it is closed."""

    __slots__ = ("address", "promise", "promises")

    def __init__(self, address: str) -> None:
        """`address`: of the client, without its port."""
        self.address = address
        self.promise: _Promise | None = None
        """The last one made on it, as long as it has carried nothing else since."""
        self.promises = 0
        """All that were made on it and are neither kept nor lapsed."""

    def close(self) -> None:
        """Or it carries another request: what was promised on it is anybody's of its owner."""
        if self.promise is not None:
            self.promise.unbind()


NOWHERE: Final = Connection("")
"""For requests that came over no connection."""


class Asker(NamedTuple):
    """Who asks, and for what."""

    connection: Connection
    token: int
    """Serial of the access token that pays; 0 for none."""
    request: int = 0
    """A hash of the request's head: the same again when it is repeated."""
    content: int = 0
    """A hash of its content, which another request hardly shares; 0: not known yet."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Come again in so many seconds. `reason` is one of REASONS."""

    seconds: float
    reason: str


_DIMENSIONS: Final = Rates._fields
REASONS: Final = tuple(
    f"{owner}_{dimension}" for owner in ("account", "token") for dimension in _DIMENSIONS
)


class _Meter:
    """One limit of one owner."""

    __slots__ = ("paid_at", "rate", "reason", "whole")

    def __init__(self, whole: float, gateways: int, reason: str) -> None:
        """`whole`: of all gateways together."""
        self.whole = whole
        self.rate = whole / gateways
        self.reason = reason
        self.paid_at = float("-inf")

    def charge(self, amount: float, now: float) -> None:
        """`amount` may be negative: a part is given back. What is unused is not saved up."""
        self.paid_at = max(self.paid_at, now) + amount / self.rate


class _OwnerKey(NamedTuple):
    token: int
    address: str
    kinds: tuple[bool, ...]
    request: int
    content: int


@dataclass(slots=True, eq=False)
class _Owner:
    """Whose promises are interchangeable as far as their connections say nothing: the same token
    from the same address, for the same."""

    key: _OwnerKey
    open: set[_Promise] = field(default_factory=set)
    """Those that are neither kept nor lapsed."""
    unbound: list[tuple[float, int, _Promise]] = field(default_factory=list)
    """A heap by time; those that are over stay until they come first."""

    def due(self, now: float) -> _Promise | None:
        unbound = self.unbound
        while unbound and unbound[0][2].is_over:
            heapq.heappop(unbound)
        return unbound[0][2] if unbound and unbound[0][0] <= now + EARLY_SECONDS else None


@dataclass(slots=True, eq=False)
class _Promise:
    at: float
    number: int
    owner: _Owner
    connection: Connection
    reserved: dict[_Meter, float]
    """What is taken of each limit already. Of those that were not exhausted when the promise was
    made nothing is: that is charged when it is kept."""
    is_far: bool
    is_over: bool = False

    def unbind(self) -> None:
        if self.connection.promise is self:
            self.connection.promise = None
        heapq.heappush(self.owner.unbound, (self.at, self.number, self))


def _may_be_one(first: _OwnerKey, again: _OwnerKey) -> bool:
    """Whether both keys can be those of one request. What was not known the first time may be
    now."""
    return first == again or (first[:4] == again[:4] and not (first.content and again.content))


class RateLimit:
    """The limits of one gateway, for all that comes through it."""

    def __init__(self, account: Rates, token: Rates) -> None:
        """`token`: for each one of them."""
        self._rates = {"account": account, "token": token}
        self._gateways = 1
        self._account = self._meters("account")
        self._tokens: dict[int, list[_Meter | None]] = {}
        self._tokens_max = TOKENS_KEPT
        self._owners: dict[_OwnerKey, _Owner] = {}
        self._lapses: list[tuple[float, int, _Promise]] = []
        self._made = 0
        self._open = 0
        self._far = 0
        self._recent: dict[int, None] = {}
        """Hashes of contents that were let through, the latest last."""
        self._mean_append = _MEAN_BYTES_FIRST
        self._mean_read = _MEAN_BYTES_FIRST

    @property
    def promises(self) -> int:
        """That are neither kept nor lapsed."""
        return self._open

    def share(self, gateways: int) -> None:
        """The limits are those of all `gateways` (1 or more) together: this one has its part."""
        assert gateways > 0, "there is at least this one"
        if gateways == self._gateways:
            return
        self._gateways = gateways
        for meters in (self._account, *self._tokens.values()):
            for meter in meters:
                if meter is not None:
                    meter.rate = meter.whole / gateways

    # -- requests

    def ask(self, asker: Asker, cost: Cost, now: float) -> Wait | None:
        """Whether a request may go on; None: it may, and its cost is charged."""
        self._lapse(now)
        charges = dict(self._charges(asker.token, cost, now))
        if not charges:
            return None
        kinds = tuple(map(bool, cost))
        key = _OwnerKey(asker.token, asker.connection.address, kinds, asker.request, asker.content)
        promise = self._due(key, asker.connection, now)
        if promise is not None:
            for meter, amount in charges.items():
                meter.charge(amount - promise.reserved.pop(meter, 0.0), now)
            self._end(promise, now)
            self._let_through(asker)
            return None
        at, reason = max((meter.paid_at - BURST_SECONDS, meter.reason) for meter in charges)
        if at <= now + EARLY_SECONDS:
            for meter, amount in charges.items():
                meter.charge(amount, now)
            self._let_through(asker)
            return None
        wait = Wait(at - now, reason)
        self._promise(asker.connection, key, charges, wait, now)
        return wait

    def slow(self, token: int, cost: Cost, now: float) -> float:
        """As `ask` for what can be kept waiting: charges it at once, and returns how many seconds
        it has to wait for its turn."""
        self._lapse(now)
        wait = 0.0
        for meter, amount in self._charges(token, cost, now):
            wait = max(wait, meter.paid_at - BURST_SECONDS - now)
            meter.charge(amount, now)
        return wait

    def debt(self, token: int, cost: Cost, now: float) -> float:
        """How long `slow` would have it wait, without charging anything."""
        charges = self._charges(token, cost, now)
        waits = [meter.paid_at - BURST_SECONDS - now for meter, _ in charges]
        return max(0.0, max(waits, default=0.0))

    def settle(self, token: int, cost: Cost, now: float) -> None:
        """Charge on top what a request turned out to take; below 0: give back."""
        for meter, amount in self._charges(token, cost, now):
            meter.charge(amount, now)

    # -- sizes that are not known beforehand

    @property
    def mean_append_bytes(self) -> float:
        """What an append takes that does not announce its length: as the last ones did."""
        return self._mean_append

    @property
    def mean_read_bytes(self) -> float:
        return self._mean_read

    def appended(self, size: float) -> None:
        self._mean_append += (size - self._mean_append) * _MEAN_WEIGHT

    def read(self, size: float) -> None:
        self._mean_read += (size - self._mean_read) * _MEAN_WEIGHT

    # -- promises

    def _due(self, key: _OwnerKey, connection: Connection, now: float) -> _Promise | None:
        """The promise that a request comes back for."""
        bound = connection.promise
        if bound is not None:
            is_due = bound.at <= now + EARLY_SECONDS
            if is_due and _may_be_one(bound.owner.key, key):
                return bound
            bound.unbind()
        owner = self._owners.get(key)
        if owner is not None:
            unbound = owner.due(now)
            if unbound is not None:
                return unbound
            if key.content and len(owner.open) == 1 and key.content not in self._recent:
                # whichever connection it comes over: nobody else asks for the same
                (only,) = owner.open
                if only.at <= now + EARLY_SECONDS:
                    return only
        unknown = self._owners.get(key._replace(content=0)) if key.content else None
        return None if unknown is None else unknown.due(now)

    def _let_through(self, asker: Asker) -> None:
        """From now on its content says nothing: there are more who ask for the very same."""
        if asker.content:
            self._recent.pop(asker.content, None)
            self._recent[asker.content] = None
            if len(self._recent) > RECENT_MAX:
                del self._recent[next(iter(self._recent))]

    def _promise(
        self,
        connection: Connection,
        key: _OwnerKey,
        charges: dict[_Meter, float],
        wait: Wait,
        now: float,
    ) -> None:
        """See that whoever was told to wait finds its place, as far as that can be promised."""
        is_far = wait.seconds > WAIT_SECONDS_MAX
        full = connection.promises >= (1 if is_far else PROMISES_OF_CONNECTION_MAX)
        if full or self._open >= PROMISES_MAX or (is_far and self._far >= FAR_PROMISES_MAX):
            return
        owner = self._owners.setdefault(key, _Owner(key))
        exhausted = now + BURST_SECONDS
        reserved = {m: amount for m, amount in charges.items() if m.paid_at > exhausted}
        for meter, amount in reserved.items():
            meter.charge(amount, now)
        self._made += 1
        promise = _Promise(now + wait.seconds, self._made, owner, connection, reserved, is_far)
        connection.close()
        if connection is NOWHERE:
            promise.unbind()
        else:
            connection.promise = promise
            connection.promises += 1
        owner.open.add(promise)
        self._open += 1
        self._far += is_far
        heapq.heappush(self._lapses, (promise.at + HOLD_SECONDS, self._made, promise))

    def _lapse(self, now: float) -> None:
        """Give back what was promised to those who did not come."""
        lapses = self._lapses
        while lapses and (lapses[0][2].is_over or lapses[0][0] <= now):
            _, _, promise = heapq.heappop(lapses)
            if not promise.is_over:
                self._end(promise, now)

    def _end(self, promise: _Promise, now: float) -> None:
        """It is kept, or has lapsed: what is left of what it had reserved is given back."""
        for meter, amount in promise.reserved.items():
            meter.charge(-amount, now)
        promise.is_over = True
        connection = promise.connection
        if connection.promise is promise:
            connection.promise = None
        if connection is not NOWHERE:
            connection.promises -= 1
        self._open -= 1
        self._far -= promise.is_far
        owner = promise.owner
        owner.open.discard(promise)
        if not owner.open:
            del self._owners[owner.key]

    # -- limits

    def _charges(self, token: int, cost: Cost, now: float) -> Iterator[tuple[_Meter, float]]:
        """The limits that `cost` counts against, and how much of each."""
        lists = [self._account]
        if token and any(rate is not None for rate in self._rates["token"]):
            lists.append(self._meters_of(token, now))
        for meters in lists:
            for meter, amount in zip(meters, cost, strict=True):
                if meter is not None and amount:
                    yield meter, amount

    def _meters_of(self, token: int, now: float) -> list[_Meter | None]:
        meters = self._tokens.get(token)
        if meters is None:
            if len(self._tokens) >= self._tokens_max:
                self._forget_tokens(now)
            meters = self._tokens[token] = self._meters("token")
        return meters

    def _forget_tokens(self, now: float) -> None:
        """Those that owe nothing are as new ones; while most owe something, more are kept."""
        self._tokens = {
            token: meters
            for token, meters in self._tokens.items()
            if any(meter is not None and meter.paid_at > now for meter in meters)
        }
        self._tokens_max = max(TOKENS_KEPT, 2 * len(self._tokens))

    def _meters(self, owner: str) -> list[_Meter | None]:
        return [
            None if rate is None else _Meter(rate, self._gateways, f"{owner}_{dimension}")
            for dimension, rate in zip(_DIMENSIONS, self._rates[owner], strict=True)
        ]
