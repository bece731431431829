"""Attempts without a valid token: counted by address, bounded, and in nobody else's way."""

from __future__ import annotations

import pytest

from svc_cluster.gateway.access import failed_attempts
from svc_cluster.gateway.access.failed_attempts import BURST_SECONDS, FailedAttempts, network_of


def test_an_address_that_fails_too_much_is_told_when_to_come_again() -> None:
    """After what it may use at once, at its rate; another address is not touched."""
    failed = FailedAttempts(2.0)
    waits = [failed.note("10.0.0.1", 0.0) for _ in range(100)]
    through = waits.count(0)
    assert through == pytest.approx(2.0 * BURST_SECONDS, abs=1)
    assert waits[through] == 500
    assert failed.note("10.0.0.2", 0.0) == 0
    assert failed.note("10.0.0.1", 0.5) == 0
    assert failed.note("10.0.0.1", 0.5) == 500


def test_without_a_rate_nothing_is_limited() -> None:
    """And nothing is remembered."""
    failed = FailedAttempts(None)
    assert all(failed.note("10.0.0.1", 0.0) == 0 for _ in range(10_000))
    assert len(failed) == 0


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address that failed least recently goes first: a busy guesser stays."""
    monkeypatch.setattr(failed_attempts, "ADDRESSES_MAX", 100)
    failed = FailedAttempts(0.001)
    while failed.note("guesser", 0.0) == 0:
        pass
    for number in range(1_000):
        assert failed.note(f"10.1.{number // 256}.{number % 256}", 0.0) == 0
        assert failed.note("guesser", 0.0) > 0
    assert len(failed) == 100


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("", ""),
        ("not an address", "not an address"),
    ],
)
def test_an_ipv6_network_counts_as_one_address(address: str, network: str) -> None:
    """Whoever has one has 2^64 addresses."""
    assert network_of(address) == network
