"""What a node is made of: what it is told, and what it takes from the world."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass

from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.node_facts import NO_FACTS, AnnouncedFacts
from svc_cluster.model.join_token import JoinToken
from svc_cluster.raft.raft_settings import RaftSettings
from svc_cluster.replica.former import FormationTransport
from svc_cluster.replica.group_services import PeerSender
from svc_cluster.replica.host_settings import HostSettings
from svc_cluster.replica.housekeeping import HousekeepingSettings
from svc_cluster.replica.node_traces import NodeTraces
from svc_cluster.replica.roster import Links
from svc_cluster.replica.scrub import ScrubSettings
from svc_cluster.replica.snapshot_sender import SnapshotTransport
from svc_cluster.storage.disk import Disk
from svc_cluster.storage.state_store import StateStore
from svc_cluster.storage.wal.wal_settings import WalSettings


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """What one node is told. `addresses` names every node of the cluster."""

    cluster_id: str
    node_id: NodeId
    addresses: Mapping[NodeId, str]
    host: HostSettings
    raft: RaftSettings = RaftSettings()
    wal: WalSettings = WalSettings()
    housekeeping: HousekeepingSettings = HousekeepingSettings()
    scrub: ScrubSettings = ScrubSettings()
    facts: AnnouncedFacts = NO_FACTS
    join_token: JoinToken | None = None
    """With which an empty directory comes to a cluster that is there; then `addresses` names some
    of its nodes, and this one."""


@dataclass(frozen=True, slots=True)
class Seams:
    """Everything a node takes from the world."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    rng: random.Random
    disk: Disk
    store: StateStore
    peers: PeerSender
    snapshots: SnapshotTransport
    formation: FormationTransport
    traces: NodeTraces | None = None
    links: Links | None = None
    """None: there are the links of the settings for ever."""
