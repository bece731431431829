"""When no gateway can go by old tokens any more, as the leader sees it."""

from __future__ import annotations

from svc_cluster.catalog.leases import LEASE_SECONDS, LEASE_SECONDS_HERE, LeaseTable


def leading(now: float = 0.0) -> LeaseTable:
    """A table whose leader has waited for its predecessor's leases."""
    table = LeaseTable()
    table.in_term(1, now - LEASE_SECONDS_HERE)
    return table


def test_the_leader_counts_longer_than_the_gateway() -> None:
    """The leader's clock may run 5 % faster than a gateway's before a lease is over too early."""
    assert LEASE_SECONDS_HERE >= LEASE_SECONDS * 1.05


def test_nobody_holds_a_lease_nobody_is_waited_for() -> None:
    assert leading().seconds_until(1, 0.0) == 0


def test_a_gateway_is_waited_for_until_it_confirms() -> None:
    """Behind the version it holds things up; once it says it has it, it does not."""
    table = leading()
    assert table.grant("g", 4, 0.0)
    assert table.seconds_until(4, 1.0) == 0
    assert table.seconds_until(5, 1.0) == LEASE_SECONDS_HERE - 1.0
    assert not table.confirm("g", 4)
    assert table.confirm("g", 5)
    assert table.seconds_until(5, 1.0) == 0


def test_a_silent_gateway_is_waited_for_until_its_lease_is_over() -> None:
    """The last renewal counts, and another gateway's confirmation does not help."""
    table = leading()
    table.grant("silent", 4, 0.0)
    table.grant("silent", 4, 0.2)
    table.grant("other", 5, 1.0)
    assert table.seconds_until(5, 1.0) == LEASE_SECONDS_HERE - 0.8
    assert table.seconds_until(5, 0.2 + LEASE_SECONDS_HERE) == 0
    assert len(table) == 1


def test_renewing_does_not_confirm() -> None:
    """A renewal says what the gateway had when it asked: what it is told with the answer counts
    only once it says so."""
    table = leading()
    table.grant("g", 4, 0.0)
    table.grant("g", 5, 0.1)
    assert table.seconds_until(5, 0.1) > 0


def test_a_new_leader_waits_one_whole_lease() -> None:
    """It does not know what its predecessor gave. The same term does not begin twice."""
    table = leading()
    table.grant("g", 4, 0.0)
    table.in_term(2, 10.0)
    assert len(table) == 0
    assert table.seconds_until(1, 10.0) == LEASE_SECONDS_HERE
    table.in_term(2, 11.0)
    assert table.seconds_until(1, 10.0 + LEASE_SECONDS_HERE) == 0


def test_there_is_a_bound_on_gateways() -> None:
    """One more gets no lease; once the others' are over, it does."""
    table = leading()
    for number in range(10_000):
        assert table.grant(str(number), 1, 0.0)
    assert not table.grant("one more", 1, 0.0)
    assert table.grant("7", 1, 0.0)
    assert table.grant("one more", 1, LEASE_SECONDS_HERE + 0.1)


def test_gateways_are_counted_while_their_leases_last() -> None:
    """Limits are shared by so many. A new leader does not know until its predecessor's leases are
    over: those who were told a number keep to it."""
    table = leading()
    table.grant("a", 1, 0.0)
    table.grant("b", 1, 0.0)
    assert table.count(0.1) == 2
    table.grant("b", 1, 2.0)
    assert table.count(LEASE_SECONDS_HERE + 0.1) == 1
    table.in_term(2, 100.0)
    table.grant("a", 1, 100.0)
    assert table.count(100.1) == 0
    table.grant("a", 1, 103.0)
    assert table.count(100.0 + LEASE_SECONDS_HERE) == 1
