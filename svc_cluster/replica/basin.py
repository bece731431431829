"""A basin's replica on this node: group, state, sequencer and the two paths, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from svc_cluster.base.basin_families import BasinCounts
from svc_cluster.base.errors import (
    BasinDeletionPendingError,
    ServiceError,
    UnavailableError,
)
from svc_cluster.base.ids import Generation, LogIndex, NodeId, TimestampMs
from svc_cluster.base.mean_rate import MeanRate
from svc_cluster.base.seldom import Seldom
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.catalog.placement_loads import Load
from svc_cluster.codec.entry_version import Known
from svc_cluster.codec.log_entry import comes_back, encode_command, join_commands
from svc_cluster.model import versions
from svc_cluster.model.idempotency_table import IDEMPOTENCY_KEYS_MAX, IdempotencyTable
from svc_cluster.raft.group import RaftGroup
from svc_cluster.replica.append import Appender
from svc_cluster.replica.append_joiner import AppendJoiner
from svc_cluster.replica.group_replica import GroupReplica
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.idempotency_keeper import IdempotencyKeeper
from svc_cluster.replica.keeper import StreamKeeper
from svc_cluster.replica.kept_entries import KeptEntries
from svc_cluster.replica.lost_replicas import is_lost_for_good
from svc_cluster.replica.machine import basin_machine
from svc_cluster.replica.prefixed import PrefixedReader
from svc_cluster.replica.proposal import ResultCallback
from svc_cluster.replica.proposer import Proposer
from svc_cluster.replica.read import Reader
from svc_cluster.replica.retention_clock import RetentionClock
from svc_cluster.stream import usage_requests
from svc_cluster.stream.apply import Outcome, Plan, Rejected
from svc_cluster.stream.basin_state import BasinState
from svc_cluster.stream.commands import BasinCommand, CountUsage, KeepUsage
from svc_cluster.stream.sequencer import Sequencer
from svc_cluster.stream.sessions import Sessions

ENTRIES_IN_FLIGHT_MAX: Final = 4
"""Entries of one group that may be on their way to the quorum's disks at once."""

INTERNAL_DEADLINE_SECONDS: Final = 4.0


