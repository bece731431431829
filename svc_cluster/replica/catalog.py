"""The catalog's replica on this node: nodes, basins, and who may ask for what.

Control-plane changes are rare, so the catalog proposes one command at a time and decides on applied
state only; there is no speculation to undo.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from svc_cluster.base.errors import (
    AlreadyExistsError,
    BasinDeletionPendingError,
    BasinNotFoundError,
    InvalidError,
    QuotaError,
    ServiceError,
    TransactionConflictError,
)
from svc_cluster.base.ids import Generation, LogIndex, NodeId, TimestampMs
from svc_cluster.catalog.commands import (
    CatalogCommand,
    CatalogWrite,
    CreateBasin,
    DeleteBasin,
    ExpireOutcomes,
    RegisterNode,
    RemoveBasin,
)
from svc_cluster.catalog.leases import LeaseTable
from svc_cluster.catalog.locations import SetDefaultLocation
from svc_cluster.catalog.once import Answered, once
from svc_cluster.catalog.placement import place_basin
from svc_cluster.catalog.state import Applied, BasinRecord, CatalogState, Rejected
from svc_cluster.codec.catalog_entry import encode_catalog_command, join_catalog_commands
from svc_cluster.codec.entry_version import Known
from svc_cluster.model.location import LOCATIONS_DEFAULT, Location
from svc_cluster.model.outcome_table import EXPIRED_AT_ONCE_MAX, OUTCOMES_MAX, OutcomeTable
from svc_cluster.model.quotas import UNBOUNDED, Quotas
from svc_cluster.model.stream_config import BasinConfig
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.replica.group import GroupReplica, Services
from svc_cluster.replica.machine import CatalogMachine
from svc_cluster.replica.outcome_keeper import OutcomeKeeper
from svc_cluster.replica.prefixed import PrefixedReader
from svc_cluster.replica.proposer import Proposal, Proposer, ResultCallback
from svc_cluster.replica.repeatable import Fill, answer_bytes, filler, refusal_bytes
from svc_cluster.replica.retention_clock import RetentionClock

_COMMAND_BYTES = 256
_INTERNAL_DEADLINE_SECONDS = 4.0


def _anybody(now_ms: TimestampMs) -> None:
    """Whoever asks may ask."""


class _AppliedStateOnly:
    """The catalog's sequencer holds nothing: one command is in flight at a time."""

    def begin(self) -> None: ...

    def undo(self) -> None: ...

    def proposed(self, log_index: LogIndex) -> None: ...

    def applied(self, log_index: LogIndex) -> None: ...

    def reset(self) -> None: ...


