"""Pairs of a group and a node that did not take it over: how many are known, and which go first."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.replica import lead_balance
from svc_cluster.replica.lead_balance import note_failed

Pair = tuple[GroupId, NodeId]


def pair(number: int) -> Pair:
    return GroupId(number), NodeId(2)


def test_a_pair_that_is_known_takes_no_other_ones_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the bound one that fails again is the newest, and all are still known; a new one takes the
    place of the oldest, never more than one."""
    monkeypatch.setattr(lead_balance, "FAILED_MAX", 3)
    failed: dict[Pair, float] = {}
    for number in (1, 2, 3):
        note_failed(failed, pair(number), float(number))
    note_failed(failed, pair(2), 4.0)
    assert list(failed.items()) == [(pair(1), 1.0), (pair(3), 3.0), (pair(2), 4.0)]
    note_failed(failed, pair(5), 5.0)
    assert list(failed.items()) == [(pair(3), 3.0), (pair(2), 4.0), (pair(5), 5.0)]
