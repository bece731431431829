"""Limits of rates over whole crowds of clients, in virtual time."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from svc_cluster.gateway.rate_limit import (
    BURST_SECONDS,
    Asker,
    Connection,
    Cost,
    RateLimit,
    Rates,
)
from tests.property.gateway.limited_clients import Scene, Wiring

SECONDS = 30.0
TOLERANCE = 0.05
WAITS_MAX = 3

crowds = st.integers(2, 64)
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


def check(scene: Scene, seed: int, rate: float) -> None:
    report = scene.play(seed)
    share = report.served / (rate * SECONDS)
    assert 1 - TOLERANCE <= share <= 1 + TOLERANCE, share
    assert report.waits, "somebody was served"
    assert max(report.waits) <= WAITS_MAX


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), crowds, st.floats(2.0, 200.0), costs, st.booleans(), st.booleans())
def test_a_crowd_at_twice_the_limit_is_served_at_the_limit(
    seed: int, clients: int, rate: float, what: tuple[Rates, Cost], of_token: bool, paced: bool
) -> None:
    """Within 5 % over 30 s, and nobody is told to wait more than three times for one request:
    clients with a connection each, that send at once or at their pace, which is twice their share.
    """
    rates, cost = what
    rates = times(rates, rate)
    limit = RateLimit(Rates(), rates) if of_token else RateLimit(rates, Rates())
    period = clients / (2 * rate) if paced else 0.0
    check(Scene(limit, cost, clients, period=period), seed, rate)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), crowds, st.floats(2.0, 200.0), st.sampled_from(list(Wiring)))
def test_requests_that_differ_find_their_promise_over_any_connection(
    seed: int, clients: int, rate: float, wiring: Wiring
) -> None:
    """The same for clients that share connections, or have a new one each time, as long as what
    they send tells their requests apart."""
    limit = RateLimit(Rates(requests=rate), Rates())
    check(Scene(limit, Cost(1.0), clients, wiring=wiring, unique=True), seed, rate)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), crowds, st.integers(1, 9), st.floats(10.0, 200.0))
def test_those_that_wait_are_served_beside_those_that_do_not(
    seed: int, clients: int, unfair: int, rate: float
) -> None:
    """Clients that come back early, at once or never take some of the limit; nobody who waits is
    told to more than three times for that."""
    limit = RateLimit(Rates(requests=rate), Rates())
    report = Scene(limit, Cost(1.0), clients, unfair=unfair).play(seed)
    assert report.served <= (1 + TOLERANCE) * rate * SECONDS
    assert report.waits, "somebody was served"
    assert max(report.waits) <= WAITS_MAX


@settings(max_examples=200, deadline=None)
@given(
    st.floats(0.5, 10_000.0),
    st.lists(st.floats(0.0, 3.0), min_size=1, max_size=40),
    st.floats(0.1, 50.0),
)
def test_a_lone_client_that_waits_succeeds(rate: float, pauses: list[float], cost: float) -> None:
    """Whatever it pauses in between, and be its requests larger than a second's worth: the first
    attempt behind a wait is let through."""
    limit = RateLimit(Rates(append_bytes=rate), Rates())
    taken = Cost(1.0, append_bytes=cost * rate)
    asker = Asker(Connection("10.0.0.1"), 0)
    now = 0.0
    for pause in pauses:
        now += pause
        wait = limit.ask(asker, taken, now)
        if wait is not None:
            now += wait.seconds
            assert limit.ask(asker, taken, now) is None
    assert limit.promises == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(1, 4)), min_size=1, max_size=60))
def test_no_more_than_the_limit_in_any_time(steps: list[tuple[float, int]]) -> None:
    """Several tokens, each with a limit, under one of the account: what was let through up to any
    moment is at most the rate times the time, and the burst, and one request."""
    limit = RateLimit(Rates(requests=10.0), Rates(requests=4.0))
    connections = {token: Connection(str(token)) for token in range(1, 5)}
    now = 0.0
    let_through = dict.fromkeys(connections, 0)
    for pause, token in steps:
        now += pause
        if limit.ask(Asker(connections[token], token), Cost(1.0), now) is None:
            let_through[token] += 1
        assert let_through[token] <= 4.0 * (now + BURST_SECONDS) + 1 + 1e-6
        assert sum(let_through.values()) <= 10.0 * (now + BURST_SECONDS) + 1 + 1e-6
