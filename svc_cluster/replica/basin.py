"""A basin's replica on this node: group, state, sequencer and the two paths, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from svc_cluster.base.errors import (
    BasinDeletionPendingError,
    ServiceError,
    UnavailableError,
)
from svc_cluster.base.ids import Generation, LogIndex, NodeId, TimestampMs
from svc_cluster.catalog.state import BasinRecord
from svc_cluster.codec.entry_version import Known
from svc_cluster.codec.log_entry import encode_command, join_commands
from svc_cluster.model.outcome_table import OUTCOMES_MAX, OutcomeTable
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.replica.append import Appender
from svc_cluster.replica.group import GroupReplica, Services
from svc_cluster.replica.keeper import StreamKeeper
from svc_cluster.replica.machine import BasinMachine
from svc_cluster.replica.outcome_keeper import OutcomeKeeper
from svc_cluster.replica.prefixed import PrefixedReader
from svc_cluster.replica.proposer import Proposer, ResultCallback
from svc_cluster.replica.read import Reader
from svc_cluster.replica.retention_clock import RetentionClock
from svc_cluster.stream import usage_requests
from svc_cluster.stream.apply import Plan, Rejected
from svc_cluster.stream.commands import CountUsage
from svc_cluster.stream.sequencer import Sequencer
from svc_cluster.stream.sessions import Sessions
from svc_cluster.stream.state import BasinState

ENTRIES_IN_FLIGHT_MAX: Final = 4
"""Entries of one group that may be on their way to the quorum's disks at once."""

INTERNAL_DEADLINE_SECONDS: Final = 4.0


class BasinReplica:
    """One basin on this node. Leads or follows; every request checks which."""

    def __init__(
        self,
        *,
        make_engine: Callable[[LogIndex], EngineGroup],
        generation: Generation,
        services: Services,
        record: Callable[[], BasinRecord | None],
        on_sealed: Callable[[BasinRecord], None],
        on_snapshot_wanted: Callable[[NodeId], None],
        on_fault: Callable[[BaseException], None],
        known: Known = Known(),
        outcomes_max: int = OUTCOMES_MAX,
        streams_max: int | None = None,
        stored_bytes_max: int | None = None,
    ) -> None:
        self._services = services
        self._record = record
        self._on_sealed = on_sealed
        self.state = BasinState(PrefixedReader(services.store, generation))
        engine = make_engine(self.state.applied_index)
        self._log = services.log.bind(group=engine.group_id)
        self.sequencer = Sequencer(
            self.state,
            Sessions(),
            outcomes_max=outcomes_max,
            streams_max=streams_max,
            stored_bytes_max=stored_bytes_max,
        )
        self.group = GroupReplica(
            engine=engine,
            machine=BasinMachine(self.state, known),
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
            sequencer=self.sequencer,
            encode=encode_command,
            join=join_commands,
            entries_in_flight_max=ENTRIES_IN_FLIGHT_MAX,
        )
        self.appender = Appender(self.proposer, self.sequencer)
        self.retention_clock = RetentionClock(engine, services.clock, services.peer_clocks)
        self.keeper = StreamKeeper(
            self.group, self.state, self.sequencer, self.appender, services, self.retention_clock
        )
        self.outcome_keeper = OutcomeKeeper(
            self.state.outcomes, self.retention_clock, self._expire_outcomes
        )
        self.reader = Reader(self.group, self.state, services, self.retention_clock)
        self.records_appended = 0
        """Records of this basin that were acknowledged while this node led it."""
        self.records_trimmed = 0
        """As above, of those that were trimmed or outlived their age."""
        self._bootstrapped: list[asyncio.Future[None]] = []

    def _applied(self, plan: Plan) -> None:
        serving = self.group.is_serving
        for outcome in plan.outcomes:
            if isinstance(outcome, Rejected):
                # the sequencer promised otherwise, or the entry is poison: a person must look
                self._log.error("command_rejected", reason=outcome.reason)
                self.sequencer.rejected()
            elif serving and outcome.ack is not None:
                self.records_appended += outcome.ack.end.seq_num - outcome.ack.start.seq_num
        for stream_id, event in plan.events.items():
            self.reader.wake(stream_id)
            if serving:
                self.records_trimmed += event.trimmed_records
        if serving:
            self.keeper.applied(plan.events.values())
        self.proposer.applied(self.state.applied_index)
        if self._bootstrapped and self.state.basin is not None:
            waiting, self._bootstrapped = self._bootstrapped, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def _leadership(self) -> None:
        self.proposer.leadership_changed()
        self.keeper.leadership_changed()
        if not self.group.is_serving:
            self.reader.wake_all(self.group.not_leader)
            self._refuse_bootstrapped()
        self.reconcile()

    def _refuse_bootstrapped(self) -> None:
        waiting, self._bootstrapped = self._bootstrapped, []
        for future in waiting:
            if not future.done():
                future.set_exception(self.group.not_leader())

    def reconcile(self) -> None:
        """Bring the group to where the catalog's record wants it. Leader only; repeatable."""
        record = self._record()
        if record is None or not self.group.is_serving:
            return
        deadline = self._services.clock.monotonic() + INTERNAL_DEADLINE_SECONDS
        if self.state.basin is None:
            self.appender.change(
                lambda now_ms: self.sequencer.bootstrap(
                    record.name, record.config, record.created_at_ms
                ),
                deadline,
                _ignore,
            )
        elif record.deleted_at_ms is not None and not self.state.sealed:
            self.appender.change(self.sequencer.seal, deadline, _ignore)
        elif record.deleted_at_ms is not None:
            self._on_sealed(record)
        elif not self.state.usage.counts:
            self.appender.change(self._begin_to_count, deadline, _ignore)

    def _begin_to_count(self, now_ms: TimestampMs) -> CountUsage | None:
        return self.sequencer.decide(
            lambda view: usage_requests.begin(view, self.state.usage, now_ms)
        )

    @property
    def outcomes(self) -> OutcomeTable:
        return self.state.outcomes

    @property
    def repeats(self) -> int:
        """Requests to this leader that were found to be repetitions."""
        return self.sequencer.repeats

    def _expire_outcomes(self, before_ms: TimestampMs, done: ResultCallback) -> None:
        deadline = self._services.clock.monotonic() + INTERNAL_DEADLINE_SECONDS
        self.appender.change(lambda _: self.sequencer.expire_outcomes(before_ms), deadline, done)

    async def bootstrapped(self, deadline: float) -> None:
        """Return once the basin's first entry is applied here. Leader only."""
        if not self.group.is_serving:
            raise self.group.not_leader()
        if self.state.sealed:
            raise BasinDeletionPendingError("the basin is being deleted")
        if self.state.basin is not None:
            return
        self.reconcile()
        future: asyncio.Future[None] = self._services.loop.create_future()
        self._bootstrapped.append(future)
        await future

    def stop(self) -> None:
        """Take nothing more, and answer everyone who waits; see `GroupReplica.stop`."""
        self.group.stop()
        self.keeper.stop()
        self.proposer.refuse_all()
        self.reader.wake_all(lambda: UnavailableError("the replica is stopping"))
        self._refuse_bootstrapped()


def _ignore(outcome: Any, error: ServiceError | None) -> None:
    """The next reconciliation looks at what became of it."""
