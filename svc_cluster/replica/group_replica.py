"""One replica of one group: carries out what the engine decides.

The order of effects is the durability argument and lives in `_drain`: messages leave first, for
those that depend on the disk were held back in the engine until `Durable`; log operations go to the
WAL without waiting; only what is committed and durable here is applied. Nothing here awaits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Generic, TypeVar

from svc_cluster.base.errors import DeadlineError, InvalidError, ServiceError, UnavailableError
from svc_cluster.base.ids import Generation, LogIndex, NodeId
from svc_cluster.base.log import Logger
from svc_cluster.base.log_ops import LogEntry, SetCommit, SetHardState, TrimPrefix
from svc_cluster.codec.entry_version import UnknownEntryError
from svc_cluster.codec.rpc import NotLeaderHereError
from svc_cluster.raft.group import (
    ENTRY_BYTES_MAX,
    Durable,
    Event,
    Message,
    NotLeaderError,
    PeerLieError,
    RaftGroup,
    Role,
)
from svc_cluster.replica.faults import OF_THE_LOG, OF_THE_STORE
from svc_cluster.replica.group_rest import GroupRest
from svc_cluster.replica.group_seam import GroupSeam
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.group_watch import EntryTimes
from svc_cluster.replica.machine import EntryPlan, Planning, StateMachine
from svc_cluster.replica.quiet_events import brings_nothing
from svc_cluster.replica.state_comparison import StateComparison
from svc_cluster.replica.waiting_proposals import PlanCallback, WaitingProposals
from svc_cluster.replica.waiting_reads import ReadCallback, WaitingReads
from svc_cluster.storage.state_store import StoreStalledError

STALL_RETRY_SECONDS: Final = 0.01
"""How long apply backs off when the store cannot take a write."""

COMMAND_BYTES: Final = 1024
"""So many bytes to be written cost about as much as a command. An entry counts for one of its own,
and one for each COMMAND_BYTES of it."""

Plan_co = TypeVar("Plan_co", bound=EntryPlan[object], covariant=True)


class GroupReplica(Generic[Plan_co]):
    """Owner of one engine and one state machine. Every method runs on the event loop."""

    def __init__(
        self,
        *,
        engine: RaftGroup,
        machine: StateMachine[Plan_co],
        generation: Generation,
        services: GroupServices,
        on_applied: Callable[[Plan_co], None],
        on_leadership: Callable[[], None],
        on_snapshot_wanted: Callable[[NodeId], None],
        on_fault: Callable[[BaseException], None],
    ) -> None:
        self.engine = engine
        self.machine = machine
        self.generation = generation
        self.group_id = engine.group_id
        self.leader_changes = 0
        self.commands_applied_as_leader = 0
        self._services = services
        self._prefix = generation.to_bytes(8, "big")
        self._on_applied = on_applied
        self._on_leadership = on_leadership
        self._on_snapshot_wanted = on_snapshot_wanted
        self._on_fault = on_fault
        self._to_apply: deque[LogEntry] = deque()
        self._planning: Planning[Plan_co] | None = None
        """The planning of the first entry that is to be applied, as far as that has come."""
        self._plan: Plan_co | None = None
        """The plan of the same entry, once it is worked out."""
        self._waiting: WaitingProposals[Plan_co] = WaitingProposals()
        self._reads = WaitingReads(self, services.waking)
        self.times = services.watch(engine.group_id)
        self._drain_scheduled = False
        self._durable_number = 0
        """The last of what the engine handed out that is on the disk, as far as was told here."""
        self._stall_timer: asyncio.Handle | None = None
        self._seen = (engine.role, engine.term)
        self._seen_serving = False
        self.voted_for: NodeId | None = None
        self.on_diverged: Callable[[str], None] = _nobody
        """Told, with the reason, that the state here is not what was agreed."""
        self.seam = GroupSeam(self)
        self.comparison = StateComparison(self, services)
        self.rest = GroupRest(self, services.rest, services.clock)
        self._watched: tuple[LogIndex, Callable[[], None]] | None = None
        self.stirs = 0  # differs whenever something has come to do: see `is_settled`
        self.stopped = False
        self.fault = ""
        """Why it has stopped by itself; empty: it has not."""
        self.parked = ""
        """Why nothing more is applied or served here until a newer release runs; empty: it is."""
        self.parked_bytes = 0
        """Payload that waits in memory behind the entry at which it is parked."""

    # -- what the group is

    @property
    def applied_index(self) -> LogIndex:
        """The state store's: the only one that reads, snapshots and trimming may use."""
        return self.machine.applied_index

    @property
    def is_serving(self) -> bool:
        """Leads, and everything of earlier terms is in the state store."""
        engine = self.engine
        return (
            not self.stopped
            and not self.parked
            and engine.role is Role.LEADER
            and engine.can_propose
            and self.machine.applied_term == engine.term
        )

    @property
    def backlog_entries(self) -> int:
        return len(self._to_apply)

    @property
    def pending_proposals(self) -> int:
        """Entries proposed here whose outcome is not known yet."""
        return len(self._waiting)

    @property
    def is_settled(self) -> bool:
        """Nobody waits for anything, and all there is in the log is applied."""
        waits = self._to_apply or len(self._waiting) or len(self._reads) or self._watched
        is_applied = self.applied_index == self.engine.last_index
        is_still = self.engine.standstill.is_possible(self.engine.commit_index)
        is_idle = is_applied and is_still and self.engine.is_idle(self._seen)
        return is_idle and not (waits or self.is_held)

    @property
    def is_held(self) -> bool:
        """Takes no requests until the process is started again."""
        return self.stopped or bool(self.parked)

    @property
    def is_given_up(self) -> bool:
        """The state here is not to be told any more. It is to be repaired, or another replica of
        this node is in its place, or none."""
        return self.stopped or bool(self.engine.recovery)

    def not_leader(self) -> ServiceError:
        """The refusal of a replica that does not serve: who leads, or why nobody does here."""
        self.rest.missed()
        leader = self.engine.leader
        if leader == self.engine.node_id:
            leader = None
        if self.fault:
            return UnavailableError("a replica of the group has stopped after a fault")
        if self.parked and leader is None:
            return UnavailableError(f"a replica of the group is parked before {self.parked}")
        return NotLeaderHereError(leader)

    def _log(self) -> Logger:
        return self._services.log_of(self.group_id)

    # -- what goes in

    def step(self, event: Event) -> None:
        if self.stopped:
            return
        self.times.heard(event)
        if isinstance(event, Message):
            self.seam.heard(event.sender, self._services.clock.monotonic())
        only_noted = self.rest.hears(event)
        try:
            self.engine.step(event)
        except PeerLieError as lie:
            self._log().error("peer_message_refused", cause=str(lie))
            return
        except Exception as fault:
            self.fail(fault)
            return
        if not (only_noted or brings_nothing(event, self.engine, self._seen)):
            self._schedule_drain()

    def propose(self, payload: bytes, deadline: float, done: PlanCallback[Plan_co]) -> LogIndex:
        """Put an entry into the leader's log. `deadline` is monotonic seconds; behind it the
        outcome is unknown. Raises NotLeaderHereError, UnavailableError, or InvalidError for more
        than ENTRY_BYTES_MAX, without effect."""
        if self.is_held:
            raise self.not_leader()
        if len(payload) > ENTRY_BYTES_MAX:
            raise InvalidError("an entry does not hold so much")
        self.rest.used()
        try:
            position = self.engine.propose(payload)
        except NotLeaderError:
            raise self.not_leader() from None
        except Exception as fault:
            self.fail(fault)
            raise DeadlineError("the outcome of the write is not known") from fault
        self._waiting.add(position, deadline, done)
        self.times.proposed(position.log_index)
        self._schedule_drain()
        return position.log_index

    def linearize(self, done: ReadCallback, *, at_least: LogIndex = LogIndex(0)) -> None:
        """Call `done(None)` once the state store holds everything that was committed before this
        call. It then holds the entry `at_least` too, and a quorum has confirmed that this is all.
        Otherwise `done(error)` is called, without effect."""
        if not self.is_serving:
            done(self.not_leader())
            return
        self.rest.used()
        try:
            ticket = self.engine.read_index()
        except NotLeaderError:
            done(self.not_leader())
            return
        except Exception as fault:
            self.fail(fault)
            done(self.not_leader())
            return
        self._reads.add(ticket, done, at_least)
        self._schedule_drain()

    def campaign(self) -> None:
        """Stand for election at once: for the preferred leader of a new group."""
        self.rest.used()
        self.have(self.engine.campaign)

    def transfer_leadership(self, to: NodeId) -> None:
        """Ask `to` to take over; the caller has stopped proposing."""
        self.rest.used()
        self.have(partial(self.engine.transfer_leadership, to))

    def have(self, done: Callable[[], None]) -> None:
        """Have the engine do something, and carry out what follows upon it."""
        try:
            done()
        except PeerLieError as lie:
            self._log().error("peer_message_refused", cause=str(lie))
            return
        except Exception as fault:
            self.fail(fault)
            return
        self._schedule_drain()

    def refuse_above(self, log_index: LogIndex) -> None:
        """Tell those who wait for entries above `log_index` that these never had an effect."""
        self._waiting.refuse_above(log_index)

    # -- is the state right?

    def when_at(self, log_index: LogIndex, look: Callable[[], None]) -> bool:
        """Run `look` when the state store holds exactly what is applied with `log_index`, at once
        if that is now. It is run instead of what was to be run earlier. False: it holds more
        already."""
        self._watched = None
        if self.applied_index > log_index:
            return False
        if self.applied_index == log_index:
            look()
        else:
            self._watched, self.stirs = (log_index, look), self.stirs + 1
        return True

    def distrust(self) -> None:
        """Take no further part until a snapshot has replaced the state; see RaftGroup."""
        self.rest.used()
        self.have(self.engine.distrust)

    # -- what comes out

    def drain_now(self) -> None:
        """Carry out what is due, before the group is frozen."""
        self._drain()

    def _schedule_drain(self) -> None:
        self.stirs += 1
        if not self._drain_scheduled:
            self._drain_scheduled = True
            self._services.turns.soon(self._drain)

    def _drain(self) -> None:
        """Carry out what the engine wants done, messages first (raft/gate.py), without a wait."""
        self._drain_scheduled = False
        if self.stopped:
            return
        services = self._services
        group_id = self.group_id
        try:
            if self._durable_number:
                number, self._durable_number = self._durable_number, 0
                self.engine.step(Durable(number))
            has_more, says_something = True, False
            while has_more and (ready := self.engine.ready()) is not None:
                has_more = ready.has_more
                for peer, message in ready.messages:
                    services.peers.send(peer, group_id, message)
                    self.times.sent(peer, message)
                says_something |= bool(ready.messages)
                if ready.log_ops:
                    waits = False
                    for op in ready.log_ops:
                        if isinstance(op, SetHardState):
                            self.voted_for = op.voted_for
                        waits |= not isinstance(op, SetCommit | TrimPrefix)
                    told = partial(self._durable, ready.number, self.times.newest)
                    with OF_THE_LOG:
                        services.wal.append(group_id, ready.log_ops, told if waits else None)
                self.times.committed(ready.committed, self.engine.role)
                self._to_apply.extend(ready.committed)
                if self.parked:
                    self.parked_bytes += _payload_bytes(ready.committed)
                for state in ready.read_states:
                    found = self._reads.confirmed(state.ticket, state.read_index)
                    if state.read_index is None:
                        self.times.read_unconfirmed(found)
                for peer in ready.snapshot_wanted:
                    self._on_snapshot_wanted(peer)
            self._note_leadership()
        except Exception as fault:
            self.fail(fault)
            return
        if self.seam.is_ending:
            return
        if says_something and self._to_apply and self.engine.role is not Role.LEADER:
            self._services.turns.soon(self._apply)  # what it says leaves first; nobody waits for it
            return
        self._apply()

    def _durable(self, ready_number: int, newest: EntryTimes | None) -> None:
        """A sync covers this, and all before it: the engine hears of it in this group's turn."""
        self.times.durable(newest)
        self._durable_number = ready_number
        self._schedule_drain()

    def _apply(self) -> None:
        if self._stall_timer is not None or self.is_held:
            return
        try:
            self._apply_some()
        except UnknownEntryError as unknown:
            self._park(unknown)
        except Exception as fault:
            # a replica that can apply no further must not go on as if it were only slow
            self.fail(fault)
        self.seam.look_for_end()

    def _park(self, unknown: UnknownEntryError) -> None:
        """Stop before the next entry, which only a newer release can apply. What is decided by the
        others is still logged, acknowledged and voted on here, because that needs no knowledge."""
        self.parked = f"entry {self._to_apply[0].log_index}: {unknown}"
        self.parked_bytes = _payload_bytes(self._to_apply)
        self._log().error(
            "replica_parked",
            log_index=self._to_apply[0].log_index,
            reason=str(unknown),
            remedy="run a newer release on this node: it goes on from here; nothing is lost",
        )
        try:
            self.engine.abstain()
            self._reads.refuse_confirmed()
            self._on_leadership()
        except Exception as fault:
            self.fail(fault)
            return
        self._schedule_drain()

    def attempt(self, work: Callable[[], None]) -> None:
        """Do something of this group's: an exception stops the group, and nobody else."""
        if self.stopped:
            return
        try:
            work()
        except Exception as fault:
            self.fail(fault)

    def _apply_some(self) -> None:
        while self._to_apply:
            entry = self._to_apply[0]
            plan = self._plan_some(entry)
            if plan is None:
                self._schedule_drain()
                break
            write_set = plan.write_set.prefixed(self._prefix)
            write_set.origin = self._services.wal.origin_of(self.group_id, entry)
            try:
                with OF_THE_STORE:
                    self._services.store.write(write_set)
            except StoreStalledError:
                self._stall_timer = self._services.loop.call_later(
                    STALL_RETRY_SECONDS, self._stall_is_over
                )
                break
            self.machine.commit(plan)
            self.times.applied()
            self.comparison.applied()
            self._plan = None
            self._to_apply.popleft()
            if self._watched is not None and self._watched[0] <= entry.log_index:
                (_, look), self._watched = self._watched, None
                look()
            if self.is_serving and not self._seen_serving:
                # before anybody may propose: what was assumed so far is dropped now
                self._seen_serving = True
                self._on_leadership()
            for done in self._waiting.applied(entry, self.times.lost):
                self.commands_applied_as_leader += len(plan.outcomes)
                self._services.turns.spend(len(plan.outcomes))
                done(plan, None)
            self._on_applied(plan)
        self._reads.applied()

    def _plan_some(self, entry: LogEntry) -> Plan_co | None:
        """Work out what the entry does, as far as this turn reaches; None: it goes on in another.
        The state is what it was meanwhile: only what is applied here changes it."""
        turns = self._services.turns
        if self._plan is not None or turns.left <= 0:
            return self._plan
        if self._planning is None:
            self.times.apply_begins()
            self._planning = self.machine.plan(entry)
            turns.spend(1 + len(entry.payload) // COMMAND_BYTES)
        try:
            while True:
                turns.spend(next(self._planning))
                if turns.left <= 0:
                    return None
        except StopIteration as done:
            self._planning, self._plan = None, done.value
        return self._plan

    def _stall_is_over(self) -> None:
        self._stall_timer = None
        self._schedule_drain()

    def _note_leadership(self) -> None:
        now = (self.engine.role, self.engine.term)
        if now == self._seen:
            return
        was_leader = self._seen[0] is Role.LEADER
        self.times.role_changed(self._seen[0], now[0])
        self._seen, self._seen_serving = now, False
        if was_leader or now[0] is Role.LEADER:
            self.leader_changes += 1
            self._services.leadership.changed(self.group_id, *now, self.engine.leader)
            if was_leader:
                # reads that wait for an entry of the lost term may wait for ever
                self._reads.refuse_confirmed()
            self._on_leadership()

    def sweep(self, now: float) -> None:
        """End the waiters whose deadline is over; called with every tick. `now` is monotonic."""
        self._waiting.sweep(now)

    def fail(self, fault: BaseException) -> None:
        """Stop, for good as far as this process goes: what is half done can only be built again
        from the log."""
        if not self.stopped:
            self.fault = f"{type(fault).__name__}: {fault}"
            self.stop()
            # nothing is applied any more: the log on the disk has it all for the next start
            self._to_apply.clear()
            self._planning = self._plan = None
            self.parked_bytes = 0
            self.engine.release()
            self._on_fault(fault)

    def stop(self) -> None:
        """Take no further event and answer everyone who waits. What was proposed may still be
        committed by the other replicas: its outcome is unknown."""
        self.stopped = True
        self.rest.end(tells=bool(self.fault))
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        self._waiting.stop()
        self._reads.stop()


def _payload_bytes(entries: Iterable[LogEntry]) -> int:
    return sum(len(entry.payload) for entry in entries)


def _nobody(reason: str) -> None:
    """Nobody is told."""


AnyGroup = GroupReplica[EntryPlan[object]]
"""A group of whichever kind."""
