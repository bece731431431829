"""What a simulated node is told, out of what its seed has drawn."""

from __future__ import annotations

from svc_cluster.base.ids import NodeId
from svc_cluster.raft.raft_settings import RaftSettings
from svc_cluster.replica.host_settings import HostSettings
from svc_cluster.replica.housekeeping import HousekeepingSettings
from svc_cluster.replica.node_parts import NodeConfig
from svc_cluster.replica.scrub import ScrubSettings
from svc_cluster.storage.payload.payload_settings import PayloadSettings
from svc_cluster.storage.wal.wal_settings import WalSettings
from tests.simulation.options import Options

CLUSTER_ID = "simulated"
PAYLOAD_FILE_BYTES = 32 * 1024


def node_config(options: Options, number: int) -> NodeConfig:
    """Of node `number`, from 1."""
    every = range(1, options.nodes + 1)
    return NodeConfig(
        cluster_id=CLUSTER_ID,
        node_id=NodeId(number),
        addresses={NodeId(n): f"node{n}" for n in every},
        host=HostSettings(
            nodes=tuple(NodeId(n) for n in every),
            replication_factor=min(3, options.nodes),
            tick_seconds=options.tick_seconds,
            rest_seconds=options.rest_seconds,
            memory_bytes_max=options.memory_bytes_max,
            replace_lost_nodes=options.replace_lost_nodes,
            balance_seconds=options.balance_seconds,
        ),
        raft=RaftSettings(
            in_flight_bytes_max=options.in_flight_bytes_max,
            committed_bytes_max=options.committed_bytes_max,
            append_entries_max=options.append_entries_max,
            in_flight_entries_max=options.in_flight_entries_max,
        ),
        wal=WalSettings(
            segment_bytes=options.segment_bytes,
            reserve_bytes=64 * 1024,
            payload=PayloadSettings(
                writes=options.payload_bytes_min > 0,
                file_bytes=PAYLOAD_FILE_BYTES,
                bulk_bytes_min=options.payload_bytes_min or 1,
            ),
        ),
        housekeeping=HousekeepingSettings(
            flush_seconds=options.flush_seconds,
            log_retention_seconds=options.log_retention_seconds,
            log_retention_bytes=options.log_retention_bytes,
        ),
        scrub=ScrubSettings(
            mib_per_second=8.0 if options.scrub_seconds else 0.0,
            interval_seconds=options.scrub_seconds,
        ),
    )
