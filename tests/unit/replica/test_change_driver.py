"""For how long the leader of a group waits for a member that is away before it seals without it,
and for which damaged copy it does not wait at all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from svc_cluster.base.ids import GroupId, LogIndex, NodeId
from svc_cluster.catalog.group_change import GroupChange
from svc_cluster.raft.readiness import HEARD_SECONDS_MAX, ReplicaWord
from svc_cluster.replica.change_driver import ABSENT_SECONDS, ChangeDriver


def test_a_node_counts_until_it_was_away_for_long() -> None:
    """Its copy may be whole; and whoever was back in between is waited for anew."""
    up = {NodeId(2)}
    host: Any = SimpleNamespace(
        services=SimpleNamespace(node_id=NodeId(1)), is_peer_up=up.__contains__
    )
    driver = ChangeDriver(host, lambda failure: None)

    def may_be_there(node: int, now: float) -> bool:
        return driver._may_be_there(NodeId(node), now)

    def looks(node: int, begin: float, end: float) -> set[bool]:
        """What it is at each look, one a second."""
        return {may_be_there(node, begin + step) for step in range(int(end - begin))}

    assert looks(1, 0.0, 60.0) == {True}, "the leader itself"
    assert looks(2, 0.0, 60.0) == {True}
    assert looks(3, 0.0, ABSENT_SECONDS) == {True}
    assert not may_be_there(3, ABSENT_SECONDS)
    up.add(NodeId(3))
    assert may_be_there(3, ABSENT_SECONDS + 1)
    up.clear()
    assert looks(3, ABSENT_SECONDS + 2, 2 * ABSENT_SECONDS + 2) == {True}
    assert not may_be_there(3, 2 * ABSENT_SECONDS + 2)
    assert may_be_there(3, 9 * ABSENT_SECONDS), "nobody looked meanwhile: it may have been back"
    assert looks(3, 9 * ABSENT_SECONDS + 1, 10 * ABSENT_SECONDS) == {True}
    assert not may_be_there(3, 10 * ABSENT_SECONDS)


@pytest.mark.parametrize(
    ("node", "ago", "recovers", "damaged"),
    [
        (5, 0.5, True, 5),
        (5, HEARD_SECONDS_MAX, True, 5),
        (5, HEARD_SECONDS_MAX + 0.1, True, None),
        (5, 0.5, False, None),
        (2, 0.5, True, None),
        (6, 0.5, True, None),
    ],
    ids=["now", "just now", "long ago", "whole", "a member", "nobody of the next"],
)
def test_a_damaged_copy_ends_a_change_where_it_is_to_be_a_member_and_says_so_now(
    node: int, ago: float, recovers: bool, damaged: int | None
) -> None:
    """A member that recovers is mended by its leader, and waited for."""
    now = 100.0
    clock = SimpleNamespace(monotonic=lambda: now)
    host: Any = SimpleNamespace(services=SimpleNamespace(clock=clock))
    driver = ChangeDriver(host, lambda failure: None)
    members = (NodeId(1), NodeId(2), NodeId(3))
    engine = SimpleNamespace(members=members)
    replica: Any = SimpleNamespace(group=SimpleNamespace(group_id=GroupId(2), engine=engine))
    change = GroupChange(9, (NodeId(1), NodeId(2), NodeId(5)), (), "a test")
    driver.heard(GroupId(2), NodeId(node), ReplicaWord(LogIndex(0), now - ago, recovers))
    assert driver._damaged_newcomer(replica, change) == damaged