class News:
    """Something happened; whoever waits looks again."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def notify(self) -> None:
        self.event.set()
        self.event = asyncio.Event()


class CatalogReplica:
    """The catalog group on this node."""

    def __init__(
        self,
        *,
        make_engine: Callable[[LogIndex], EngineGroup],
        generation: Generation,
        services: Services,
        nodes: Sequence[NodeId],
        replication_factor: int,
        on_changed: Callable[[], None],
        on_snapshot_wanted: Callable[[NodeId], None],
        on_fault: Callable[[BaseException], None],
        known: Known = Known(),
        locations: Sequence[Location] = LOCATIONS_DEFAULT,
        outcomes_max: int = OUTCOMES_MAX,
        quotas: Quotas = UNBOUNDED,
    ) -> None:
        self._services = services
        self.offered = tuple(locations)
        """The locations there are, at least one."""
        self._nodes = tuple(nodes)
        self._replication_factor = replication_factor
        self._on_changed = on_changed
        self._outcomes_max = outcomes_max
        self.repeats = 0
        """Requests that were found to be repetitions, and answered."""
        self.quotas = quotas
        self.leases = LeaseTable()
        """Of the gateways, for access tokens; in use while this node leads."""
        self.lease_news = News()
        self.state = CatalogState(PrefixedReader(services.store, generation))
        self.group = GroupReplica(
            engine=make_engine(self.state.applied_index),
            machine=CatalogMachine(self.state, known),
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
            sequencer=_AppliedStateOnly(),
            encode=encode_catalog_command,
            join=join_catalog_commands,
            entries_in_flight_max=1,
            commands_per_entry_max=1,
        )

        self.retention_clock = RetentionClock(
            self.group.engine, services.clock, services.peer_clocks
        )
        self.outcome_keeper = OutcomeKeeper(
            self.state.outcomes, self.retention_clock, self._expire_outcomes
        )

    def _expire_outcomes(self, before_ms: TimestampMs, done: ResultCallback) -> None:
        command = ExpireOutcomes(before_ms, EXPIRED_AT_ONCE_MAX)
        deadline = self._services.clock.monotonic() + _INTERNAL_DEADLINE_SECONDS
        self.proposer.submit(Proposal(lambda _: command, _COMMAND_BYTES, deadline, done))

    def _applied(self, plan: Any) -> None:
        self.proposer.applied(self.state.applied_index)
        self._on_changed()

    def _leadership(self) -> None:
        if self.group.is_serving:
            # not before: until the election is won, another leader may still give leases
            self.leases.in_term(self.group.engine.term, self._services.clock.monotonic())
        self.proposer.leadership_changed()
        self._on_changed()

    @property
    def outcomes(self) -> OutcomeTable:
        return self.state.outcomes

    async def linearize(self) -> None:
        """As `Reader.linearize`, for the catalog."""
        future: asyncio.Future[None] = self._services.loop.create_future()

        def settle(error: ServiceError | None) -> None:
            if not future.done():
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)

        self.group.linearize(settle)
        await future

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
        future: asyncio.Future[BasinRecord | None] = self._services.loop.create_future()

        def done(outcome: Any, error: ServiceError | None) -> None:
            if future.done():
                return
            match outcome:
                case _ if error is not None:
                    future.set_exception(error)
                case Rejected(reason):
                    # decided on state that another leader has changed meanwhile
                    future.set_exception(TransactionConflictError(reason))
                case Applied(record):
                    future.set_result(record)
                case _:
                    future.set_result(None)

        self.proposer.submit(Proposal(sequence, _COMMAND_BYTES, deadline, done))
        return await future

    async def write(
        self,
        key: bytes,
        sequence: Callable[[TimestampMs], CatalogWrite | None],
        tell: Callable[[CatalogCommand | None], Fill],
        deadline: float,
        *,
        check: Callable[[TimestampMs], None] = _anybody,
    ) -> Fill:
        """As `change`, with what `tell` makes of the command; or, with a request key, the answer to
        the first request that had it, as `Sequencer.once` has it. `check` is asked first, whether
        the request is repeated or not."""
        made: CatalogWrite | None = None
        answered: Answered | None = None

        def sequence_it(now_ms: TimestampMs) -> CatalogCommand | None:
            nonlocal made, answered
            check(now_ms)
            if not key:
                made = sequence(now_ms)
                return made
            answered = once(
                self.state.outcomes,
                self._outcomes_max,
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
    ) -> CreateBasin | BasinRecord:
        """The commit point of a creation; the group follows by reconciliation. A basin that is
        there is fine where `or_existing` says so, and where it was made with this `creation_hash`:
        its record then.

        A new basin's `location` has to be one of those there are, None: the default; with
        `or_existing` it has to be that of the basin that exists, or None. `owner`: see CreateBasin.

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
            replicas = place_basin(self.state, self._nodes, self._replication_factor)
            group_id = self.state.next_group_id
            return CreateBasin(
                name, group_id, replicas, config, now_ms, creation_hash, place.name, owner
            )
        if known.deleted_at_ms is not None:
            raise BasinDeletionPendingError("a basin of this name is being deleted")
        if or_existing and location not in (None, self.location_of(known)):
            raise InvalidError("the location of a basin cannot be changed")
        if or_existing or (creation_hash and creation_hash == known.creation_hash):
            return known
        raise AlreadyExistsError("a basin of this name exists")

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
        known = self.state.nodes.get(command.node_id)
        if known is not None and known.incarnation != command.incarnation:
            raise InvalidError("the node id is taken by another data directory")
        if known is not None and known.address == command.address:
            return None
        return command

    def sequence_remove(self, command: RemoveBasin) -> CatalogCommand | None:
        return command if command.group_id in self.state.basins_by_group else None

    def stop(self) -> None:
        """Take nothing more; see `GroupReplica.stop`."""
        self.group.stop()
