"""The catalog's replica on this node: nodes, basins, and who may ask for what.

Control-plane changes are rare, so the catalog proposes one command at a time and decides on applied
state only; there is no speculation to undo.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from svc_cluster.base.errors import (
    AlreadyExistsError,
    BasinDeletionPendingError,
    BasinNotFoundError,
    InvalidError,
    QuotaError,
    TransactionConflictError,
    UnavailableError,
)
from svc_cluster.base.ids import (
    CATALOG_GROUP,
    Generation,
    GroupId,
    LogIndex,
    NodeId,
    TimestampMs,
)
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.catalog.catalog_commands import (
    CatalogCommand,
    CatalogWrite,
    CreateBasin,
    DeleteBasin,
    ExpireCatalogIdempotencyKeys,
    RegisterNode,
    RemoveBasin,
)
from svc_cluster.catalog.catalog_state import (
    CatalogApplied,
    CatalogPlan,
    CatalogRejected,
    CatalogState,
)
from svc_cluster.catalog.idempotency import IdempotentCatalogAnswer, decide_idempotent
from svc_cluster.catalog.leases import LeaseTable
from svc_cluster.catalog.location_table import SetDefaultLocation
from svc_cluster.catalog.node_rows import registered
from svc_cluster.catalog.own_group import CatalogGroup
from svc_cluster.catalog.placement import check_wish, place_basin
from svc_cluster.catalog.placement_loads import Load
from svc_cluster.catalog.placement_view import placement_nodes, zones_of
from svc_cluster.catalog.raising import Gateways, NodeSpeaks
from svc_cluster.codec.catalog_entry import (
    encode_catalog_command,
    encode_catalog_entry,
    join_catalog_commands,
)
from svc_cluster.codec.entry_version import Known
from svc_cluster.model import versions
from svc_cluster.model.idempotency_table import (
    EXPIRED_AT_ONCE_MAX,
    IDEMPOTENCY_KEYS_MAX,
    IdempotencyTable,
)
from svc_cluster.model.location import LOCATIONS_DEFAULT, Location
from svc_cluster.model.quotas import UNBOUNDED, Quotas
from svc_cluster.model.stream_config import BasinConfig
from svc_cluster.raft.group import RaftGroup
from svc_cluster.replica.applied_sequencer import AppliedSequencer
from svc_cluster.replica.callbacks import Told, result_of
from svc_cluster.replica.group_replica import GroupReplica
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.idempotency_keeper import IdempotencyKeeper
from svc_cluster.replica.machine import catalog_machine
from svc_cluster.replica.news import News
from svc_cluster.replica.prefixed import PrefixedReader
from svc_cluster.replica.proposal import Proposal, ResultCallback
from svc_cluster.replica.proposer import Proposer
from svc_cluster.replica.repeatable import Fill, answer_bytes, filler, refusal_bytes
from svc_cluster.replica.retention_clock import RetentionClock

_COMMAND_BYTES = 256
_INTERNAL_DEADLINE_SECONDS = 4.0


def _anybody(now_ms: TimestampMs) -> None:
    """Anybody who asks may ask."""


Outcome = CatalogApplied | CatalogRejected
"""The outcome of a command."""


class CatalogReplica:
    """The catalog group on this node."""

    def __init__(
        self,
        *,
        make_engine: Callable[[LogIndex], RaftGroup],
        generation: Generation,
        services: GroupServices,
        nodes: Sequence[NodeId],
        replication_factor: int,
        on_changed: Callable[[Collection[GroupId] | None], None],
        on_leads: Callable[[], None],
        on_snapshot_wanted: Callable[[NodeId], None],
        on_fault: Callable[[BaseException], None],
        known: Known = Known(),
        locations: Sequence[Location] = LOCATIONS_DEFAULT,
        idempotency_keys_max: int = IDEMPOTENCY_KEYS_MAX,
        quotas: Quotas = UNBOUNDED,
    ) -> None:
        self._services = services
        self.version = services.version
        self.offered = tuple(locations)
        """The locations there are, at least one."""
        self.initial = tuple(nodes)
        """The nodes that the cluster began with, of which its first configuration is."""
        self._replication_factor = replication_factor
        self._on_changed = on_changed
        self._on_leads = on_leads
        self._idempotency_keys_max = idempotency_keys_max
        self.repeats = 0
        """Requests that were found to be repetitions, and answered."""
        self.quotas = quotas
        self.leases = LeaseTable()
        """The leases of the gateways, for access tokens; in use while this node leads."""
        self.lease_news = News()
        """A gateway has confirmed something, or leases were handed on or taken over."""
        self.revocations = 0
        """Under way: not applied yet, or waiting until no gateway accepts the token any more."""
        self.state = CatalogState(PrefixedReader(services.store, generation))
        self.group = GroupReplica(
            engine=make_engine(self.state.applied_index),
            machine=catalog_machine(self.state, known),
            generation=generation,
            services=services,
            on_applied=self._applied,
            on_leadership=self._leadership,
            on_snapshot_wanted=on_snapshot_wanted,
            on_fault=on_fault,
        )
        self.proposer = Proposer(
            group=self.group,
            services=services,
            sequencer=AppliedSequencer(),
            encode=self._encode,
            join=join_catalog_commands,
            entries_in_flight_max=1,
            commands_per_entry_max=1,
        )

        self.retention_clock = RetentionClock(
            self.group.engine, services.clock, services.peer_clocks
        )
        self.idempotency_keeper = IdempotencyKeeper(
            self.state.idempotency, self.retention_clock, self._expire_idempotency_keys
        )

    def _encode(self, command: CatalogCommand) -> bytes:
        return encode_catalog_command(command, self._services.version.active)

    def who_speaks(self) -> tuple[list[NodeSpeaks], Gateways]:
        """Which versions the nodes speak, registered or not, and the gateways that are known here.
        Those have a lease or talk to this node."""
        version, now = self.version, self._services.clock.monotonic()
        nodes = [
            NodeSpeaks(node_id, one.incarnation, version.spoken_by(node_id, one.incarnation))
            for node_id, one in sorted(self.state.nodes.items())
            if not one.is_removed
        ]
        nodes += [
            NodeSpeaks(node_id, "", None)
            for node_id in self.initial
            if node_id not in self.state.nodes
        ]
        self.leases.in_term(self.group.engine.term, now)
        leased, unknown_seconds = self.leases.spoken(now)
        talking = dict(iter(version.gateways))  # pairs: its counts are of no interest here
        return nodes, Gateways(talking | leased, unknown_seconds)

    def newest_of_gateway(self, said: int) -> int:
        """The newest version that a gateway speaks which said so, or did not (0). Raises
        UnavailableError for one that does not speak the active version."""
        newest, active = said or versions.FIRST, self.state.active_version.now
        if newest < active:
            raise UnavailableError(f"the cluster is at version {active}, the gateway at {newest}")
        return newest

    def _expire_idempotency_keys(
        self, before_ms: TimestampMs, done: ResultCallback[Outcome]
    ) -> None:
        command = ExpireCatalogIdempotencyKeys(before_ms, EXPIRED_AT_ONCE_MAX)
        deadline = self._services.clock.monotonic() + _INTERNAL_DEADLINE_SECONDS
        self.proposer.submit(Proposal(lambda _: command, _COMMAND_BYTES, deadline, done))

    def _applied(self, plan: CatalogPlan) -> None:
        self.proposer.applied(self.state.applied_index)
        self._on_changed(plan.changed_groups)

    def _leadership(self) -> None:
        if self.group.is_serving:
            # not before: until the election is won, another leader may still give leases
            self.leases.in_term(self.group.engine.term, self._services.clock.monotonic())
            self._on_leads()
        self.proposer.leadership_changed()
        self._on_changed(None)

    @property
    def idempotency(self) -> IdempotencyTable:
        return self.state.idempotency

    async def linearize(self) -> None:
        """Does what `Reader.linearize` does, for the catalog."""
        await result_of(self._services.loop, lambda told: self.group.linearize(partial(told, None)))

    async def resolve(self, name: str) -> BasinRecord:
        """The basin's record as of a quorum-confirmed moment. Raises BasinNotFoundError."""
        await self.linearize()
        record = self.state.basins.get(name)
        if record is None:
            raise BasinNotFoundError("no basin of this name")
        return record

    async def change(
        self, sequence: Callable[[TimestampMs], CatalogCommand | None], deadline: float
    ) -> BasinRecord | None:
        """Propose what `sequence` returns and wait until it is applied."""
        outcome: Outcome | None = await result_of(
            self._services.loop,
            lambda told: self.proposer.submit(Proposal(sequence, _COMMAND_BYTES, deadline, told)),
        )
        if isinstance(outcome, CatalogRejected):
            # decided on state that another leader has changed meanwhile
            raise TransactionConflictError(outcome.reason)
        return None if outcome is None else outcome.record

    async def change_together(self, commands: Sequence[CatalogCommand], deadline: float) -> None:
        """Put these into the log as one entry and wait until it is applied. They must be such that
        each of them is right, or has no effect, whatever others change meanwhile."""
        if not self.group.is_serving:
            raise self.group.not_leader()
        entry = encode_catalog_entry(commands, self.version.active)

        def propose(told: Told[CatalogPlan]) -> None:
            self.group.propose(entry, deadline, told)

        await result_of(self._services.loop, propose)

    async def write(
        self,
        key: bytes,
        sequence: Callable[[TimestampMs], CatalogWrite | None],
        tell: Callable[[CatalogCommand | None], Fill],
        deadline: float,
        *,
        check: Callable[[TimestampMs], None] = _anybody,
    ) -> Fill:
        """Does what `change` does, with what `tell` makes of the command. With a request key it
        gives the answer to the first request that had it, as `Sequencer.sequence_idempotent` does.
        `check` is asked first, whether the request is repeated or not."""
        made: CatalogWrite | None = None
        answered: IdempotentCatalogAnswer | None = None

        def sequence_it(now_ms: TimestampMs) -> CatalogCommand | None:
            nonlocal made, answered
            check(now_ms)
            if not key:
                made = sequence(now_ms)
                return made
            answered = decide_idempotent(
                self.state.idempotency,
                self._idempotency_keys_max,
                key,
                sequence,
                lambda command: answer_bytes(tell(command)),
                refusal_bytes,
                now_ms,
            )
            return answered.command

        await self.change(sequence_it, deadline)
        if answered is None:
            return tell(made)
        self.repeats += answered.command is None
        return filler(answered.answer, is_repeated=answered.command is None)

    def sequence_create(
        self,
        name: str,
        config: BasinConfig,
        now_ms: TimestampMs,
        *,
        creation_hash: bytes = b"",
        or_existing: bool = False,
        location: str | None = None,
        owner: int = 0,
        replication_factor: int | None = None,
        loads: Mapping[NodeId, Load] = {},
    ) -> CreateBasin | BasinRecord:
        """The commit point of a creation; the group follows by reconciliation. A basin that is
        there is fine where `or_existing` says so, and where it was made with this `creation_hash`:
        its record then.

        A new basin's `location` has to be one of those there are, None: the default; with
        `or_existing` it has to be that of the basin that exists, or None; so has the
        `replication_factor`. `owner`: see CreateBasin.

        Raises QuotaError, InvalidError, BasinDeletionPendingError, AlreadyExistsError.
        """
        known = self.state.basins.get(name)
        if known is None:
            most = self.quotas.account_basins
            if most is not None and len(self.state.basins) >= most:
                raise QuotaError(f"there may be {most} basins by the account's quotas")
            most = self.quotas.basins_of_chain
            if most is not None and owner and self.state.count_basins_of(owner) >= most:
                raise QuotaError(f"the chain of the token may have {most} basins by its quotas")
            place = self.default_location if location is None else self.find_location(location)
            nodes = placement_nodes(self.state, self.initial)
            zones = zones_of(place.name, nodes)
            check_wish(nodes, replication_factor, zones)
            wanted = replication_factor or self._replication_factor
            replicas = place_basin(self.state, nodes, wanted, zones, loads)
            new, where = self.state.next_group_id, place.name
            return CreateBasin(name, new, replicas, config, now_ms, creation_hash, where, owner)
        if known.deleted_at_ms is not None:
            raise BasinDeletionPendingError("a basin of this name is being deleted")
        if or_existing and location not in (None, self.location_of(known)):
            raise InvalidError("the location of a basin cannot be changed")
        if or_existing and replication_factor not in (None, len(known.replicas)):
            raise InvalidError(
                f"the basin has {len(known.replicas)} replicas: an operator changes that"
            )
        if or_existing or (creation_hash and creation_hash == known.creation_hash):
            return known
        raise AlreadyExistsError("a basin of this name exists")

    # -- groups

    @property
    def own_group(self) -> CatalogGroup:
        """The catalog's own group. Before its first change no row says who votes; the replica here
        does then, as well as it knows."""
        return self.state.own_group.row or CatalogGroup(self.group.engine.members or self.initial)

    def group_row(self, group_id: GroupId) -> BasinRecord | CatalogGroup | None:
        """What is known of a group's members; None: there is no such group."""
        if group_id == CATALOG_GROUP:
            return self.own_group
        return self.state.basins_by_group.get(group_id)

    # -- locations

    @property
    def default_location(self) -> Location:
        return self.state.locations.default(self.offered)

    def location_of(self, record: BasinRecord) -> str:
        return self.state.locations.of_basin(record.location, self.offered)

    def find_location(self, name: str) -> Location:
        """Raises InvalidError."""
        for location in self.offered:
            if location.name == name:
                return location
        raise InvalidError("there is no such location")

    def sequence_default_location(self, name: str) -> SetDefaultLocation | None:
        """Raises InvalidError."""
        chosen, before = self.find_location(name), self.default_location
        return None if chosen == before else SetDefaultLocation(chosen.name, before.name)

    def sequence_delete(
        self, name: str, now_ms: TimestampMs
    ) -> tuple[DeleteBasin | None, BasinRecord]:
        """Also the record as it is then. Raises BasinNotFoundError."""
        record = self.state.basins.get(name)
        if record is None:
            raise BasinNotFoundError("no basin of this name")
        if record.deleted_at_ms is not None:
            return None, record
        return DeleteBasin(name, now_ms), replace(record, deleted_at_ms=now_ms)

    def sequence_register(self, command: RegisterNode) -> CatalogCommand | None:
        found = registered(self.state.nodes, command)
        if isinstance(found, str):
            raise InvalidError(found)
        return None if found == self.state.nodes.get(command.node_id) else command

    def sequence_remove(self, command: RemoveBasin) -> CatalogCommand | None:
        return command if command.group_id in self.state.basins_by_group else None

    def stop(self) -> None:
        """Take nothing more, and answer everyone who waits; see `GroupReplica.stop`."""
        self.group.stop()
        self.proposer.refuse_all()
