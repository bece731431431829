"""Limits of rates over whole crowds of clients, in virtual time."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc_cluster.gateway.limits.rate_limit import (
    BURST_SECONDS,
    EARLY_SECONDS,
    LASTING_SHARE,
    SPREAD,
    Cost,
    RateLimit,
    Rates,
)
from tests.property.gateway.limited_clients import Report, Route, Scene

SECONDS = 30.0
FAIR_MIN = 20.0
"""Requests of each, of which nobody is left without any: chance decides who comes first."""

crowds = st.integers(2, 64)
seeds = st.integers(0, 2**32)
costs = st.sampled_from(
    [
        (Rates(requests=1.0), Cost(requests=1.0)),
        (Rates(append_bytes=1.0), Cost(1.0, append_bytes=1.0)),
        (Rates(read_bytes=1.0), Cost(1.0, read_bytes=1.0)),
        (Rates(requests=1.0, append_bytes=2.0), Cost(1.0, append_bytes=1.0)),
    ]
)


def times(rates: Rates, factor: float) -> Rates:
    return Rates(*(None if rate is None else rate * factor for rate in rates))


def gateways(count: int, seed: int, account: Rates, token: Rates) -> list[RateLimit]:
    limits = [RateLimit(account, token, random.Random(f"{seed}/{n}")) for n in range(count)]
    for limit in limits:
        limit.share(count)
    return limits


def check(report: Report, rate: float, clients: int, part: float = 1.0) -> None:
    """`part`: of the limit that there is at each gateway."""
    assert 0.90 <= report.served / (rate * SECONDS) <= 1.0
    if rate * SECONDS / clients >= FAIR_MIN:
        assert min(report.requests) > 0, "nobody is left without"
    # one request's place, told in whole milliseconds
    place = 1 / (rate * part * LASTING_SHARE) + EARLY_SECONDS
    assert report.longest <= (1 + SPREAD) * place + 0.001


@settings(max_examples=15, deadline=None)
@given(seeds, crowds, st.floats(2.0, 100.0), costs, st.booleans(), st.booleans())
def test_a_crowd_at_twice_the_limit_is_served_90_to_100_percent_of_it(
    seed: int, clients: int, rate: float, what: tuple[Rates, Cost], of_token: bool, paced: bool
) -> None:
    """Over 30 s from the first request on, and everybody has a part: clients that send at once or
    at their pace, which is twice their share, and wait as they are told, no longer than for one
    request."""
    rates, cost = what
    rates = times(rates, rate)
    limits = gateways(1, seed, *((Rates(), rates) if of_token else (rates, Rates())))
    period = clients / (2 * rate) if paced else 0.0
    check(Scene(limits, cost, clients, period=period).play(seed), rate, clients)


@settings(max_examples=15, deadline=None)
@given(seeds, st.integers(3, 64), st.floats(10.0, 100.0), st.sampled_from(list(Route)))
def test_a_crowd_at_three_gateways_is_served_90_to_100_percent(
    seed: int, clients: int, rate: float, route: Route
) -> None:
    """The same through three gateways with a third of the limit each, be it always through the same
    one or through any."""
    limits = gateways(3, seed, Rates(requests=rate), Rates())
    scene = Scene(limits, Cost(1.0), clients, route=route, period=clients / (2 * rate))
    check(scene.play(seed), rate, clients, 1 / 3)


@pytest.mark.parametrize("clients", [2, 3])
def test_few_clients_at_three_gateways_use_the_limit_of_all(clients: int) -> None:
    """Where each asks now here and now there, as behind a balancer."""
    for seed in range(5):
        limits = gateways(3, seed, Rates(requests=20.0), Rates())
        scene = Scene(limits, Cost(1.0), clients, route=Route.ANY, period=clients / 40.0)
        check(scene.play(seed), 20.0, clients, 1 / 3)


@settings(max_examples=15, deadline=None)
@given(seeds, st.integers(2, 4), st.integers(1, 5), st.floats(5.0, 20.0))
def test_those_that_wait_are_served_beside_those_that_do_not(
    seed: int, clients: int, unfair: int, rate: float
) -> None:
    """A few clients that come back early, at once or never get no more than the limit together with
    those that wait, each of which has a part of it."""
    limits = gateways(1, seed, Rates(requests=rate), Rates())
    report = Scene(limits, Cost(1.0), clients, unfair=unfair).play(seed)
    assert 0.90 <= report.served / (rate * SECONDS) <= 1.0
    assert min(report.requests) > 0, "nobody is left without"


@settings(max_examples=200, deadline=None)
@given(
    st.floats(0.5, 10_000.0),
    st.lists(st.tuples(st.floats(0.0, 3.0), st.integers(0, 400)), min_size=1, max_size=20),
    st.floats(0.1, 50.0),
)
def test_a_lone_client_that_waits_succeeds(
    rate: float, steps: list[tuple[float, int]], cost: float
) -> None:
    """Whatever it pauses in between, be its requests larger than a second's worth, and however many
    requests nobody comes back for: the first attempt behind a wait is let through."""
    (limit,) = gateways(1, 0, Rates(append_bytes=rate), Rates())
    taken = Cost(1.0, append_bytes=cost * rate)
    now = 0.0
    for pause, abandoned in steps:
        now += pause
        wait = limit.ask(1, taken, now)
        if wait is None:
            continue
        for _ in range(abandoned):
            again = limit.ask(1, taken, now)
            assert again is not None
            assert again.at - now <= (wait.at - now) * (1 + SPREAD)
        now += math.ceil((wait.at - now) * 1000) / 1000
        assert limit.ask(1, taken, now) is None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(1, 4)), min_size=1, max_size=60))
def test_no_more_than_the_limit_in_any_time(steps: list[tuple[float, int]]) -> None:
    """Several tokens, each with a limit, under one of the account: what was let through up to any
    moment is at most the rate times the time, and the burst, and one request."""
    (limit,) = gateways(1, 0, Rates(requests=10.0), Rates(requests=4.0))
    now = 0.0
    let_through = dict.fromkeys(range(1, 5), 0)
    for pause, token in steps:
        now += pause
        if limit.ask(token, Cost(1.0), now) is None:
            let_through[token] += 1
        assert let_through[token] <= 4.0 * (now + BURST_SECONDS) + 1 + 1e-6
        assert sum(let_through.values()) <= 10.0 * (now + BURST_SECONDS) + 1 + 1e-6
