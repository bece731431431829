"""When no gateway can go by old tokens any more, as the leader sees it."""

from __future__ import annotations

import pytest

from svc_cluster.catalog.leases import (
    LEASE_SECONDS,
    LEASE_SECONDS_HERE,
    HandedLease,
    HandedLeases,
    LeaseTable,
)


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


def deposed(now: float) -> LeaseTable:
    """Of the leader of term 1, which has waited for its predecessor's leases, and gave two."""
    table = leading()
    table.grant("a", 4, now - 1.0)
    table.grant("b", 5, now)
    return table


def test_a_successor_that_is_told_waits_for_nobody_else() -> None:
    """It counts each lease from when it is told, by its own clock, and goes by what the gateways
    have confirmed: without any it waits one whole lease."""
    handed = deposed(10.0).hand_on(2, 2, 10.5)
    assert handed is not None
    successor = LeaseTable()
    successor.in_term(2, 500.0)
    assert successor.seconds_until(5, 500.1) > LEASE_SECONDS_HERE - 0.2
    assert successor.count(500.1) == 0
    assert successor.take_over(2, handed, 500.2)
    assert successor.count(500.2) == 2
    assert successor.seconds_until(4, 500.2) == 0
    assert successor.seconds_until(5, 500.2) == pytest.approx(LEASE_SECONDS_HERE - 1.5)
    assert successor.seconds_until(6, 500.2) == pytest.approx(LEASE_SECONDS_HERE - 0.5)
    assert successor.confirm("a", 6) and successor.confirm("b", 6)
    assert successor.seconds_until(6, 500.2) == 0


def test_a_leader_hands_nothing_on_while_it_may_still_give_leases() -> None:
    """It must have seen the successor's term. Then it leads no longer, and gives none."""
    table = deposed(10.0)
    assert table.hand_on(2, 1, 10.0) is None
    assert table.hand_on(2, 2, 10.0) is not None
    assert table.hand_on(2, 3, 10.0) is not None


def test_only_the_leader_of_the_very_next_term_is_told() -> None:
    """Of the terms between, others may have given leases."""
    table = deposed(10.0)
    assert table.hand_on(3, 3, 10.0) is None
    assert table.hand_on(1, 2, 10.0) is None
    assert LeaseTable().hand_on(1, 1, 10.0) is None


def test_what_the_predecessor_was_not_told_is_waited_for_by_the_successor_too() -> None:
    """Two changes in a row: the first one's leader crashed."""
    table = LeaseTable()
    table.in_term(1, 10.0)
    table.grant("a", 4, 10.5)
    handed = table.hand_on(2, 2, 11.0)
    assert handed is not None
    successor = LeaseTable()
    successor.in_term(2, 50.0)
    assert successor.take_over(2, handed, 50.0)
    assert successor.count(50.0) == 0
    assert successor.seconds_until(4, 50.0) == pytest.approx(LEASE_SECONDS_HERE - 1.0)


def test_leases_handed_on_do_not_shorten_those_given_since() -> None:
    """A gateway has asked the successor before the predecessor answered: the longer lease counts,
    and what it has confirmed is confirmed, to whomever."""
    handed = deposed(10.0).hand_on(2, 2, 12.0)
    assert handed is not None
    successor = LeaseTable()
    successor.in_term(2, 50.0)
    successor.grant("a", 9, 50.0)
    successor.grant("b", 3, 50.0)
    assert successor.take_over(2, handed, 50.0)
    assert successor.seconds_until(9, 50.0) == pytest.approx(LEASE_SECONDS_HERE)
    assert successor.confirm("b", 9)
    assert successor.seconds_until(9, 50.0) == 0


def test_leases_are_taken_over_once_and_in_their_term_alone() -> None:
    handed = deposed(10.0).hand_on(2, 2, 10.0)
    assert handed is not None
    successor = LeaseTable()
    successor.in_term(3, 50.0)
    assert not successor.take_over(2, handed, 50.0)
    successor.in_term(4, 60.0)
    assert successor.wants_told(4, 60.0)
    assert not successor.wants_told(4, 60.0 + LEASE_SECONDS_HERE)
    assert successor.take_over(4, handed, 60.0)
    assert not successor.take_over(4, handed, 60.0)
    assert not successor.wants_told(4, 60.0)


def test_more_leases_than_a_leader_keeps_are_not_taken_over() -> None:
    """Then it waits one whole lease, as if it had not been told."""
    most = tuple(HandedLease(str(number), 1, 1.0) for number in range(10_000))
    successor = LeaseTable()
    successor.in_term(2, 50.0)
    successor.grant("new", 1, 50.0)
    assert not successor.take_over(2, HandedLeases(0.0, most), 50.0)
    assert len(successor) == 1
    assert successor.seconds_until(1, 50.0) == pytest.approx(LEASE_SECONDS_HERE)
    assert successor.take_over(2, HandedLeases(0.0, most[1:]), 50.0)
    assert len(successor) == 10_000


def test_whoever_hands_on_knows_when_that_is_done() -> None:
    """Not by answering: the answer may be lost. In its next term it begins anew."""
    table = deposed(10.0)
    table.hand_on(2, 2, 10.0)
    seen = [table.is_handed_on]
    assert not table.handed_on(3)
    assert table.handed_on(2)
    seen.append(table.is_handed_on)
    table.in_term(3, 10.0)
    seen.append(table.is_handed_on)
    assert seen == [False, True, False]
