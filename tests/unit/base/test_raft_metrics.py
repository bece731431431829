"""What the figures of Raft groups say of nodes that come and go."""

from __future__ import annotations

from svc_cluster.base.metrics import Metrics


def test_a_node_that_is_no_member_any_more_is_not_shown_as_away() -> None:
    """Its gauges are gone, those of the others stay, and it may come again."""
    metrics = Metrics()
    gauges = (metrics.raft_peer_lag_entries, metrics.raft_peer_refused, metrics.raft_peer_active)

    def shown() -> list[int]:
        text = metrics.expose().decode()
        return [text.count(f'{{peer="{peer}"}}') for peer in (2, 3)]

    for gauge in gauges:
        gauge.labels(peer="2").set(1)
        gauge.labels(peer="3").set(0)
    assert shown() == [3, 3]
    metrics.forget_peer(3)
    assert shown() == [3, 0]
    metrics.raft_peer_active.labels(peer="3").set(1)
    assert shown() == [3, 1]
