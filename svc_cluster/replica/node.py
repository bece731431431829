"""A replica node put together on its seams: disk, store, clock, loop, randomness, network.

The same class runs in a process of its own and, many at a time, in the simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.base.seldom import Seldom
from svc_cluster.base.tasks import Tasks
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.codec.formation_report import decode_report
from svc_cluster.codec.peer_message import Envelope
from svc_cluster.link.features import JOIN, features_of_node
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import NOT_A_MEMBER, HandshakeError, Identity, NotYetError
from svc_cluster.link.refused_callers import RefusedCallers
from svc_cluster.link.session import NodeSession
from svc_cluster.model.formation import UNKNOWN_HERE, Stage
from svc_cluster.model.places import merged
from svc_cluster.model.versions import Spoken
from svc_cluster.replica.beginning import Beginning
from svc_cluster.replica.cluster_version import ClusterVersion
from svc_cluster.replica.formation_file import FormationFile
from svc_cluster.replica.formation_rounds import Formation
from svc_cluster.replica.former import Former
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.host import Host
from svc_cluster.replica.housekeeping import Housekeeper
from svc_cluster.replica.identity import NodeIdentity, keep_active_version, open_identity
from svc_cluster.replica.known_members import KnownMembers
from svc_cluster.replica.leader_calls import CatalogCalls
from svc_cluster.replica.leader_handover import Retirement, SlowDiskWatch
from svc_cluster.replica.lease_succession import LeaseSuccession
from svc_cluster.replica.lost_nodes import LostNodes
from svc_cluster.replica.node_entry import made_entry
from svc_cluster.replica.node_parts import NodeConfig, Seams
from svc_cluster.replica.node_readiness import NodeReadiness, is_whole, readiness
from svc_cluster.replica.peer_turns import PeerTurns
from svc_cluster.replica.prefixed import PREFIX_BYTES
from svc_cluster.replica.roster import Roster
from svc_cluster.replica.scrub import Scrubber
from svc_cluster.replica.service import Service
from svc_cluster.storage.payload.payload_store import PayloadStore
from svc_cluster.storage.wal.writer import Wal


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
        settings = replace(config.wal, payload=self.identity.allowed(config.wal.payload))
        self.wal = Wal.open(seams.disk, self.identity.tag, settings, is_expected=has_list)
        self.store = PayloadStore(seams.store, self.wal.payloads, self.wal, seams.loop)
        self.services = GroupServices(
            node_id=config.node_id,
            loop=seams.loop,
            clock=seams.clock,
            wal=self.wal,
            store=self.store,
            peers=seams.peers,
            log=self.log,
            scrub_version=config.scrub.version,
            traces=seams.traces,
            version=self._make_version(spoken),
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
        self.roster = self._make_roster()
        self._hear_the_catalog()
        self.unread: dict[NodeId, Seldom] = {}
        """Messages that could not be read, by the peer that sent them."""
        self.peer_turns = PeerTurns(seams.loop)
        self.refused_callers = RefusedCallers(self.services.clock.monotonic)
        self.on_out: Callable[[str], None] = lambda _: None
        """Told why the cluster never takes this node, once that is known: it was removed, or its
        join token is good no more."""
        self.registration, self.newcomer, self.introductions = made_entry(self, self._calls)
        self.fence = 0
        self._removing: set[GroupId] = set()
        self._on_open: Callable[[], None] = lambda: None

    def _hear_the_catalog(self) -> None:
        ask, clock = self._calls.ask_node, self._seams.clock
        succession = LeaseSuccession(lambda: self.host.catalog, ask, clock, self.log, self._tasks)
        beginning = Beginning(
            lambda: self.host.catalog,
            lambda: self.former.formation.record,
            clock,
            self.log,
            self._tasks,
        )

        def leads() -> None:
            succession.leads()
            beginning.leads()

        self.host.on_catalog_leads = leads

        def changed() -> None:
            for part in (self.roster, self.former, self.registration):
                part.look()

        self.host.on_catalog_changed = changed
        self.host.all_nodes = lambda: self.roster.nodes
        self.host.asking = self.former.asking
        self.host.formation_report = self.former.formation.report
        self.host.readiness_look = partial(NodeReadiness, self)
        self.host.ask_any = self._calls.ask_any
        self.host.ask_catalog = self._calls.ask_leader

    def _make_version(self, spoken: Spoken) -> ClusterVersion:
        return ClusterVersion(
            spoken,
            self.identity.active_version,
            partial(
                keep_active_version,
                self._seams.disk,
                has_payload=self.config.wal.payload.writes,
            ),
            self.config.node_id,
            self.identity.incarnation,
        )

    def _make_roster(self) -> Roster:
        return Roster(
            self.config.node_id,
            self.config.addresses,
            lambda: self.host.catalog,
            self._seams.links,
            self.sessions,
            self.services.rest.meet,
        )

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
            newest=self.services.version.spoken.newest,
            comes=config.join_token is not None,
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
        if self.newcomer is not None:
            self._tasks.spawn(self.newcomer.run(), "join the cluster")

    def _open(self) -> None:
        record = self.former.formation.record
        if record.stage is Stage.FORMED:
            # never by the settings: nodes that went by different ones would have two majorities
            self.host.catalog_nodes = tuple(node for node, _ in record.members)
        if record.joined:
            self.roster.introduce(dict(record.seeds))
        self.host.start()
        self.housekeeper.start()
        self.scrubber.start()
        self.slow_disk.start()
        self.service.balance.start()
        self.service.moves.start()
        self._lost_nodes.start()
        self._tasks.spawn(self.registration.run(), "register")
        self._tasks.spawn(self.introductions.run(), "get to know the others")
        self.log.info("node_started", incarnation=self.identity.incarnation)
        self._on_open()

    async def stop(self) -> None:
        """End without ceremony; what is durable stays durable."""
        self.host.draining = True
        self.housekeeper.stop()
        self.scrubber.stop()
        await self.slow_disk.stop()
        await self.service.balance.stop()
        await self.service.moves.stop()
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

    def is_whole(self) -> bool:
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
        if not self.former.formation.is_open or reason == UNKNOWN_HERE:
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
        if identity.role == "node" and identity.node_id not in self.roster:
            self.introductions.stranger()
            raise HandshakeError(NOT_A_MEMBER)

    def is_removed(self, identity: Identity) -> bool:
        return identity.role == "node" and self.roster.has_removed(identity)

    def check_caller(self, speaker: Speaker) -> None:
        """Do what `check_member` does for a conversation with the service. One that comes is let
        in there, and one that was removed hears that; NotYetError where this node cannot tell."""
        if self.is_removed(speaker.identity):
            return
        if JOIN not in speaker.features:
            self.check_member(speaker.identity)
        elif not self.former.formation.is_open:
            raise NotYetError("this node has not formed the cluster yet")

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
            features_of_node(rests=rests, traces=traces, comes=self.former.formation.is_coming),
            basin_commands=known.newest_basin,
            catalog_commands=known.newest_catalog,
            versions=known.versions,
            places=self.former.formation.record.places,
        )

    def readiness(self) -> dict[str, bool]:
        """The checks behind /readyz, by name."""
        return readiness(self)

    def random_bytes(self, count: int) -> bytes:
        return self._seams.rng.randbytes(count)

    def peers(self) -> dict[NodeId, str]:
        """Return for each other node `up`, `absent`, or `refused` where a node asks to take part
        under its id and may not."""
        others = (node for node in self.roster.nodes if node != self.config.node_id)
        return {node: self.standing(node) for node in others}

    def standing(self, node: NodeId) -> str:
        """Return one of the words of `peers`."""
        if self.host.is_peer_up(node):
            return "up"
        return "refused" if self.former.is_refused(node) else "absent"

    def refusal(self) -> str | None:
        """Why the cluster goes on without this node, as one sentence; None where it does not."""
        joins = None if self.newcomer is None else self.newcomer.refusal
        return self.former.formation.refusal() or self.registration.refusal or joins

    def why_not_formed(self) -> str | None:
        """What the failed check `formed` of `readiness` stands for."""
        formation = self.former.formation
        return self.refusal() or (None if formation.is_open else formation.waits_for())
