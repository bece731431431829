"""The leases that one leader tells the next, as bytes."""

from __future__ import annotations

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.catalog.leases import (
    GATEWAY_ID_CHARACTERS_MAX,
    GATEWAYS_MAX,
    LEASE_SECONDS_HERE,
    HandedLease,
    HandedLeases,
)
from svc_cluster.codec import lease_hand_over
from svc_cluster.link.frame import PAYLOAD_BYTES_MAX


def told(handed: HandedLeases) -> HandedLeases | None:
    out = pb.HandedLeases()
    lease_hand_over.put(out, handed)
    return lease_hand_over.get(pb.HandedLeases.FromString(out.SerializeToString()))


def test_what_is_put_is_got() -> None:
    handed = HandedLeases(0.5, (HandedLease("a", 7, 1.25), HandedLease("b", 2**40, 0.001)))
    assert told(handed) == handed


def test_a_lease_never_becomes_shorter_on_its_way() -> None:
    """Parts of a millisecond are rounded up."""
    assert told(HandedLeases(0.0001, (HandedLease("a", 1, 2.0001),))) == HandedLeases(
        0.001, (HandedLease("a", 1, 2.001),)
    )
    longest = told(HandedLeases(LEASE_SECONDS_HERE, ()))
    assert longest is not None and longest.earlier_seconds_left >= LEASE_SECONDS_HERE


def test_who_knows_nothing_hands_nothing_on() -> None:
    assert lease_hand_over.get(pb.HandedLeases()) is None


@pytest.mark.parametrize(
    "message",
    [
        pb.HandedLeases(known=True, earlier_ms_left=3152),
        pb.HandedLeases(known=True, leases=[pb.HandedLease(gateway_id="a", ms_left=2**31)]),
        pb.HandedLeases(known=True, leases=[pb.HandedLease(gateway_id="a" * 65)]),
        pb.HandedLeases(known=True, leases=[pb.HandedLease()] * (GATEWAYS_MAX + 1)),
    ],
    ids=["earlier", "long", "name", "many"],
)
def test_what_no_leader_says_is_refused(message: pb.HandedLeases) -> None:
    with pytest.raises(lease_hand_over.LeaseFormatError):
        lease_hand_over.get(message)


def test_all_leases_of_a_leader_fit_one_message() -> None:
    leases = tuple(
        HandedLease(str(number).rjust(GATEWAY_ID_CHARACTERS_MAX, "g"), 2**62, LEASE_SECONDS_HERE)
        for number in range(GATEWAYS_MAX)
    )
    out = pb.HandedLeases()
    lease_hand_over.put(out, HandedLeases(LEASE_SECONDS_HERE, leases))
    assert out.ByteSize() < PAYLOAD_BYTES_MAX
