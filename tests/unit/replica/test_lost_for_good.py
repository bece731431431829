"""Which replica is lost for good, and which one others make whole again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.replica.lost_replicas import is_lost_for_good, is_mendable

OWN = NodeId(2)


@pytest.mark.parametrize(
    ("recovery", "members", "replicas", "changes", "lost", "mends"),
    [
        (1, (2,), (2,), False, True, False),
        (1, (), (2,), False, True, False),
        (0, (2,), (2,), False, False, False),
        (1, (2,), (2,), True, False, False),
        (1, (1, 2, 3), (1, 2, 3), False, False, True),
        (1, (1, 2), (1, 2), False, False, False),
        (1, (), (1, 2, 3), False, False, True),
        (1, (1,), (1,), True, False, True),
        (1, (1,), (1,), False, False, True),
        (1, (), None, False, False, False),
        (1, (1, 3, 4), None, False, False, True),
    ],
    ids=[
        "the only one",
        "the only one, of a basin that was moved",
        "whole",
        "the only one, which is given others",
        "one of three",
        "one of two",
        "of a basin that was moved",
        "the target of a move from one",
        "what was left behind",
        "of nobody knows what",
        "a learner of the catalog",
    ],
)
def test_what_is_lost_and_what_is_mended(
    recovery: int,
    members: tuple[int, ...],
    replicas: tuple[int, ...] | None,
    changes: bool,
    lost: bool,
    mends: bool,
) -> None:
    """Only what was nowhere else is lost: whoever reads that may delete it. What others feed is
    waited for, also by a replica that knows none of them yet."""
    group: Any = SimpleNamespace(engine=SimpleNamespace(recovery=recovery, members=members))
    change = object() if changes else None
    record: Any = None if replicas is None else SimpleNamespace(replicas=replicas, change=change)
    assert is_lost_for_good(group, record, OWN) == lost
    assert is_mendable(group, record, OWN) == mends
