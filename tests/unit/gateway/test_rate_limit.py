"""Limits of rates: what goes on, what is told of the rest, and what that costs others."""

from __future__ import annotations

import random

import pytest

from svc_cluster.gateway.limits import rate_limit
from svc_cluster.gateway.limits.rate_limit import (
    BURST_SECONDS,
    EARLY_SECONDS,
    LASTING_SHARE,
    SPREAD,
    Cost,
    RateLimit,
    Rates,
    Wait,
)

ONE = Cost(1.0)


def limit_of(account: Rates, token: Rates | None = None) -> RateLimit:
    return RateLimit(account, token or Rates(), random.Random(1))


def requests_of(lasting: float) -> RateLimit:
    """That lets so many a second through in the long run."""
    return limit_of(Rates(requests=lasting / LASTING_SHARE))


def exhaust(limit: RateLimit, now: float, token: int = 0) -> int:
    """Use up what may be used at once. Returns how many that were."""
    through = 0
    while limit.ask(token, ONE, now) is None:
        through += 1
    return through


def seconds(wait: Wait | None, now: float = 0.0) -> float:
    assert wait is not None
    return wait.at - now


def test_without_limits_nothing_waits() -> None:
    """However much comes at once."""
    limit = limit_of(Rates())
    assert all(limit.ask(0, Cost(1.0, 1e9, 1e9), 0.0) is None for _ in range(10_000))


def test_a_second_s_worth_may_come_at_once_after_a_pause() -> None:
    """And no more, however long the pause was; the refusal says which limit it was."""
    limit = requests_of(10.0)
    for now in (0.0, 1_000.0):
        assert exhaust(limit, now) == pytest.approx(10 * BURST_SECONDS, abs=1)
        wait = limit.ask(0, ONE, now)
        assert wait is not None
        assert wait.reason == "account_requests"
        assert wait.is_of_account


def test_a_wait_is_exact_but_for_a_tenth() -> None:
    """Of 1,000 who ask at one moment each is told at least what is needed and at most a tenth more,
    all over that tenth; one that comes as told goes on, one that comes clearly before does not."""
    limit = requests_of(2.0)
    exhaust(limit, 0.0)
    told = [seconds(limit.ask(0, ONE, 0.1), 0.1) for _ in range(1_000)]
    exact = 0.5 - 0.1  # what is used up is paid for by one request more each half second
    assert min(told) >= exact
    assert max(told) <= exact * (1 + SPREAD)
    for tenth in range(10):
        lower = exact * (1 + SPREAD * tenth / 10)
        assert sum(lower <= one < lower + exact * SPREAD / 10 for one in told) > 50
    assert limit.ask(0, ONE, 0.1 + exact - 2 * EARLY_SECONDS) is not None
    assert limit.ask(0, ONE, 0.1 + min(told)) is None


def test_what_was_refused_costs_nobody_anything() -> None:
    """Behind 400 requests that nobody comes back for, the next is told no more than one place, and
    is served when it comes as told."""
    limit = requests_of(5.0)
    exhaust(limit, 0.0)
    for _ in range(400):
        assert seconds(limit.ask(0, ONE, 0.0)) <= 0.2 * (1 + SPREAD)
    wait = seconds(limit.ask(0, ONE, 0.0))
    assert wait <= 0.2 * (1 + SPREAD)
    assert limit.ask(0, ONE, wait) is None


def test_who_comes_early_is_told_the_same_again() -> None:
    """Though there would be room by then: whoever waits as told is not behind those that do not.
    What has nothing to do with that limit goes on."""
    limit = limit_of(Rates(requests=2.0 / LASTING_SHARE, append_bytes=1e6))
    exhaust(limit, 0.0)
    told = limit.ask(0, ONE, 0.0)
    assert told is not None
    assert told.at > 0.5 + 2 * EARLY_SECONDS
    for now in (0.0, 0.25, 0.5, told.at - 2 * EARLY_SECONDS):
        assert limit.ask(0, ONE, now, told) is told
        assert limit.ask(0, Cost(append_bytes=1.0), now, told) is None
    assert limit.ask(0, ONE, told.at, told) is None


def test_a_large_request_is_not_behind_small_ones_for_ever() -> None:
    """Each may begin when what was before is paid for, whatever it costs itself; what comes behind
    it waits for it."""
    limit = limit_of(Rates(append_bytes=100.0 / LASTING_SHARE))
    assert limit.ask(0, Cost(1.0, append_bytes=100.0), 0.0) is None
    assert limit.ask(0, Cost(1.0, append_bytes=1_000.0), 0.0) is None
    wait = seconds(limit.ask(0, Cost(1.0, append_bytes=1.0), 0.0))
    assert 10.0 <= wait <= 10.0 * (1 + SPREAD)


def test_a_token_at_its_limit_takes_nothing_of_the_account() -> None:
    """Its refusals leave to others what is there, and say that it is the token's."""
    limit = limit_of(Rates(requests=10.0), Rates(requests=1.0))
    exhaust(limit, 0.0, token=1)
    for _ in range(50):
        wait = limit.ask(1, ONE, 0.0)
        assert wait is not None
        assert wait.reason == "token_requests"
        assert not wait.is_of_account
    assert sum(limit.ask(100 + n, ONE, 0.0) is None for n in range(8)) == 8


def test_limits_are_shared_by_the_gateways() -> None:
    """With three of them a third each; with one again all of it; also of a token that is known."""
    limit = limit_of(Rates(requests=30.0), Rates(requests=15.0))
    for at, gateways, account, token in ((0.0, 1, 30, 15), (9.0, 3, 10, 5), (99.0, 1, 30, 15)):
        limit.share(gateways)
        of_one = exhaust(limit, at, token=1)
        assert of_one == pytest.approx(token, abs=1)
        assert of_one + exhaust(limit, at) == pytest.approx(account, abs=2)


def test_what_was_taken_is_settled_either_way() -> None:
    """More than was charged makes the next ones wait, less gives the rest back."""
    limit = limit_of(Rates(append_bytes=100.0 / LASTING_SHARE))
    cost = Cost(1.0, append_bytes=100.0)
    assert limit.ask(0, cost, 0.0) is None
    limit.settle(0, Cost(append_bytes=400.0), 0.0)
    assert 4.0 <= seconds(limit.ask(0, cost, 0.0)) <= 4.4
    limit.settle(0, Cost(append_bytes=-400.0), 0.0)
    assert limit.ask(0, cost, 0.0) is None


def test_what_is_given_back_is_not_saved_up() -> None:
    """More than a second's worth never comes at once."""
    limit = requests_of(10.0)
    limit.settle(0, Cost(-1_000.0), 0.0)
    assert exhaust(limit, 100.0) == pytest.approx(10 * BURST_SECONDS, abs=1)


def test_tokens_that_owe_nothing_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered is bounded by those that owe something."""
    monkeypatch.setattr(rate_limit, "TOKENS_KEPT", 10)
    limit = limit_of(Rates(), Rates(requests=1.0))
    for token in range(1, 1_000):
        assert limit.ask(token, ONE, 10.0 * token) is None
    assert len(limit._tokens) <= 10
