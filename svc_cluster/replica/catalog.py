"""The catalog's replica on this node: nodes, basins, and who may ask for what.

Control-plane changes are rare, so the catalog proposes one command at a time and decides on applied
state only; there is no speculation to undo.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from svc_cluster.base.errors import (
    AlreadyExistsError,
    BasinDeletionPendingError,
    BasinNotFoundError,
    InvalidError,
    ServiceError,
    TransactionConflictError,
    UnavailableError,
)
from svc_cluster.base.ids import Generation, LogIndex, NodeId, TimestampMs
from svc_cluster.catalog.commands import (
    CatalogCommand,
    CreateBasin,
    DeleteBasin,
    RegisterNode,
    RemoveBasin,
)
from svc_cluster.catalog.leases import LeaseTable
from svc_cluster.catalog.placement import place_basin
from svc_cluster.catalog.state import Applied, BasinRecord, CatalogState, Rejected
from svc_cluster.codec.catalog_entry import encode_catalog_entry
from svc_cluster.model.stream_config import BasinConfig
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.replica.group import GroupReplica, Services
from svc_cluster.replica.machine import CatalogMachine
from svc_cluster.replica.prefixed import PrefixedReader
from svc_cluster.replica.proposer import Proposal, Proposer

_COMMAND_BYTES = 256


class _AppliedStateOnly:
    """The catalog's sequencer holds nothing: one command is in flight at a time."""

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
    ) -> None:
        self._services = services
        self._nodes = tuple(nodes)
        self._replication_factor = replication_factor
        self._on_changed = on_changed
        self.leases = LeaseTable()
        """Of the gateways, for access tokens; in use while this node leads."""
        self.lease_news = News()
        self.state = CatalogState(PrefixedReader(services.store, generation))
        self.group = GroupReplica(
            engine=make_engine(self.state.applied_index),
            machine=CatalogMachine(self.state),
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
            encode=encode_catalog_entry,
            entries_in_flight_max=1,
            commands_per_entry_max=1,
        )

    def _applied(self, plan: Any) -> None:
        self.proposer.applied(self.state.applied_index)
        self._on_changed()

    def _leadership(self) -> None:
        if self.group.is_serving:
            # not before: until the election is won, another leader may still give leases
            self.leases.in_term(self.group.engine.term, self._services.clock.monotonic())
        self.proposer.leadership_changed()
        self._on_changed()

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

    async def create_basin(
        self,
        name: str,
        config: BasinConfig,
        deadline: float,
        *,
        creation_hash: bytes = b"",
        or_existing: bool = False,
    ) -> tuple[BasinRecord, bool]:
        """The commit point of a creation; the group follows by reconciliation. Also whether the
        record was made by this call: one that was there is fine where `or_existing` says so, and
        where it was made with this `creation_hash`.

        Raises BasinDeletionPendingError, AlreadyExistsError, TransactionConflictError.
        """
        existing: BasinRecord | None = None

        def sequence(now_ms: TimestampMs) -> CatalogCommand | None:
            nonlocal existing
            existing = known = self.state.basins.get(name)
            if known is None:
                replicas = place_basin(self.state, self._nodes, self._replication_factor)
                group_id = self.state.next_group_id
                return CreateBasin(name, group_id, replicas, config, now_ms, creation_hash)
            if known.deleted_at_ms is not None:
                raise BasinDeletionPendingError("a basin of this name is being deleted")
            if or_existing or (creation_hash and creation_hash == known.creation_hash):
                return None
            raise AlreadyExistsError("a basin of this name exists")

        record = await self.change(sequence, deadline)
        if record is not None:
            return record, True
        if existing is None:
            raise UnavailableError("the basin was not created")
        return existing, False

    def sequence_delete(self, name: str, now_ms: TimestampMs) -> CatalogCommand | None:
        record = self.state.basins.get(name)
        if record is None:
            raise BasinNotFoundError("no basin of this name")
        return None if record.deleted_at_ms is not None else DeleteBasin(name, now_ms)

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
