"""What a node's `/metrics` shows: read off the node when it is asked, not pushed by every layer."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

from prometheus_client import Counter

from svc_cluster.base.counter import Count
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.metrics import Metrics
from svc_cluster.base.steps import at_once
from svc_cluster.cli.processes.basin_rows import METRICS_BASINS_MAX, BasinRows
from svc_cluster.cli.processes.process import say_build
from svc_cluster.raft.group import Role
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.replica.peers import LinkPeers
from svc_cluster.replica.quotas_used import quotas_used
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.read_pool import ReadPool


class NodeMetrics:
    """Turns the state of one node into samples."""

    def __init__(
        self,
        metrics: Metrics,
        node: ReplicaNode,
        directory: Path,
        peers: LinkPeers,
        disk: RealDisk,
        reads: ReadPool,
        basins_max: int = METRICS_BASINS_MAX,
    ) -> None:
        """`basins_max`: so many basins are named, the others are shown together."""
        self._metrics = metrics
        self._node = node
        self._directory = directory
        self._links = peers
        self._wal_bytes = 0
        disk.on_sync = self._synced
        self._reads = reads
        reads.on_wait = metrics.store_read_wait.observe
        self._shown: dict[Any, float] = {}
        self._peers_shown: set[NodeId] = set()
        figures = node.services.figures
        figures.on_queued = metrics.proposal_queue_duration.observe
        figures.on_committed = metrics.raft_proposal_commit_duration.observe
        figures.on_applied = metrics.raft_apply_duration.observe
        figures.on_snapshot_sent = metrics.raft_snapshot_send_duration.observe
        figures.on_round_trip = self._round_trip
        metrics.basins_by_name.rows = BasinRows(lambda: node.host.basins, basins_max).rows
        say_build(metrics, "node")

    def expose(self) -> bytes:
        """The Prometheus text as of now."""
        return at_once(self.expose_steps())

    def expose_steps(self) -> Generator[None, None, bytes]:
        """The same in steps of a bounded time."""
        for part in (
            *(self._groups, self._basins, self._quotas, self._request_outcomes, self._peers),
            *(self._catalog, self._scrub, self._storage, self._memory, self._version),
        ):
            part()
            yield
        return (yield from self._metrics.expose_steps())

    def _version(self) -> None:
        version = self._node.services.version
        self._metrics.cluster_active_version.set(version.active)
        self._metrics.cluster_upgrade_outstanding.set(version.active < version.spoken.newest)

    def _memory(self) -> None:
        budget = self._node.host.memory
        for part, held in budget.held().items():
            self._metrics.memory_held.labels(part=part).set(held)
        self._metrics.memory_max.set(budget.bytes_max)
        for part, refused in budget.refused().items():
            self._count(self._metrics.memory_refused.labels(part=part), refused)

    def _synced(self, write_seconds: float, seconds: float, size: int) -> None:
        """On the disk's thread, the only one that adds here."""
        self._metrics.wal_write_duration.observe(write_seconds)
        self._metrics.wal_fsync_duration.observe(seconds)
        self._wal_bytes += size

    def _round_trip(self, peer: NodeId, seconds: float) -> None:
        self._metrics.raft_peer_round_trip.labels(str(peer)).observe(seconds)

    def _count(self, counter: Counter | Count, total: float) -> None:
        """Bring a counter up to a total that never falls while the process lives."""
        shown = self._shown.get(counter, 0.0)
        if total > shown:
            counter.inc(total - shown)
            self._shown[counter] = total

    def _groups(self) -> None:
        metrics = self._metrics
        host = self._node.host
        held = host.held()
        stopped = self._stopped()
        # what a stopped one last knew of its group says nothing of the group
        replicas = [one for one in host.replicas() if one.group.group_id not in stopped]
        roles = dict.fromkeys(("leader", "follower", "candidate", "learner", "recovering"), 0)
        for replica in replicas:
            engine = replica.group.engine
            if not replica.group.parked:
                roles["recovering" if engine.recovery else engine.role.value] += 1
        roles["stopped"], roles["parked"] = len(stopped), len(held) - len(stopped)
        for state, count in roles.items():
            metrics.raft_groups.labels(state=state).set(count)
        rest = self._node.services.rest
        metrics.raft_groups_at_rest.set(rest.asleep)
        self._count(metrics.raft_groups_woken, rest.woken)
        metrics.raft_groups_without_leader.set(
            sum(replica.group.engine.leader is None for replica in replicas)
        )
        metrics.raft_proposals_pending.set(
            sum(replica.group.pending_proposals for replica in replicas)
        )
        self._count(
            metrics.raft_leader_changes, sum(replica.group.leader_changes for replica in replicas)
        )
        self._count(
            metrics.raft_proposals_applied,
            sum(replica.group.applied_index for replica in replicas),
        )
        figures = self._node.services.figures
        self._count(metrics.raft_proposals_committed, figures.entries_committed)
        self._count(metrics.raft_proposals_failed, figures.entries_lost)
        self._count(metrics.raft_read_index_failures, figures.reads_unconfirmed)
        self._count(metrics.raft_elections.labels(result="won"), figures.elections_won)
        self._count(metrics.raft_elections.labels(result="lost"), figures.elections_lost)
        self._count(metrics.raft_hand_overs.labels(result="done"), figures.hand_overs_done)
        self._count(metrics.raft_hand_overs.labels(result="failed"), figures.hand_overs_failed)
        self._count(metrics.raft_state_divergence, host.divergences)
        self._count(metrics.raft_replicas_repaired, host.installs.repaired)
        self._count(
            metrics.raft_snapshots.labels(direction="received", result="ok"),
            host.installs.installed,
        )
        for result, total in (("ok", host.sender.sent), ("failed", host.sender.not_sent)):
            self._count(metrics.raft_snapshots.labels(direction="sent", result=result), total)

    def _basins(self) -> None:
        metrics, host = self._metrics, self._node.host
        basins = list(host.basins.values())
        metrics.basins.set(len(basins))
        self._count(metrics.records_appended, sum(basin.records_appended for basin in basins))
        self._count(metrics.trimmed_records, sum(basin.records_trimmed for basin in basins))
        readings = [basin.state.usage.reading for basin in basins]
        metrics.streams.set(sum(reading[1].streams for reading in readings if reading))
        stored_max = host.settings.quotas.stored_bytes
        if stored_max is not None:
            fullest = max((reading[1].stored_bytes for reading in readings if reading), default=0)
            metrics.stored_bytes_used.set(fullest / stored_max)
        watch = self._node.housekeeper.clock_watch
        metrics.retention_stopped_groups.set(watch.stopped)
        metrics.clock_away.set(watch.away_ms / 1000)

    def _stopped(self) -> set[GroupId]:
        return {row.group_id for row in self._node.host.held() if row.state == "stopped"}

    def _quotas(self) -> None:
        """Show the quotas as far as the replicas here have applied them."""
        host = self._node.host
        if host.catalog is None:
            return
        readings = [basin.state.usage.reading for basin in host.basins.values()]
        found = quotas_used(
            host.settings.quotas,
            host.catalog.state,
            [reading[1] for reading in readings if reading],
        )
        for quota, share in found.items():
            self._metrics.quota_used.labels(quota=quota).set(share)

    def _request_outcomes(self) -> None:
        stopped = self._stopped()
        replicas = [one for one in self._node.host.replicas() if one.group.group_id not in stopped]
        counts = [replica.idempotency.count for replica in replicas]
        self._metrics.request_outcomes.set(sum(counts))
        most = self._node.host.settings.request_outcomes_max
        self._metrics.request_outcomes_used.set(max(counts, default=0) / most)
        self._count(self._metrics.requests_repeated, sum(replica.repeats for replica in replicas))

    def _peers(self) -> None:
        self._metrics.node_refused.set(self._node.refusal() is not None)
        peers = {*self._node.roster.nodes} - {self._node.config.node_id}
        for gone in self._peers_shown - peers:
            self._metrics.forget_peer(gone)
        self._peers_shown = peers
        for peer in sorted(peers):
            lag = 0
            for replica in self._node.host.replicas():
                engine = replica.group.engine
                if replica.group.stopped:
                    continue
                if engine.role is Role.LEADER and peer in engine.members:
                    lag += max(engine.last_index - engine.match_index(peer), 0)
            self._metrics.raft_peer_lag_entries.labels(peer=str(peer)).set(lag)
            refused = self._node.former.is_refused(peer)
            self._metrics.raft_peer_refused.labels(peer=str(peer)).set(refused)
            active = self._node.host.is_peer_up(peer)
            self._metrics.raft_peer_active.labels(peer=str(peer)).set(active)
            self._count(
                self._metrics.raft_peer_sent_bytes.labels(peer=str(peer)),
                self._links.sent_bytes[peer],
            )
            self._count(
                self._metrics.raft_peer_send_failures.labels(peer=str(peer)),
                self._links.send_failures[peer],
            )
            unread = self._node.unread.get(peer)
            self._count(
                self._metrics.raft_peer_unreadable.labels(peer=str(peer)),
                0 if unread is None else unread.total,
            )

    def _catalog(self) -> None:
        catalog = self._node.host.catalog
        if catalog is None:
            return
        engine = catalog.group.engine
        self._metrics.raft_term.set(engine.term)
        self._metrics.raft_last_index.set(engine.last_index)
        self._metrics.raft_commit_index.set(engine.commit_index)
        self._metrics.raft_applied_index.set(catalog.group.applied_index)
        self._metrics.raft_members.labels(state="voter").set(len(engine.members))

    def _scrub(self) -> None:
        metrics, scrubber = self._metrics, self._node.scrubber
        for result, total in (
            ("complete", scrubber.rounds_complete),
            ("partial", scrubber.rounds_partial),
        ):
            self._count(metrics.scrub_rounds.labels(result=result), total)
        self._count(metrics.scrub_bytes, scrubber.read_bytes)
        self._count(metrics.scrub_differences, scrubber.differences)
        metrics.scrub_in_doubt_groups.set(scrubber.in_doubt)
        metrics.scrub_age.set(scrubber.age_seconds)

    def _storage(self) -> None:
        wal = self._node.wal
        disk = os.statvfs(self._directory)
        self._count(self._metrics.wal_bytes_written, self._wal_bytes)
        self._metrics.wal_size_bytes.set(wal.size_bytes)
        self._metrics.payload_size_bytes.set(wal.payloads.size_bytes)
        self._count(self._metrics.payload_inline, wal.payloads.inline_entries)
        holes = self._node.store.holes
        files = holes.spaces()
        self._metrics.payload_live_bytes.set(sum(file.live_bytes for file in files))
        self._metrics.payload_dead_bytes.set(sum(file.dead_bytes for file in files))
        self._count(self._metrics.payload_holes, holes.hole_bytes)
        self._metrics.storage_used_bytes.set(_bytes_of_files(self._directory))
        self._metrics.storage_free_bytes.set(disk.f_bavail * disk.f_frsize)
        self._metrics.storage_capacity_bytes.set(disk.f_blocks * disk.f_frsize)
        pinned = wal.used_segments * self._node.config.wal.segment_bytes
        self._metrics.wal_held_bytes.set(
            pinned if self._node.host.held_groups.is_log_held(self._node.host.catalog) else 0
        )
        self._count(self._metrics.store_flushes, self._node.housekeeper.flushes)
        self._metrics.store_reads_waiting.set(self._reads.waiting)
        self._count(self._metrics.store_reads_refused, self._reads.refused)
        self._metrics.storage_read_only.set(not wal.has_space())


def _bytes_of_files(directory: Path) -> int:
    """What the files below take on the disk; those that go away meanwhile are left out."""
    total = 0
    waiting = [str(directory)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
        except FileNotFoundError:
            continue
    return total
