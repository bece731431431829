"""For how long the leader of a group waits for a member that is away before it seals without it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from svc_cluster.base.ids import NodeId
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
