"""What every group of a node shares."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.log import Logger
from svc_cluster.raft.messages import PeerMessage
from svc_cluster.replica.cluster_version import ClusterVersion
from svc_cluster.replica.group_turns import GroupTurns
from svc_cluster.replica.group_watch import GroupWatch, NodeFigures
from svc_cluster.replica.leadership_news import GroupNames, LeadershipNews
from svc_cluster.replica.node_rest import NodeRest
from svc_cluster.replica.node_traces import FollowedEntries, NodeTraces
from svc_cluster.replica.retention_clock import PeerClocks
from svc_cluster.replica.waking import Waking
from svc_cluster.storage.state_store import StateStore
from svc_cluster.storage.wal.writer import Wal


class PeerSender(Protocol):
    """The way to the other nodes."""

    def send(self, peer: NodeId, group_id: GroupId, message: PeerMessage) -> None: ...

    def has_room(self, peer: NodeId) -> bool:
        """Whether entries of any group may be handed over for this peer at present."""
        ...

    def names(self, feature: str, peer: NodeId) -> bool:
        """Whether the node takes what belongs to this feature."""
        ...

    @property
    def held_bytes(self) -> int:
        """About how much of all groups is on its way to peers that have not dealt with it."""
        ...


@dataclass(frozen=True, slots=True)
class GroupServices:
    """What every group of a node shares."""

    node_id: NodeId
    loop: asyncio.AbstractEventLoop
    clock: Clock
    wal: Wal
    store: StateStore
    peers: PeerSender
    log: Logger
    peer_clocks: PeerClocks = field(default_factory=PeerClocks)
    figures: NodeFigures = field(default_factory=NodeFigures)
    scrub_version: int = 0
    """The version of the scrub that this node takes part in; 0: in none."""
    traces: NodeTraces | None = None
    """None: nothing is told of single appends."""
    version: ClusterVersion = field(default_factory=ClusterVersion)
    turns: GroupTurns = field(init=False)
    rest: NodeRest = field(init=False)
    names: GroupNames = field(default_factory=GroupNames)
    waking: Waking[ServiceError | None] = field(init=False)
    leadership: LeadershipNews = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "turns", GroupTurns(self.loop))
        object.__setattr__(self, "waking", Waking(self.loop))
        rest = NodeRest(self.node_id, self.loop, self.clock, self.peers)
        object.__setattr__(self, "rest", rest)
        news = LeadershipNews(self.log, self.names, self.clock.monotonic)
        object.__setattr__(self, "leadership", news)

    def log_of(self, group_id: GroupId) -> Logger:
        """Return the log for lines about one group, which then name it and its basin."""
        return self.log.bind(group=group_id, basin=self.names[group_id])

    def watch(self, group_id: GroupId) -> GroupWatch:
        """Return what takes the times of one group."""
        followed = None if self.traces is None else FollowedEntries(self.traces, group_id)
        return GroupWatch(self.clock.monotonic, self.figures, followed)
