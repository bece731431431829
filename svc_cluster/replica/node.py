"""A replica node put together on its seams: disk, store, clock, loop, randomness, network.

The same class runs in a process of its own and, many at a time, in the simulator.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.base.seldom import Seldom
from svc_cluster.base.tasks import Tasks
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.codec.formation_report import decode_report
from svc_cluster.codec.peer_message import Envelope
from svc_cluster.link.features import features_of_node
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import NOT_A_MEMBER, HandshakeError, Identity, NotYetError
from svc_cluster.link.refused_callers import RefusedCallers
from svc_cluster.link.session import NodeSession
from svc_cluster.model.formation import Stage
from svc_cluster.model.places import merged
from svc_cluster.raft.raft_settings import RaftSettings
from svc_cluster.replica.cluster_version import ClusterVersion
from svc_cluster.replica.formation_file import FormationFile
from svc_cluster.replica.formation_rounds import Formation, registered_otherwise
from svc_cluster.replica.former import FormationTransport, Former
from svc_cluster.replica.group_services import GroupServices, PeerSender
from svc_cluster.replica.host import Host
from svc_cluster.replica.host_settings import HostSettings
from svc_cluster.replica.housekeeping import Housekeeper, HousekeepingSettings
from svc_cluster.replica.identity import NodeIdentity, keep_active_version, open_identity
from svc_cluster.replica.known_members import KnownMembers
from svc_cluster.replica.leader_calls import CatalogCalls
from svc_cluster.replica.leader_handover import Retirement, SlowDiskWatch
from svc_cluster.replica.lease_succession import LeaseSuccession
from svc_cluster.replica.lost_nodes import LostNodes
from svc_cluster.replica.node_readiness import NodeReadiness, is_whole, readiness
from svc_cluster.replica.node_traces import NodeTraces
from svc_cluster.replica.peer_turns import PeerTurns
from svc_cluster.replica.prefixed import PREFIX_BYTES
from svc_cluster.replica.scrub import Scrubber, ScrubSettings
from svc_cluster.replica.service import Service
from svc_cluster.replica.snapshot import SnapshotTransport
from svc_cluster.storage.disk import Disk
from svc_cluster.storage.payload.payload_store import PayloadStore
from svc_cluster.storage.state_store import StateStore
from svc_cluster.storage.wal.wal_settings import WalSettings
from svc_cluster.storage.wal.writer import Wal

REGISTER_RETRY_SECONDS: Final = 0.3


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


class ReplicaNode:
    """One node. Build it, `start` it; it runs until `stop` (or a fatal fault)."""

    def __init__(
        self,
        config: NodeConfig,
        seams: Seams,
        *,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.config = config
        self.log = get_logger("node", node=config.node_id)
        self._seams = seams
        self._tasks = Tasks(on_failure=on_fatal)
        spoken = config.host.known.versions
        self.identity: NodeIdentity = open_identity(
            seams.disk, config.cluster_id, config.node_id, seams.rng, spoken, config.wal.payload
        )
        self._formation_file = file = FormationFile(seams.disk, self.identity.incarnation)
        # the log has its mark before the first draft is written: without one, both are gone
        has_list = file.record.stage in (Stage.DRAFTED, Stage.FORMED)
        self.wal = Wal.open(seams.disk, self.identity.tag, config.wal, is_expected=has_list)
        self.services = GroupServices(
            node_id=config.node_id,
            loop=seams.loop,
            clock=seams.clock,
            wal=self.wal,
            store=PayloadStore(seams.store, self.wal.payloads, self.wal),
            peers=seams.peers,
            log=self.log,
            scrub_version=config.scrub.version,
            traces=seams.traces,
            version=ClusterVersion(
                spoken,
                self.identity.active_version,
                partial(keep_active_version, seams.disk),
                config.node_id,
                self.identity.incarnation,
            ),
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
        )
        self.former = self._make_former(on_fatal)
        self.wal.recovered.clear()  # the host has it, and lets go of what it has used
        self.service = Service(self.host, seams.loop)
        self.host.memory.add("peers", lambda: seams.peers.held_bytes)
        self.housekeeper = Housekeeper(self.host, config.housekeeping)
        self.scrubber = Scrubber(self.host, config.scrub)
        self.slow_disk = SlowDiskWatch(self.host)
        self._retirement = Retirement(self.host)
        self._lost_nodes = LostNodes(self.host)
        self.sessions: dict[NodeId, NodeSession] = {}
        """Conversations with the other nodes, for what only the catalog's leader may do."""
        self.services.version.sessions = self.sessions
        self._calls = CatalogCalls(self.host, self.service, self.sessions, seams.loop)
        self._hear_the_catalog()
        self.unread: dict[NodeId, Seldom] = {}
        """Messages that could not be read, by the peer that sent them."""
        self.peer_turns = PeerTurns(seams.loop)
        self.refused_callers = RefusedCallers(self.services.clock.monotonic)
        self.registered = False
        self.fence = 0
        self._removing: set[GroupId] = set()
        self._on_open: Callable[[], None] = lambda: None
        self._refusal: str | None = None

    def _hear_the_catalog(self) -> None:
        ask, clock = self._calls.ask_node, self._seams.clock
        succession = LeaseSuccession(lambda: self.host.catalog, ask, clock, self.log, self._tasks)
        self.host.on_catalog_leads = succession.leads
        self.host.on_catalog_changed = self.former.look
        self.host.asking = self.former.asking
        self.host.readiness_look = partial(NodeReadiness, self)
        self.host.ask_any = self._calls.ask_any

    def _make_former(self, on_fatal: Callable[[BaseException], None]) -> Former:
        seams, config, file = self._seams, self.config, self._formation_file
        known = KnownMembers(self.host)
        # its log may be lost, and what it has applied may not
        has_state = next(self.services.store.scan(b"", b"\xff" * PREFIX_BYTES), None) is not None
        formation = Formation(
            config.node_id,
            self.identity.incarnation,
            tuple(config.addresses),
            file.record,
            has_log=has_state or bool(self.wal.recovered),
            registrations=known.registrations,
            given=known.places,
        )
        return Former(
            formation,
            file,
            seams.formation,
            clock=seams.clock,
            log=self.log,
            is_peer_up=self.host.is_peer_up,
            has_space=self.wal.has_space,
            forget=self.wal.note_losses,
            on_raised=self._places_raised,
            on_failure=on_fatal,
        )

    def _places_raised(self) -> None:
        """Only nodes that know the same places talk Raft: what was said before counts no more."""
        self.fence += 1
        self._seams.formation.part()

    def start(self, on_open: Callable[[], None] = lambda: None) -> None:
        """The callback `on_open` runs when the node may talk to its peers. That is at once, or, the
        first time, when all nodes have agreed on what the cluster begins with."""
        self._on_open = on_open
        self.former.start(self._open)

    def _open(self) -> None:
        self.host.start()
        self.housekeeper.start()
        self.scrubber.start()
        self.slow_disk.start()
        self.service.balance.start()
        self._lost_nodes.start()
        self._tasks.spawn(self._register(), "register")
        self.log.info("node_started", incarnation=self.identity.incarnation)
        self._on_open()

    async def stop(self) -> None:
        """End without ceremony; what is durable stays durable."""
        self.host.draining = True
        self.housekeeper.stop()
        self.scrubber.stop()
        await self.slow_disk.stop()
        await self.service.balance.stop()
        await self._lost_nodes.stop()
        await self.former.stop()
        await self._tasks.cancel_all()
        await self.service.close()
        await self.host.stop()
        for session in self.sessions.values():
            await session.close()

    async def retire(self) -> None:
        """Hand every leadership over, for a planned end, as far as that is possible in a bounded
        time. That time is `handover.Patience`. What is still led here goes on being served."""
        self.host.draining = True
        await self._retirement.run()

    async def ask_catalog(self, fill: Callable[[pb.Request], None]) -> pb.Response | None:
        """Do what `CatalogCalls.ask_leader` does."""
        return await self._calls.ask_leader(fill)

    async def _register(self) -> None:
        """Make this data directory known, or learn that its place is taken."""
        address = self.config.addresses[self.config.node_id]

        def fill(request: pb.Request) -> None:
            request.register_node.node_id = self.config.node_id
            request.register_node.incarnation = self.identity.incarnation
            request.register_node.address = address

        while not self.registered:
            # one that took a place says with this that its replicas are whole
            response = await self.ask_catalog(fill) if self._is_whole() else None
            if response is not None and response.WhichOneof("result") == "done":
                self.registered = True
                self.log.info("node_registered")
                return
            if response is not None and response.refusal.code == "invalid":
                self._refusal = registered_otherwise(self.config.node_id)
                self.log.error("node_refused", reason=self._refusal)
                return
            await asyncio.sleep(REGISTER_RETRY_SECONDS)

    def _is_whole(self) -> bool:
        took_place = bool(self.former.formation.record.ordinal)
        return is_whole(self.host, took_place=took_place)

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
        """Raises HandshakeError for a node that the cluster was not formed with. That is by its id,
        or by the data directory under it; NotYetError while this node does not know that itself."""
        if identity.role != "node":
            return
        self.check_member(identity)
        reason = self.former.formation.why_not(identity.node_id, identity.incarnation)
        if reason is None:
            return
        if not self.former.formation.is_open:
            raise NotYetError(reason)
        self.former.refused(identity.node_id)
        raise HandshakeError(reason)

    def check_raft(self, speaker: Speaker) -> None:
        """Do what `check_peer` does for a conversation of Raft: both sides know the same places.
        Who knows less is told, and tries again."""
        self.services.version.check(speaker)
        self.check_member(speaker.identity)
        own = self.former.formation.record.places
        if speaker.places != own:
            self.former.learn(speaker.places)
            if merged(speaker.places, own) != speaker.places:
                self.former.hurry()
            raise NotYetError("one of the two nodes does not know yet who has which place")
        self.check_peer(speaker.identity)

    def check_member(self, identity: Identity) -> None:
        """Raises HandshakeError for a node whose id is not one of the cluster's."""
        if identity.role == "node" and identity.node_id not in self.config.addresses:
            raise HandshakeError(NOT_A_MEMBER)

    def form(self, identity: Identity, data: bytes) -> bytes:
        """Another node says where it stands with the formation; the answer says where this one
        stands. Raises HandshakeError, FormationFormatError."""
        report = decode_report(data)
        if (report.node_id, report.incarnation) != (identity.node_id, identity.incarnation):
            raise HandshakeError("the report is another node's")
        return self.former.answer(report)

    def peer_envelope(self, sender: NodeId, envelope: Envelope) -> None:
        """What a peer says, whose identity is already proven. A message that could not be read is
        counted and told of: its group repeats what matters, and nobody else's business waits."""
        now = self.services.clock.monotonic()
        if envelope.wall_ms is not None:
            self.services.peer_clocks.heard(sender, envelope.wall_ms, now)
        if envelope.faults:
            unread = self.unread.setdefault(sender, Seldom())
            count = unread.note(now, len(envelope.faults))
            if count is not None:
                self.log.warning(
                    "peer_messages_unreadable",
                    peer_node=sender,
                    count=count,
                    reason=envelope.faults[0],
                )
        self.host.peer_messages(sender, envelope.messages)

    def speaker(self) -> Speaker:
        """What this node says of itself when a conversation begins."""
        known = self.config.host.known
        rests, traces = self.config.host.rest_seconds > 0, self.services.traces is not None
        return Speaker(
            Identity(
                self.config.cluster_id, "node", self.config.node_id, self.identity.incarnation
            ),
            features_of_node(rests=rests, traces=traces),
            basin_commands=known.newest_basin,
            catalog_commands=known.newest_catalog,
            versions=known.versions,
            places=self.former.formation.record.places,
        )

    def readiness(self) -> dict[str, bool]:
        """The checks behind /readyz, by name."""
        return readiness(self)

    def peers(self) -> dict[NodeId, str]:
        """Return for each other node `up`, `absent`, or `refused` where a node asks to take part
        under its id and may not."""
        others = (node for node in self.config.addresses if node != self.config.node_id)
        return {node: self._standing(node) for node in others}

    def _standing(self, node: NodeId) -> str:
        if self.host.is_peer_up(node):
            return "up"
        return "refused" if self.former.is_refused(node) else "absent"

    def refusal(self) -> str | None:
        """Why the cluster goes on without this node, as one sentence; None where it does not."""
        return self.former.formation.refusal() or self._refusal

    def why_not_formed(self) -> str | None:
        """What the failed check `formed` of `readiness` stands for."""
        formation = self.former.formation
        return self.refusal() or (None if formation.is_open else formation.waits_for())
