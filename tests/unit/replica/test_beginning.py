"""The steps by which a new cluster comes to the version that it begins at."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.active_version import NodeVersion, RaiseActiveVersion
from svc_cluster.model.formation import FormationRecord, Stage
from svc_cluster.replica.beginning import next_raise

PAIRS = ((NodeId(1), "a" * 32), (NodeId(2), "b" * 32))


def formed(begins_at: int) -> FormationRecord:
    return FormationRecord(0, Stage.FORMED, PAIRS, begins_at=begins_at)


@pytest.mark.parametrize(
    ("begins_at", "active", "newest", "version"),
    [(3, 2, 3, 3), (4, 2, 4, 3), (4, 3, 4, 4), (3, 3, 4, None), (0, 2, 3, None), (4, 3, 3, None)],
)
def test_it_is_raised_by_one_up_to_where_it_begins(
    begins_at: int, active: int, newest: int, version: int | None
) -> None:
    """By no more than this program speaks, and not at all in a cluster of before."""
    found = next_raise(formed(begins_at), active, newest)
    said = tuple(NodeVersion(node, incarnation, begins_at) for node, incarnation in PAIRS)
    assert found == (None if version is None else RaiseActiveVersion(version, said))
