"""Limits of rates: what is promised, to whom, and what becomes of it."""

from __future__ import annotations

import pytest

from svc_cluster.gateway import rate_limit
from svc_cluster.gateway.rate_limit import (
    BURST_SECONDS,
    FAR_PROMISES_MAX,
    HOLD_SECONDS,
    NOWHERE,
    PROMISES_OF_CONNECTION_MAX,
    REASONS,
    WAIT_SECONDS_MAX,
    Asker,
    Connection,
    Cost,
    RateLimit,
    Rates,
    Wait,
)

ONE = Cost(1.0)


def limit_of(rate: float) -> RateLimit:
    return RateLimit(Rates(requests=rate), Rates())


def client(number: int = 0, token: int = 0) -> Asker:
    return Asker(Connection(f"10.0.0.{number}"), token)


def exhaust(limit: RateLimit, now: float, token: int = 0) -> None:
    """Use up what may be used at once, without a promise."""
    while limit.debt(token, ONE, now) == 0.0:
        assert limit.slow(token, ONE, now) == 0.0


def seconds(wait: Wait | None) -> float:
    assert wait is not None
    return wait.seconds


def test_without_limits_nothing_waits() -> None:
    """However much comes at once."""
    limit = RateLimit(Rates(), Rates())
    assert all(limit.ask(client(), Cost(1.0, 1e9, 1e9), 0.0) is None for _ in range(10_000))


def test_a_second_s_worth_may_come_at_once_after_a_pause() -> None:
    """And no more, however long the pause was; the refusal says which limit it was."""
    limit = limit_of(10.0)
    asker = client()
    for now in (0.0, 1_000.0):
        through = 0
        while (wait := limit.ask(asker, ONE, now)) is None:
            through += 1
        assert through == pytest.approx(10 * BURST_SECONDS, abs=1)
        assert wait.reason == "account_requests"
        assert wait.reason in REASONS


def test_what_is_promised_nobody_else_gets() -> None:
    """Newcomers are told to come behind it, before its time and at its time."""
    limit = limit_of(10.0)
    exhaust(limit, 0.0)
    first, second = client(1), client(2)
    wait = seconds(limit.ask(first, ONE, 0.0))
    assert seconds(limit.ask(second, ONE, 0.0)) == pytest.approx(wait + 0.1)
    assert seconds(limit.ask(client(3), ONE, wait)) > 0
    assert limit.ask(first, ONE, wait + 0.05) is None
    assert limit.ask(second, ONE, wait + 0.1) is None


def test_a_promise_lapses_and_its_share_goes_to_others() -> None:
    """Nobody comes for it: what it had reserved is there again, and it is promised no more."""
    limit = limit_of(1.0)
    exhaust(limit, 0.0)
    gone = client(1)
    wait = seconds(limit.ask(gone, ONE, 0.0))
    behind = wait + HOLD_SECONDS + 0.001
    assert limit.promises == 1
    assert limit.ask(client(2), ONE, behind) is None
    assert limit.promises == 0
    assert limit.ask(client(3), ONE, behind) is None, "the reserved request was given back"


def test_a_promise_of_a_closed_connection_is_kept_on_another() -> None:
    """From the same address, with the same token, for the same; not for anybody else."""
    limit = RateLimit(Rates(requests=1.0), Rates())
    exhaust(limit, 0.0)
    first = client(1, token=5)
    wait = seconds(limit.ask(first, ONE, 0.0))
    other = Connection("10.0.0.1")
    assert limit.ask(Asker(other, 5), ONE, wait) is not None, "it is bound while that is open"
    first.connection.close()
    for stranger in (
        Asker(Connection("10.0.0.9"), 5),
        Asker(Connection("10.0.0.1"), 6),
        Asker(Connection("10.0.0.1"), 5, request=77),
    ):
        assert limit.ask(stranger, ONE, wait) is not None
    assert limit.ask(Asker(Connection("10.0.0.1"), 5), ONE, wait) is None


def test_a_connection_that_carries_others_leaves_its_promise_to_them() -> None:
    """As with a pool: each promise is kept once, whichever request comes for it."""
    limit = limit_of(1.0)
    exhaust(limit, 0.0)
    shared = Asker(Connection("10.0.0.1"), 0)
    waits = [seconds(limit.ask(shared, ONE, 0.0)) for _ in range(3)]
    assert waits == sorted(waits)
    for wait in waits:
        assert limit.ask(shared, ONE, wait) is None
    assert limit.ask(shared, ONE, waits[-1]) is not None


def test_a_request_that_is_the_only_one_of_its_kind_finds_its_promise_anywhere() -> None:
    """It is told by what it holds, though its first connection is open and idle. The same twice
    let through is no longer the only one."""
    limit = limit_of(1.0)
    exhaust(limit, 0.0)
    first = Asker(Connection("10.0.0.1"), 0, content=9)
    again = Asker(Connection("10.0.0.1"), 0, content=9)
    wait = seconds(limit.ask(first, ONE, 0.0))
    assert limit.ask(again, ONE, wait) is None
    wait += seconds(limit.ask(first, ONE, wait))
    assert limit.ask(again, ONE, wait) is not None


