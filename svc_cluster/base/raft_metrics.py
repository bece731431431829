"""The metrics of what a node agrees on with the others, and of whether they hold the same."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from svc_cluster.base.metric_declarations import MetricDeclarations


class RaftMetrics(MetricDeclarations):
    """Groups, peers, and the scrub."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self._declare_raft()
        self._declare_rest()
        self._declare_raft_peers()
        self._declare_scrub()

    def forget_peer(self, peer: int) -> None:
        """A node that is no member any more is no node that is away. All three have been shown."""
        for gauge in (self.raft_peer_lag_entries, self.raft_peer_refused, self.raft_peer_active):
            gauge.remove(str(peer))

    def _declare_rest(self) -> None:
        self.raft_groups_at_rest = self._gauge(
            "svc_raft_groups_at_rest",
            "Replicas on this node whose groups have nothing to do, and fell silent by agreement.",
        )
        self.raft_groups_woken = self._counter(
            "svc_raft_groups_woken_total", "Replicas on this node that rested, and woke."
        )

    def _declare_raft(self) -> None:
        self.raft_groups_without_leader = self._gauge(
            "svc_raft_groups_without_leader", "Replicas on this node that know no leader."
        )
        self.raft_groups = self._gauge(
            "svc_raft_groups", "Replicas on this node by what they do.", "state"
        )
        self.raft_term = self._gauge("svc_raft_term", "Term of the catalog group.")
        self.raft_last_index = self._gauge(
            "svc_raft_last_index", "Last log index of the catalog group on this node."
        )
        self.raft_commit_index = self._gauge(
            "svc_raft_commit_index", "Commit index of the catalog group on this node."
        )
        self.raft_applied_index = self._gauge(
            "svc_raft_applied_index", "Applied index of the catalog group on this node."
        )
        self.raft_members = self._gauge(
            "svc_raft_members", "Members of the catalog group.", "state"
        )
        self.raft_leader_changes = self._counter(
            "svc_raft_leader_changes_total", "Changes of leader seen by replicas here."
        )
        self.raft_state_divergence = self._counter(
            "svc_raft_state_divergence_total",
            "Replicas here whose state was not what a quorum had.",
        )
        self.retention_stopped_groups = self._gauge(
            "svc_retention_stopped_groups",
            "Groups led here in which nothing expires: this clock is away from theirs.",
        )
        self.clock_away = self._gauge(
            "svc_clock_away_seconds",
            "This clock from the median of a group's, where it is furthest; below 0: behind.",
        )
        self.raft_replicas_repaired = self._counter(
            "svc_raft_replicas_repaired_total", "Damaged replicas here that were made whole again."
        )
        self.raft_elections = self._counter(
            "svc_raft_elections_total", "Elections of replicas here: won or lost.", "result"
        )
        self.raft_proposals_pending = self._gauge(
            "svc_raft_proposals_pending", "Entries proposed here and not yet decided."
        )
        self.raft_proposals_committed = self._counter(
            "svc_raft_proposals_committed_total", "Entries committed by groups led here."
        )
        self.raft_proposals_applied = self._counter(
            "svc_raft_proposals_applied_total", "Entries applied to the state store here."
        )
        self.raft_proposals_failed = self._counter(
            "svc_raft_proposals_failed_total", "Entries proposed here that were lost."
        )
        self.proposal_queue_duration = self._seconds(
            "svc_raft_proposal_queue_duration_seconds",
            "Time a write waited before it was put into an entry.",
        )
        self.raft_proposal_commit_duration = self._seconds(
            "svc_raft_proposal_commit_duration_seconds",
            "Time from the proposal of an entry to its commit.",
        )
        self.raft_apply_duration = self._seconds(
            "svc_raft_apply_duration_seconds", "Time to apply one entry to the state store."
        )
        self.raft_read_index_failures = self._counter(
            "svc_raft_read_index_failures_total", "Linearizable reads that found no quorum."
        )

    def _declare_raft_peers(self) -> None:
        self.raft_hand_overs = self._counter(
            "svc_raft_hand_overs_total",
            "Attempts of replicas here to give their lead away: done or failed.",
            "result",
        )
        self.raft_peer_lag_entries = self._gauge(
            "svc_raft_peer_lag_entries", "Entries that a peer is behind groups led here.", "peer"
        )
        self.raft_peer_active = self._gauge(
            "svc_raft_peer_active", "1 while a peer answers.", "peer"
        )
        self.raft_peer_refused = self._gauge(
            "svc_raft_peer_refused",
            "1 while a node asks to take part under a peer's id with another data directory.",
            "peer",
        )
        self.node_refused = self._gauge(
            "svc_node_refused", "1 while the cluster goes on without this node: its log says why."
        )
        self.raft_peer_round_trip = self._seconds(
            "svc_raft_peer_round_trip_seconds",
            "From a leader's message to a follower to the answer, with the follower's sync.",
            "peer",
        )
        self.raft_peer_sent_bytes = self._counter(
            "svc_raft_peer_sent_bytes_total", "Bytes sent to a peer.", "peer"
        )
        self.raft_peer_send_failures = self._counter(
            "svc_raft_peer_send_failures_total", "Messages to a peer that were not sent.", "peer"
        )
        self.raft_peer_unreadable = self._counter(
            "svc_raft_peer_unreadable_total",
            "Messages from a peer that could not be read, and were dropped.",
            "peer",
        )
        self.raft_snapshot_send_duration = self._seconds(
            "svc_raft_snapshot_send_duration_seconds", "Time to send a snapshot."
        )
        self.raft_snapshots = self._counter(
            "svc_raft_snapshots_total", "Snapshots sent and received.", "direction", "result"
        )

    def _declare_scrub(self) -> None:
        self.scrub_rounds = self._counter(
            "svc_scrub_rounds_total",
            "Rounds of the scrub that ended in groups led here: complete, or partial.",
            "result",
        )
        self.scrub_bytes = self._counter(
            "svc_scrub_bytes_total", "Bytes of stored rows that were read here for the scrub."
        )
        self.scrub_differences = self._counter(
            "svc_scrub_differences_total",
            "Replicas, of groups led here, that held other content than a quorum.",
        )
        self.scrub_in_doubt_groups = self._gauge(
            "svc_scrub_in_doubt_groups",
            "Groups led here whose replicas differ, and no majority is known to be right.",
        )
        self.scrub_age = self._gauge(
            "svc_scrub_age_seconds",
            "Since the last complete round of a group led here, where that is longest ago.",
        )
