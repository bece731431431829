"""A replica node put together on its seams: disk, store, clock, loop, randomness, network.

The same class runs in a process of its own and, many at a time, in the simulator.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.base.tasks import Tasks
from svc_cluster.catalog.state import BasinRecord
from svc_cluster.link.handshake import NOT_A_MEMBER, HandshakeError, Identity
from svc_cluster.link.session import NodeSession
from svc_cluster.raft.messages import PeerMessage
from svc_cluster.raft.settings import RaftSettings
from svc_cluster.replica.group import PeerSender, Services
from svc_cluster.replica.handover import SlowDiskWatch, hand_over
from svc_cluster.replica.host import Host, HostSettings, TestSwitches
from svc_cluster.replica.housekeeping import Housekeeper, HousekeepingSettings
from svc_cluster.replica.identity import NodeIdentity, open_identity
from svc_cluster.replica.service import Service
from svc_cluster.replica.snapshot import SnapshotTransport
from svc_cluster.storage.disk import Disk
from svc_cluster.storage.state_store import StateStore
from svc_cluster.storage.wal.settings import WalSettings
from svc_cluster.storage.wal.writer import Wal

REGISTER_RETRY_SECONDS: Final = 0.3
ASK_DEADLINE_MS: Final = 3000
HANDOVER_SECONDS: Final = 2.0


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


class ReplicaNode:
    """One node. Build it, `start` it; it runs until `stop` (or a fatal fault)."""

    def __init__(
        self,
        config: NodeConfig,
        seams: Seams,
        *,
        on_fatal: Callable[[BaseException], None],
        switches: TestSwitches = TestSwitches(),
    ) -> None:
        self.config = config
        self.log = get_logger("node", node=config.node_id)
        self._seams = seams
        self._tasks = Tasks(on_failure=on_fatal)
        self.identity: NodeIdentity = open_identity(
            seams.disk, config.cluster_id, config.node_id, seams.rng
        )
        self.wal = Wal.open(seams.disk, self.identity.tag, config.wal)
        self.services = Services(
            node_id=config.node_id,
            loop=seams.loop,
            clock=seams.clock,
            wal=self.wal,
            store=seams.store,
            peers=seams.peers,
            log=self.log,
        )
        self.host = Host(
            services=self.services,
            settings=config.host,
            raft_settings=config.raft,
            recovered=self.wal.recovered,
            rng=seams.rng,
            snapshots=seams.snapshots,
            remove_basin=self._remove_basin,
            on_fatal=on_fatal,
            switches=switches,
        )
        self.service = Service(self.host, seams.loop)
        self.housekeeper = Housekeeper(self.host, config.housekeeping)
        self.slow_disk = SlowDiskWatch(self.host)
        self.sessions: dict[NodeId, NodeSession] = {}
        """Conversations with the other nodes, for what only the catalog's leader may do."""
        self.registered = False
        self._removing: set[GroupId] = set()

    def start(self) -> None:
        self.host.start()
        self.housekeeper.start()
        self.slow_disk.start()
        self._tasks.spawn(self._register(), "register")
        self.log.info("node_started", incarnation=self.identity.incarnation)

    async def stop(self) -> None:
        """End without ceremony; what is durable stays durable."""
        self.host.draining = True
        self.housekeeper.stop()
        await self.slow_disk.stop()
        await self._tasks.cancel_all()
        await self.service.close()
        await self.host.stop()
        for session in self.sessions.values():
            await session.close()

    async def retire(self) -> None:
        """Hand every leadership over, for a planned end; at most two seconds."""
        self.host.draining = True
        try:
            async with asyncio.timeout(HANDOVER_SECONDS):
                for replica in self.host.replicas():
                    await hand_over(replica)
        except TimeoutError:
            self.log.warning("handover_incomplete")

    # -- the catalog's leader

    async def ask_catalog(self, fill: Callable[[pb.Request], None]) -> pb.Response | None:
        """One request to the catalog's leader as far as it is known here; None when it is not, or
        when no answer came. Callers repeat."""
        catalog = self.host.catalog
        leader = None if catalog is None else catalog.group.engine.leader
        if leader is None:
            return None
        request = pb.Request(id=1, group_id=CATALOG_GROUP, deadline_ms=ASK_DEADLINE_MS)
        fill(request)
        if leader == self.config.node_id:
            return await self._ask_self(request)
        session = self.sessions.get(leader)
        if session is None:
            return None
        try:
            async with asyncio.timeout(ASK_DEADLINE_MS / 1000):
                return await session.call(CATALOG_GROUP, ASK_DEADLINE_MS, fill)
        except (ConnectionError, TimeoutError):
            return None

    async def _ask_self(self, request: pb.Request) -> pb.Response | None:
        answer: asyncio.Future[bytes] = self._seams.loop.create_future()

        def take(data: bytes) -> None:
            if not answer.done():
                answer.set_result(data)

        session = self.service.session(take)
        session.message(pb.RequestBatch(requests=[request]).SerializeToString())
        try:
            async with asyncio.timeout(ASK_DEADLINE_MS / 1000):
                batch = pb.ResponseBatch.FromString(await answer)
        except TimeoutError:
            return None
        return batch.responses[0]

    async def _register(self) -> None:
        """Make this data directory known, or learn that its place is taken."""
        address = self.config.addresses[self.config.node_id]

        def fill(request: pb.Request) -> None:
            request.register_node.node_id = self.config.node_id
            request.register_node.incarnation = self.identity.incarnation
            request.register_node.address = address

        while not self.registered:
            response = await self.ask_catalog(fill)
            if response is not None and response.WhichOneof("result") == "done":
                self.registered = True
                self.log.info("node_registered")
                return
            if response is not None and response.refusal.code == "invalid":
                raise IncarnationTakenError(
                    f"node {self.config.node_id} is registered with another data directory: "
                    "bring that directory back, or join under a new node id"
                )
            await asyncio.sleep(REGISTER_RETRY_SECONDS)

    def _remove_basin(self, record: BasinRecord) -> None:
        if record.group_id not in self._removing:
            self._removing.add(record.group_id)
            self._tasks.spawn(self._ask_removal(record.group_id), "remove basin")

    async def _ask_removal(self, group_id: GroupId) -> None:
        def fill(request: pb.Request) -> None:
            request.remove_basin.group_id = group_id

        try:
            await self.ask_catalog(fill)
        finally:
            self._removing.discard(group_id)

    # -- peers

    def check_peer(self, identity: Identity) -> None:
        """Raises HandshakeError for a node id that is registered with another data directory."""
        if identity.role != "node":
            return
        if identity.node_id not in self.config.addresses:
            raise HandshakeError(NOT_A_MEMBER)
        catalog = self.host.catalog
        known = None if catalog is None else catalog.state.nodes.get(identity.node_id)
        if known is not None and known.incarnation != identity.incarnation:
            raise HandshakeError("the node id is registered with another data directory")

    def peer_messages(
        self, sender: NodeId, messages: Iterable[tuple[GroupId, PeerMessage]]
    ) -> None:
        self.host.peer_messages(sender, messages)

    def readiness(self) -> dict[str, bool]:
        """The checks behind /readyz, by name."""
        catalog = self.host.catalog
        return {
            "wal_recovered": True,
            "registered": self.registered,
            "catalog_leader_known": catalog is not None and catalog.group.engine.leader is not None,
            "groups_caught_up": all(
                replica.group.backlog_entries < 1000 for replica in self.host.replicas()
            ),
            "groups_whole": not any(
                replica.group.engine.recovery for replica in self.host.replicas()
            ),
            "not_draining": not self.host.draining,
        }


class IncarnationTakenError(Exception):
    """This data directory may not take part under its node id."""
