"""How fast the account and each access token may go: decisions only. `now` is monotonic seconds.

Every limit is one virtual schedule: the moment at which all that it has let through is paid for at
its rate. Whoever comes within BURST_SECONDS of that goes on and moves it; whoever does not is told
how long that takes, and moves nothing. So what was refused and never comes back costs nobody
anything. All who are told the same time are spread a little, so that it is chance who comes first.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

BURST_SECONDS: Final = 1.0
"""How many seconds of each limit's rate may be used at once after a pause."""
LASTING_SHARE: Final = 0.95
"""The share of a limit in the long run: with the burst, what any 30 s let through is still within
it."""
SPREAD: Final = 0.1
"""The share of a wait by which it is told longer at most."""
EARLY_SECONDS: Final = 0.001
"""How early one may come: clients' clocks are not ours."""
TOKENS_KEPT: Final = 4096
"""Tokens whose limits are remembered though they owe nothing."""
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


_ACCOUNT: Final = "account"
_DIMENSIONS: Final = Rates._fields


class Meter:
    """One limit of one owner."""

    __slots__ = ("paid_at", "rate", "reason", "whole")

    def __init__(self, whole: float, gateways: int, reason: str) -> None:
        """`whole`: of all gateways together."""
        self.whole = whole
        self.reason = reason
        self.paid_at = float("-inf")
        self.share(gateways)

    def share(self, gateways: int) -> None:
        self.rate = self.whole * LASTING_SHARE / gateways

    def charge(self, amount: float, now: float) -> None:
        """`amount` may be negative: a part is given back. What is unused is not saved up."""
        self.paid_at = max(self.paid_at, now) + amount / self.rate


def _paid_at(meter: Meter) -> float:
    return meter.paid_at


@dataclass(frozen=True, slots=True)
class Wait:
    """Come again at a moment, on the clock of `now`."""

    at: float
    meter: Meter
    """What is used up."""

    @property
    def reason(self) -> str:
        """The owner, `account` or `token`, and behind `_` one of the members of Rates."""
        return self.meter.reason

    @property
    def is_of_account(self) -> bool:
        """Rather than of one token."""
        return self.reason.startswith(_ACCOUNT)


class RateLimit:
    """The limits of one gateway, for all that comes through it."""

    def __init__(self, account: Rates, token: Rates, rng: random.Random) -> None:
        """`token`: for each one of them. `rng` spreads the waits."""
        self._rates = {_ACCOUNT: account, "token": token}
        self._rng = rng
        self._gateways = 1
        self._account = self._meters(_ACCOUNT)
        self._tokens: dict[int, list[Meter | None]] = {}
        self._tokens_max = TOKENS_KEPT
        self._mean_append = _MEAN_BYTES_FIRST
        self._mean_read = _MEAN_BYTES_FIRST

    def change(self, account: Rates, token: Rates) -> None:
        """Other limits from now on. Nobody owes anything of the old ones."""
        self._rates = {_ACCOUNT: account, "token": token}
        self._account = self._meters(_ACCOUNT)
        self._tokens.clear()

    @property
    def has_reads(self) -> bool:
        """Whether what is read has a limit, of the account or of tokens."""
        return any(rates.read_bytes is not None for rates in self._rates.values())

    def share(self, gateways: int) -> None:
        """The limits are those of all `gateways` (1 or more) together: this one has its part."""
        assert gateways > 0, "there is at least this one"
        if gateways == self._gateways:
            return
        self._gateways = gateways
        for meters in (self._account, *self._tokens.values()):
            for meter in meters:
                if meter is not None:
                    meter.share(gateways)

    def ask(self, token: int, cost: Cost, now: float, told: Wait | None = None) -> Wait | None:
        """Whether something may go on; None: it may, and its cost is charged. `token`: serial of
        the access token that pays, 0 for none. `told`: what whoever asks was told the last time: it
        gains nothing by coming before."""
        charges = list(self._charges(token, cost, now))
        if not charges:
            return None
        used_up = max((meter for meter, _ in charges), key=_paid_at)
        # Whatever it costs: small ones would otherwise always be there before a large one.
        seconds = used_up.paid_at - BURST_SECONDS - now
        is_early = told is not None and told.at > now + EARLY_SECONDS
        if told is not None and is_early and any(meter is told.meter for meter, _ in charges):
            return told
        if seconds > EARLY_SECONDS:
            return Wait(now + seconds * (1 + SPREAD * self._rng.random()), used_up)
        for meter, amount in charges:
            meter.charge(amount, now)
        return None

    def settle(self, token: int, cost: Cost, now: float) -> None:
        """Charge on top what something turned out to take; below 0: give back."""
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

    # -- limits

    def _charges(self, token: int, cost: Cost, now: float) -> Iterator[tuple[Meter, float]]:
        """The limits that `cost` counts against, and how much of each."""
        lists = [self._account]
        if token and any(rate is not None for rate in self._rates["token"]):
            lists.append(self._meters_of(token, now))
        for meters in lists:
            for meter, amount in zip(meters, cost, strict=True):
                if meter is not None and amount:
                    yield meter, amount

    def _meters_of(self, token: int, now: float) -> list[Meter | None]:
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

    def _meters(self, owner: str) -> list[Meter | None]:
        return [
            None if rate is None else Meter(rate, self._gateways, f"{owner}_{dimension}")
            for dimension, rate in zip(_DIMENSIONS, self._rates[owner], strict=True)
        ]