def test_a_promise_is_kept_though_more_is_known_of_the_request() -> None:
    """Its body had not arrived the first time: on its own connection it is the same request; on
    another one too, when the first is closed."""
    for closes in (False, True):
        limit = limit_of(1.0)
        exhaust(limit, 0.0)
        first = Connection("10.0.0.1")
        wait = seconds(limit.ask(Asker(first, 0, request=5), ONE, 0.0))
        again = Connection("10.0.0.1") if closes else first
        if closes:
            first.close()
        assert limit.ask(Asker(again, 0, request=5, content=9), ONE, wait) is None


def test_promises_without_a_connection_are_anybody_s() -> None:
    """Requests that came over none have nothing else to be known by."""
    limit = limit_of(1.0)
    exhaust(limit, 0.0)
    wait = seconds(limit.ask(Asker(NOWHERE, 0), ONE, 0.0))
    assert limit.ask(Asker(NOWHERE, 0), ONE, wait) is None


def test_promises_are_bounded_for_a_connection_and_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One connection can have so many; those far away only one, and so many in all."""
    fast = limit_of(100.0)
    exhaust(fast, 0.0)
    fast.slow(0, ONE, 0.0)
    asker = client()
    for _ in range(3 * PROMISES_OF_CONNECTION_MAX):
        assert fast.ask(asker, ONE, 0.0) is not None
    assert fast.promises == PROMISES_OF_CONNECTION_MAX
    slow = limit_of(0.01)
    exhaust(slow, 0.0)
    askers = [client(number) for number in range(2 * FAR_PROMISES_MAX)]
    for asker in askers + askers:
        assert seconds(slow.ask(asker, ONE, 0.0)) > WAIT_SECONDS_MAX
    assert slow.promises == FAR_PROMISES_MAX
    monkeypatch.setattr(rate_limit, "PROMISES_MAX", 3)
    full = limit_of(100.0)
    exhaust(full, 0.0)
    full.slow(0, ONE, 0.0)
    for number in range(9):
        assert full.ask(client(number), ONE, 0.0) is not None
    assert full.promises == 3


def test_a_token_at_its_limit_takes_nothing_of_the_account_while_it_waits() -> None:
    """Its promises reserve its own limit, not what others still have."""
    limit = RateLimit(Rates(requests=10.0), Rates(requests=1.0))
    exhaust(limit, 0.0, token=1)
    for _ in range(50):
        assert limit.ask(client(1, token=1), ONE, 5.0) is not None or limit.promises == 0
    before = limit.promises
    assert before > 10
    through = sum(limit.ask(client(n, token=100 + n), ONE, 5.0) is None for n in range(8))
    assert through == 8


def test_limits_are_shared_by_the_gateways() -> None:
    """With three of them a third each; with one again all of it."""
    limit = limit_of(30.0)
    exhaust(limit, 0.0)
    assert seconds(limit.ask(client(1), ONE, 0.0)) <= 1 / 30 + 1e-9
    limit.share(3)
    exhaust(limit, 100.0)
    first = seconds(limit.ask(client(2), ONE, 100.0))
    assert seconds(limit.ask(client(3), ONE, 100.0)) == pytest.approx(first + 0.1)
    limit.share(1)
    exhaust(limit, 200.0)
    first = seconds(limit.ask(client(4), ONE, 200.0))
    assert seconds(limit.ask(client(5), ONE, 200.0)) == pytest.approx(first + 1 / 30)


def test_what_was_taken_is_settled_either_way() -> None:
    """More than was charged makes the next ones wait, less gives the rest back."""
    limit = RateLimit(Rates(append_bytes=100.0), Rates())
    asker = client()
    cost = Cost(1.0, append_bytes=100.0)
    assert limit.ask(asker, cost, 0.0) is None
    limit.settle(0, Cost(append_bytes=400.0), 0.0)
    assert seconds(limit.ask(client(2), cost, 0.0)) == pytest.approx(4.0)
    limit.settle(0, Cost(append_bytes=-500.0), 0.0)
    assert limit.ask(client(3), cost, 0.0) is None


def test_tokens_that_owe_nothing_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered is bounded by those that owe something."""
    monkeypatch.setattr(rate_limit, "TOKENS_KEPT", 10)
    limit = RateLimit(Rates(), Rates(requests=1.0))
    limit._tokens_max = 10
    for token in range(1, 1_000):
        assert limit.ask(client(1, token=token), ONE, 10.0 * token) is None
    assert len(limit._tokens) <= 10


def test_sessions_wait_their_turn_and_are_never_refused() -> None:
    """One behind the other, at the rate."""
    limit = RateLimit(Rates(append_bytes=1_000.0), Rates())
    turns = [limit.slow(0, Cost(1.0, append_bytes=500.0), 0.0) for _ in range(6)]
    assert turns == [0.0, 0.0, 0.0, 0.5, 1.0, 1.5]