class BasinReplica:
    """One basin on this node. Leads or follows; every request checks which."""

    def __init__(
        self,
        *,
        make_engine: Callable[[LogIndex], RaftGroup],
        generation: Generation,
        services: GroupServices,
        record: Callable[[], BasinRecord | None],
        on_sealed: Callable[[BasinRecord], None],
        on_snapshot_wanted: Callable[[NodeId], None],
        on_fault: Callable[[BaseException], None],
        known: Known = Known(),
        idempotency_keys_max: int = IDEMPOTENCY_KEYS_MAX,
        on_change: Callable[[BasinReplica, BasinRecord], None] = lambda *_: None,
        streams_max: int | None = None,
        stored_bytes_max: int | None = None,
    ) -> None:
        self._services, self._record = services, record
        self._on_sealed, self._on_change = on_sealed, on_change
        self.state = BasinState(PrefixedReader(services.store, generation))
        engine = make_engine(self.state.applied_index)
        self._log = services.log_of(engine.group_id)
        self.sequencer = Sequencer(
            self.state,
            Sessions(),
            idempotency_keys_max=idempotency_keys_max,
            streams_max=streams_max,
            stored_bytes_max=stored_bytes_max,
        )
        self.kept = KeptEntries[BasinCommand](
            partial(comes_back, known=known.basin), ENTRIES_IN_FLIGHT_MAX
        )
        """What this node has proposed, and need not decode when it applies it."""
        self.group = GroupReplica(
            engine=engine,
            machine=basin_machine(self.state, known, self.kept),
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
            kept=self.kept,
            joiner=AppendJoiner(self.sequencer),
        )
        self.appender = Appender(self.proposer, self.sequencer)
        self.retention_clock = RetentionClock(engine, services.clock, services.peer_clocks)
        self.keeper = StreamKeeper(
            self.group, self.state, self.sequencer, self.appender, services, self.retention_clock
        )
        self.idempotency_keeper = IdempotencyKeeper(
            self.state.idempotency, self.retention_clock, self._expire_idempotency_keys
        )
        self.reader = Reader(self.group, self.state, services, self.retention_clock)
        self.group.rest.heed(self._is_busy, self.keeper.due_in, self._has_no_streams)
        self.records_appended = 0
        """Records of this basin that were acknowledged while this node led it."""
        self._appends = self._appended_bytes = 0
        self._rate = MeanRate(services.clock.monotonic())
        self.records_trimmed = 0
        """The same as above, of those that were trimmed or outlived their age."""
        self._bootstrapped: list[asyncio.Future[None]] = []
        self._rejected = Seldom()

    def _note_rejected(self, outcome: Rejected) -> None:
        """An entry may hold thousands of them: one line a minute says how many there were."""
        count = self._rejected.note(self._services.clock.monotonic())
        if count is not None:
            self._log.error("command_rejected", reason=outcome.reason, count=count)

    def _applied(self, plan: Plan) -> None:
        serving, appends = self.group.is_serving, 0
        for outcome in plan.outcomes:
            if isinstance(outcome, Rejected):
                # the sequencer promised otherwise, or the entry is poison: a person must look
                self._note_rejected(outcome)
                self.sequencer.rejected()
            elif serving and outcome.ack is not None:
                appends += 1
                self.records_appended += outcome.ack.end.seq_num - outcome.ack.start.seq_num
        for stream_id, event in plan.events.items():
            self.reader.wake(stream_id)
            if serving:
                self.records_trimmed += event.trimmed_records
                for batch in event.batches:
                    self._appended_bytes += batch.placement.metered_bytes
        if serving:
            appends += self.proposer.joined(plan.log_index)
            if appends:
                self._appends += appends
                self._rate.note(self._services.clock.monotonic(), appends)
            self.keeper.applied(plan.events.values())
        self.proposer.applied(self.state.applied_index)
        if self._bootstrapped and self.state.basin is not None:
            waiting, self._bootstrapped = self._bootstrapped, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def _leadership(self) -> None:
        self._rate = MeanRate(self._services.clock.monotonic())
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
        """Bring the group to where the catalog's record wants it; repeatable. It is for the leader,
        and for a replica that is lost with the only quorum of its group."""
        record = self._record()
        if record is None:
            return
        own = self._services.node_id
        if record.deleted_at_ms is not None and is_lost_for_good(self.group, record, own):
            # nobody will ever seal it, and nothing of it is left to be sealed
            self._on_sealed(record)
            return
        if not self.group.is_serving:
            return
        if record.change is not None:
            self._on_change(self, record)
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
        elif not self.state.usage.keeps_hours and self._may_write("Command.keep_usage"):
            self.appender.change(self._keep_hours, deadline, _ignore)

    def _is_busy(self) -> bool:
        """Whether something is under way, or about to be, of which the group has no entry yet."""
        record = self._record()
        is_ending = self.state.sealed or record is None or record.deleted_at_ms is not None
        waits = self._bootstrapped or self.keeper.is_busy or not self.proposer.is_idle
        is_changing = record is not None and record.change is not None
        return is_ending or is_changing or self.state.basin is None or bool(waits)

    def _has_no_streams(self) -> bool:
        reading = self.state.usage.reading
        return reading is not None and not reading[1].streams

    def _may_write(self, member: str) -> bool:
        return self._services.version.active >= versions.MEMBERS_SINCE[member]

    def _keep_hours(self, _: TimestampMs) -> KeepUsage | None:
        return self.sequencer.decide(lambda view: usage_requests.keep_hours(view, self.state.usage))

    def _begin_to_count(self, now_ms: TimestampMs) -> CountUsage | None:
        return self.sequencer.decide(
            lambda view: usage_requests.begin(view, self.state.usage, now_ms)
        )

    def counts(self) -> BasinCounts:
        """What this replica has counted since it was opened."""
        reader, times = self.reader, self.group.times
        return BasinCounts(
            self._appends,
            self.records_appended,
            self._appended_bytes,
            reader.reads,
            reader.read_records,
            reader.read_bytes,
            times.commits,
            times.commit_seconds,
        )

    def load(self) -> Load:
        """What the basin is to each of its nodes, as its leader knows it."""
        reading = self.state.usage.reading
        stored = 0 if reading is None else reading[1].stored_bytes
        appends = self._rate.per_second(self._services.clock.monotonic())
        return Load(stored, round(appends))

    @property
    def idempotency(self) -> IdempotencyTable:
        return self.state.idempotency

    @property
    def repeats(self) -> int:
        """Requests to this leader that were found to be repetitions."""
        return self.sequencer.repeats

    def _expire_idempotency_keys(
        self, before_ms: TimestampMs, done: ResultCallback[Outcome]
    ) -> None:
        deadline = self._services.clock.monotonic() + INTERNAL_DEADLINE_SECONDS
        self.appender.change(
            lambda _: self.sequencer.expire_idempotency_keys(before_ms), deadline, done
        )

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
        self.kept.clear()
        self.reader.wake_all(lambda: UnavailableError("the replica is stopping"))
        self._refuse_bootstrapped()


def _ignore(outcome: object, error: ServiceError | None) -> None:
    """The next reconciliation looks at what became of it."""
