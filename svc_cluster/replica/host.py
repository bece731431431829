"""All groups of one node: which exist, which are made and destroyed, and what reaches them.

A replica is made only from a catalog record, never because a message arrived, and destroyed only
when the applied catalog says that its group is gone (group ids are never used again).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from svc_cluster._pb.cluster.v1.replica_pb2 import Request, Response
from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.guarded import guarded
from svc_cluster.base.ids import (
    CATALOG_GROUP,
    Generation,
    GroupId,
    LogIndex,
    NodeId,
)
from svc_cluster.base.log_ops import (
    DestroyReplica,
    RecoveredLog,
)
from svc_cluster.base.tasks import Tasks
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.model.formation import Asking, FormationReport
from svc_cluster.raft.group import Message, PeerUp, RaftGroup, Tick
from svc_cluster.raft.messages import PeerMessage, RestMessage, ScrubMessage, StateMark, TimeoutNow
from svc_cluster.raft.raft_settings import RaftSettings
from svc_cluster.replica.applied_rows import AppliedRows
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.beats import Beats
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.change_driver import ChangeDriver
from svc_cluster.replica.generations import Generations
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.group_ticks import GroupTicks
from svc_cluster.replica.group_walks import GroupWalks
from svc_cluster.replica.head_starts import HeadStarts, standing
from svc_cluster.replica.held import Held, HeldGroups
from svc_cluster.replica.host_settings import HostSettings
from svc_cluster.replica.lost_replicas import LostReplicas
from svc_cluster.replica.memory_budget import MemoryBudget
from svc_cluster.replica.openings import first_nodes_of, is_named, is_over, made_engine
from svc_cluster.replica.peer_news import PeerNews
from svc_cluster.replica.probe import probe_row
from svc_cluster.replica.puller import Puller
from svc_cluster.replica.readiness_look import ReadinessLook
from svc_cluster.replica.reconciler import Reconciler
from svc_cluster.replica.seamed import flushable, number_here
from svc_cluster.replica.snapshot import SnapshotReceiver
from svc_cluster.replica.snapshot_admission import SnapshotAdmission
from svc_cluster.replica.snapshot_install import SnapshotInstalls
from svc_cluster.replica.snapshot_sender import SnapshotSender, SnapshotTransport
from svc_cluster.replica.succession import Succession

OPENING_VISITS: Final = 8
"""To open a replica is as dear as so many visits of one that is open, and more."""

Replica = CatalogReplica | BasinReplica


class Host:
    """Owner of every group on this node."""

    full_at = float("-inf")  # when the disk was last found to have no room for appends
    all_nodes: Callable[[], tuple[NodeId, ...]]  # see Roster.nodes
    readiness_look: Callable[[], ReadinessLook]
    avoids_leads: Callable[[], bool]
    """Whether the node is no place for leads, now."""
    ask_any: Callable[..., Awaitable[Response | None]]
    """What `CatalogCalls.ask_any` does; nobody answers before the node sets it."""
    ask_catalog: Callable[[Callable[[Request], None]], Awaitable[Response | None]]
    """The same of `CatalogCalls.ask_leader`."""
    formation_report: Callable[[], FormationReport | None]
    """See `Formation.report`."""

    def __init__(
        self,
        *,
        services: GroupServices,
        settings: HostSettings,
        raft_settings: RaftSettings,
        recovered: Mapping[GroupId, RecoveredLog],
        rng: random.Random,
        snapshots: SnapshotTransport,
        remove_basin: Callable[[BasinRecord], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.services = services
        self.settings = settings
        self.catalog_nodes = settings.nodes
        """The nodes that voted in the catalog at first; set before `start` where the settings say
        others."""
        self.draining = False
        self.basins: dict[GroupId, BasinReplica] = {}
        self.catalog: CatalogReplica | None = None
        self._raft_settings = raft_settings
        self._recovered = dict(recovered)
        self._rng = rng
        self._remove_basin = remove_basin
        self._on_fatal = on_fatal
        self._log = services.log
        self.memory = MemoryBudget(settings.memory_bytes_max, services.clock)
        self.memory.add("log", services.rest.log_bytes)
        self.memory.add("wal", lambda: services.wal.unsynced_bytes)
        self.rows = AppliedRows(lambda: self.catalog)
        self._tasks = Tasks(on_failure=on_fatal)
        self.walks = GroupWalks(services.loop, on_fatal)
        self.head_starts = HeadStarts(services.loop, on_fatal)
        self.news = PeerNews(self.walks, self.replicas)
        self.beats = Beats(services, self.news, settings, rng, on_fatal)
        self.reconciler = Reconciler(
            services,
            self.walks,
            catalog=lambda: self.catalog,
            here=self._here,
            visit=self._reconcile_group,
            on_whole=lambda: self.lost.settle(),
            on_fatal=on_fatal,
        )
        before_ticks = self._look_for_what_was_lost
        self.ticks = GroupTicks(
            services, self.walks, settings.tick_seconds, before_ticks, self.guarded
        )
        self.divergences = 0
        self.on_scrub: Callable[[AnyGroup, NodeId, ScrubMessage], None] = lambda *_: None
        self.on_copied: Callable[[GroupId, NodeId], None] = lambda *_: None
        """Told of each group whose state is now another node's, by its snapshot."""
        self.on_catalog_leads: Callable[[], None] = lambda: None
        self.on_catalog_changed: Callable[[], None] = lambda: None
        self.asking: Callable[[], Mapping[NodeId, Asking]] = dict  # see Former.asking
        self._beyond_repair: set[GroupId] = set()
        """Only replicas of their groups that were found to be damaged."""
        self.held_groups = HeldGroups(services, self.basins, self.rows.name_of, on_fatal)
        self.is_stopped, self._has_space = False, True
        self.changes = ChangeDriver(self, on_fatal)
        self.puller = self._puller(on_fatal)
        newest = max((log.generation for log in recovered.values()), default=Generation(0))
        self.generations = Generations(services, newest, on_fatal)
        self.lost = LostReplicas(services, self.generations)
        self.installs = SnapshotInstalls(self)
        self._succession = Succession(self)
        pieces = self.memory.pieces
        self.sender = SnapshotSender(services, snapshots, self._group, rng, self._tasks, pieces)
        self.receiver = self._receiver()

    def _puller(self, on_fatal: Callable[[BaseException], None]) -> Puller:
        node_id, rows = self.services.node_id, self.rows.of_group
        made = Puller(node_id, self._group, rows, lambda *ask: self.ask_any(*ask), on_fatal)
        made.all_nodes = lambda: self.all_nodes()
        return made

    def _receiver(self) -> SnapshotReceiver:
        admission = SnapshotAdmission(self.services, self._group)
        return SnapshotReceiver(
            services=self.services,
            leads=admission.sender_refusal,
            wants=admission.state_refusal,
            cannot_read=admission.unknown_state,
            new_generation=self.generations.new,
            discard=self.generations.discard,
            install=self.installs.install,
            pieces=self.memory.pieces,
        )

    # -- life

    def start(self) -> None:
        """Open what the disk holds and begin to tick."""
        self.look_at_space()
        keep_all = CATALOG_GROUP not in self._recovered or any(
            log.damaged for log in self._recovered.values()
        )
        live = (log.generation for log in self._recovered.values())
        has_state = self.generations.clear_strays(live, keep_all=keep_all)
        log = self._recovered.pop(CATALOG_GROUP, None)
        # the catalog is there from the first start on: who has more than that has lost its log
        gone = log is None and (has_state or bool(self._recovered))
        self.lost.look(self.guarded(partial(self._begin, log)), gone=gone)

    def _begin(self, log: RecoveredLog | None) -> None:
        if self.is_stopped:
            return
        self.reconciler.known = LogIndex(0) if log is None else log.last_index
        new = self.lost.new_log
        self.open_catalog(new(CATALOG_GROUP) if log is None else self.lost.checked(log))
        self.reconciler.run()
        self.ticks.tick()
        self.beats.start()

    async def stop(self) -> None:
        """Stop every group at once, without a hand-over."""
        self.is_stopped = True
        self.ticks.stop()
        self.walks.stop()
        self.beats.stop()
        self.head_starts.stop()
        self.reconciler.stop()
        self.generations.stop()
        for replica in self.replicas():
            replica.stop()
        await self.changes.stop()
        await self.puller.stop()
        await self._tasks.cancel_all()

    def replicas(self) -> list[Replica]:
        return [*([] if self.catalog is None else [self.catalog]), *self.basins.values()]

    def replica(self, group_id: GroupId) -> Replica | None:
        return self.catalog if group_id == CATALOG_GROUP else self.basins.get(group_id)

    def _group(self, group_id: GroupId) -> AnyGroup | None:
        replica = self.replica(group_id)
        return None if replica is None else replica.group

    def look_at_space(self) -> bool:
        """Take a new reading of the disk's free space, and say whether appends are taken."""
        self._has_space = self.services.wal.has_space()
        if not self._has_space:
            self.full_at = self.services.clock.monotonic()
        return self._has_space

    def check_space(self) -> None:
        """Raises UnavailableError when the disk is so full that only reads go on."""
        if not self._has_space:
            raise UnavailableError("the node's disk is full: reads only")

    def _look_for_what_was_lost(self) -> None:
        if self.lost.are_possible:
            self.reconciler.schedule()  # the catalog may have reached what it knew

    def guarded(self, callback: Callable[..., object]) -> Callable[..., None]:
        """For a timer of the whole node: what escapes it ends the process."""
        return guarded(callback, self._on_fatal)

    # -- groups that do not serve

    def held(self) -> list[Held]:
        """What does not serve here until the process is started again, and why."""
        return self.held_groups.rows(self.catalog)

    # -- opening

    def _make_engine(
        self, first_nodes: Sequence[NodeId] | None, log: RecoveredLog, applied_index: LogIndex
    ) -> RaftGroup:
        return made_engine(
            self.services.node_id,
            first_nodes,
            log,
            applied_index,
            random.Random(self._rng.getrandbits(64)),
            self._raft_settings,
            self.services.peers.has_room,
        )

    def open_catalog(self, log: RecoveredLog, *, is_flushed: bool = True) -> CatalogReplica:
        self.catalog = CatalogReplica(
            make_engine=partial(self._make_engine, self.catalog_nodes, log),
            generation=log.generation,
            services=self.services,
            nodes=self.catalog_nodes,
            replication_factor=self.settings.replication_factor,
            locations=self.settings.locations,
            known=self.settings.known,
            idempotency_keys_max=self.settings.request_outcomes_max,
            quotas=self.settings.quotas,
            on_changed=self._catalog_changed,
            on_leads=lambda: self.on_catalog_leads(),
            on_snapshot_wanted=partial(self.sender.wanted, CATALOG_GROUP),
            on_fault=self._on_fatal,
        )
        self._opened(self.catalog, log, is_flushed=is_flushed)
        self._catalog_changed()
        return self.catalog

    def _catalog_changed(self, groups: Iterable[GroupId] | None = None) -> None:
        """See `Reconciler.schedule`."""
        catalog = self.catalog
        if catalog is not None:
            self.services.version.applied(catalog.state.active_version.now)
            if catalog.own_group.change is not None and catalog.group.is_serving:
                self.changes.look(catalog, catalog.own_group)
        self.reconciler.schedule(groups)
        self.on_catalog_changed()

    def open_basin(
        self,
        first_nodes: Sequence[NodeId] | None,
        log: RecoveredLog,
        *,
        is_flushed: bool = True,
    ) -> BasinReplica | None:
        """None when that fails for a reason of the group's own, which stays closed then."""
        try:
            return self._open_basin(first_nodes, log, is_flushed=is_flushed)
        except Exception as fault:
            self.basins.pop(log.group_id, None)
            self.services.rest.closed(log.group_id)
            self.held_groups.cannot_open(log, fault)
            return None

    def _open_basin(
        self, first_nodes: Sequence[NodeId] | None, log: RecoveredLog, *, is_flushed: bool
    ) -> BasinReplica:
        group_id = log.group_id
        replica = BasinReplica(
            make_engine=partial(self._make_engine, first_nodes, log),
            generation=log.generation,
            services=self.services,
            record=lambda: self.rows.trusted_record(group_id),
            on_sealed=self._remove_basin,
            on_change=self.changes.look,
            on_snapshot_wanted=partial(self.sender.wanted, group_id),
            on_fault=partial(self.held_groups.failed, group_id),
            known=self.settings.known,
            idempotency_keys_max=self.settings.request_outcomes_max,
            streams_max=self.settings.quotas.streams,
            stored_bytes_max=self.settings.quotas.stored_bytes,
        )
        self.basins[group_id] = replica
        self._opened(replica, log, is_flushed=is_flushed)
        return replica

    def _opened(self, replica: Replica, log: RecoveredLog, *, is_flushed: bool = True) -> None:
        replica.group.voted_for = log.voted_for
        self.services.rest.opened(replica)
        replica.group.on_diverged = partial(self._diverged, replica)
        if replica.group.engine.recovery:
            self.services.log_of(log.group_id).warning(
                "replica_recovering",
                applied_index=replica.group.applied_index,
                base_index=log.base_index,
                last_index=log.last_index,
                reason="log damaged" if log.damaged else "log and state do not meet",
            )
        group = replica.group
        group.seam.on_ended = partial(self._succession.ended, replica)
        group.seam.on_behind = partial(self.puller.look, group)
        if is_flushed:
            # what the store was opened with came from its last flush
            flushed = flushable(group.engine, group.applied_index)
            self.services.wal.set_flushed(log.group_id, flushed)
        for peer in self.news.peers_up:
            replica.group.step(PeerUp(peer))
        replica.group.step(Tick(self.services.clock.monotonic()))
        self.puller.look(group)

    def _diverged(self, replica: Replica, reason: str) -> None:
        """The state of a replica here is not what was agreed: it is never served again. Where there
        is no other replica to repair it from, what is whole of it still is."""
        group_id = replica.group.group_id
        if replica.group.is_given_up or group_id in self._beyond_repair:
            return
        self.divergences += 1
        self.services.log_of(group_id).error(
            "state_diverged",
            reason=reason,
            applied_index=replica.group.applied_index,
            digest=f"{replica.group.machine.digest:016x}",
        )
        if len(replica.group.engine.members) == 1:
            self._beyond_repair.add(group_id)
            return
        self.services.wal.distrust(group_id)
        replica.group.distrust()

    # -- reconciliation with the catalog

    def _here(self) -> list[GroupId]:
        return [*self.basins, *self._recovered, *self.held_groups.unopened]

    def _reconcile_group(self, group_id: GroupId) -> None:
        catalog = self.catalog
        if catalog is None or catalog.group.engine.recovery:
            return
        record = self.rows.record(group_id)
        replica = self.basins.get(group_id)
        is_known = group_id in self._recovered or group_id in self.held_groups.unopened
        if record is None:
            if (replica is not None or is_known) and group_id < catalog.state.next_group_id:
                self._destroy(group_id)
        elif self._is_over(record, replica):
            self._destroy(group_id)
        elif replica is not None:
            replica.group.attempt(replica.reconcile)
        elif group_id not in self.held_groups.unopened and is_named(record, self.services.node_id):
            self._make_basin(record)

    def _is_over(self, record: BasinRecord, replica: BasinReplica | None) -> bool:
        """Whether what is here of a group belongs to nobody any more. A catalog that was further
        once does not say so: the replica may have begun by what that said."""
        group_id = record.group_id
        log = self._recovered.get(group_id) or self.held_groups.unopened.get(group_id)
        number = number_here(None if replica is None else replica.group.engine, log)
        if number is None:
            return False
        return self.reconciler.is_current and is_over(record, self.services.node_id, number)

    def _make_basin(self, record: BasinRecord) -> None:
        self.walks.spend(OPENING_VISITS)
        self.services.names.learn(record.group_id, record.name)
        log = self._recovered.pop(record.group_id, None)
        fresh = log is None and not record.configuration
        replica = self.open_basin(
            first_nodes_of(record),
            self.lost.new_log(record.group_id) if log is None else self.lost.checked(log),
        )
        if replica is None:
            return
        if not fresh:
            replica.group.attempt(replica.group.rest.begin)
        elif record.replicas[0] == self.services.node_id:
            self.head_starts.give(standing(replica.group))

    def _destroy(self, group_id: GroupId) -> None:
        self.walks.spend(OPENING_VISITS)
        replica = self.basins.pop(group_id, None)
        self.services.rest.closed(group_id)
        self.receiver.drop(group_id)
        self.changes.ended.pop(group_id, None)
        self._beyond_repair.discard(group_id)
        log = self._recovered.pop(group_id, None) or self.held_groups.unopened.pop(group_id, None)
        if replica is not None:
            replica.stop()
            generation = replica.group.generation
        else:
            assert log is not None, "the group was listed"
            generation = log.generation
        # the frame first: without it a restart would look for a state that is gone
        self.services.wal.append(
            group_id, [DestroyReplica()], partial(self.generations.discard, generation)
        )
        self.services.log_of(group_id).info("replica_destroyed")
        self.services.names.forget(group_id)

    # -- peers

    def is_peer_up(self, peer: NodeId) -> bool:
        return self.news.is_up(peer)

    def peer_messages(
        self, sender: NodeId, messages: Iterable[tuple[GroupId, PeerMessage]]
    ) -> None:
        """Messages of a peer whose identity is already proven. A group that is not here is not
        made because somebody talks to it."""
        for group_id, body in messages:
            if isinstance(body, RestMessage):
                self.beats.received(sender, group_id, body)
                continue
            replica = self.replica(group_id)
            if replica is None:
                continue
            if isinstance(body, StateMark):
                replica.group.comparison.received(sender, body)
            elif isinstance(body, ScrubMessage):
                replica.group.attempt(partial(self.on_scrub, replica.group, sender, body))
            elif not (self.draining and isinstance(body, TimeoutNow)):  # it is to lead no more
                # looked at for each: a group's time must not go back behind what the last one did
                rest, now = replica.group.rest, self.services.clock.monotonic()
                if not rest.asleep and rest.pace.hears(now, self.ticks.seconds):
                    replica.group.step(self.ticks.of(group_id, now))
                replica.group.step(Message(sender, body))

    # -- snapshots

    def open_installed(self, log: RecoveredLog, first_nodes: Sequence[NodeId] | None) -> None:
        """Open a group here again, with the state that a snapshot has brought. `first_nodes`: see
        `made_engine`."""
        if log.group_id == CATALOG_GROUP:
            self.open_catalog(log)
            self.reconciler.schedule()
        else:
            record = self.rows.record(log.group_id)
            known = None if record is None else first_nodes_of(record)
            self.open_basin(first_nodes or known, log)

    def probe(self) -> list[dict[str, Any]]:
        """One row a group, for the debug page and for checkers."""
        groups = (replica.group for replica in self.replicas())
        return [probe_row(group, self.rows.name_of(group.group_id) or None) for group in groups]
