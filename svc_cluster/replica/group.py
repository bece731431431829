"""One replica of one group: carries out what the engine decides.

The order of effects is the durability argument and lives in `_drain`: log operations go to the WAL
without waiting; messages that depend on the disk were held back inside the engine until `Durable`;
only entries that are committed and durable here reach the state machine. Nothing here awaits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import DeadlineError, ServiceError, UnavailableError
from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, Term
from svc_cluster.base.log import Logger
from svc_cluster.base.log_ops import LogEntry, SetCommit, SetHardState, TrimPrefix
from svc_cluster.codec.entry_version import UnknownEntryError
from svc_cluster.codec.rpc import NotLeaderHereError
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.group import Durable, Event, NotLeaderError, PeerLieError, ReadTicket, Role
from svc_cluster.raft.messages import MarkKind, PeerMessage, StateMark
from svc_cluster.replica.faults import of_the_node
from svc_cluster.replica.machine import StateMachine
from svc_cluster.replica.retention_clock import PeerClocks
from svc_cluster.replica.state_marks import Outgoing, StateMarks
from svc_cluster.storage.state_store import StateStore, StoreStalledError
from svc_cluster.storage.wal.writer import Wal

STALL_RETRY_SECONDS: Final = 0.01
"""How long apply backs off when the store cannot take a write."""

APPLY_ENTRIES_PER_TURN: Final = 64
"""Entries applied before the event loop gets a turn: a long backlog must not silence heartbeats."""

OutcomeCallback = Callable[[list[Any] | None, ServiceError | None], None]
"""Called once: with the outcomes of the entry's commands, or with what is known of its loss."""

ReadCallback = Callable[[ServiceError | None], None]


class PeerSender(Protocol):
    """The way to the other nodes."""

    def send(self, peer: NodeId, group_id: GroupId, message: PeerMessage) -> None: ...

    def has_room(self, peer: NodeId) -> bool:
        """Whether entries of any group may be handed over for this peer at present."""
        ...

    @property
    def held_bytes(self) -> int:
        """About how much of all groups is on its way to peers that have not dealt with it."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """What every group of a node shares."""

    node_id: NodeId
    loop: asyncio.AbstractEventLoop
    clock: Clock
    wal: Wal
    store: StateStore
    peers: PeerSender
    log: Logger
    peer_clocks: PeerClocks = field(default_factory=PeerClocks)
    scrub_version: int = 0
    """Of the scrub that this node takes part in; 0: in none."""


@dataclass(slots=True)
class _Waiter:
    term: Term
    deadline: float
    done: OutcomeCallback


class GroupReplica:
    """Owner of one engine and one state machine. Every method runs on the event loop."""

    def __init__(
        self,
        *,
        engine: EngineGroup,
        machine: StateMachine,
        generation: Generation,
        services: Services,
        on_applied: Callable[[Any], None],
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
        self._plan: Any = None
        self._waiters: dict[LogIndex, list[_Waiter]] = {}
        self._reads: dict[ReadTicket, list[ReadCallback]] = {}
        self._applied_reads: list[tuple[LogIndex, ReadCallback]] = []
        self._drain_scheduled = False
        self._apply_timer: asyncio.Handle | None = None
        self._seen = (engine.role, engine.term)
        self._seen_serving = False
        self.voted_for: NodeId | None = None
        self.on_diverged: Callable[[str], None] = _nobody
        """Told, with the reason, that the state here is not what was agreed."""
        self._marks = StateMarks(engine.node_id, engine.members, machine.known.encoding)
        # in a quiet group nothing else is applied for long, and it is asked for this
        self._marks.applied(machine.applied_index, machine.digest)
        self.scrub_versions: dict[NodeId, tuple[int, int]] = {}
        """Version of the scrub and encoding that other replicas have said."""
        self._watched: tuple[LogIndex, Callable[[], None]] | None = None
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
        return len(self._waiters)

    @property
    def is_held(self) -> bool:
        """Takes no requests until the process is started again."""
        return self.stopped or bool(self.parked)

    @property
    def is_given_up(self) -> bool:
        """The state here is not to be told any more: it is to be repaired, or another replica of
        this node is in its place, or none."""
        return self.stopped or bool(self.engine.recovery)

    def not_leader(self) -> ServiceError:
        """The refusal of a replica that does not serve: who leads, or why nobody does here."""
        leader = self.engine.leader
        if leader == self.engine.node_id:
            leader = None
        if self.fault:
            return UnavailableError("a replica of the group has stopped after a fault")
        if self.parked and leader is None:
            return UnavailableError(f"a replica of the group is parked before {self.parked}")
        return NotLeaderHereError(leader)

    # -- what goes in

    def step(self, event: Event) -> None:
        if self.stopped:
            return
        try:
            self.engine.step(event)
        except PeerLieError as lie:
            self._services.log.error("peer_message_refused", group=self.group_id, cause=str(lie))
            return
        except Exception as fault:
            self.fail(fault)
            return
        self._schedule_drain()

    def propose(self, payload: bytes, deadline: float, done: OutcomeCallback) -> LogIndex:
        """Put an entry into the leader's log. `deadline` is monotonic seconds; behind it the
        outcome is unknown. Raises NotLeaderHereError or UnavailableError, without effect."""
        if self.is_held:
            raise self.not_leader()
        try:
            position = self.engine.propose(payload)
        except NotLeaderError:
            raise self.not_leader() from None
        except Exception as fault:
            self.fail(fault)
            raise DeadlineError("the outcome of the write is not known") from fault
        waiter = _Waiter(position.term, deadline, done)
        self._waiters.setdefault(position.log_index, []).append(waiter)
        self._schedule_drain()
        return position.log_index

    def linearize(self, done: ReadCallback, *, at_least: LogIndex = LogIndex(0)) -> None:
        """Call `done(None)` once the state store holds everything that was committed before this
        call (and the entry `at_least`), confirmed by a quorum; or `done(error)`, without effect."""
        if not self.is_serving:
            done(self.not_leader())
            return
        try:
            ticket = self.engine.read_index()
        except NotLeaderError:
            done(self.not_leader())
            return
        except Exception as fault:
            self.fail(fault)
            done(self.not_leader())
            return
        if at_least > self.applied_index:
            inner = done

            def wait_for_entry(error: ServiceError | None) -> None:
                if error is not None:
                    inner(error)
                else:
                    self._when_applied(at_least, inner)

            done = wait_for_entry
        self._reads.setdefault(ticket, []).append(done)
        self._schedule_drain()

    def campaign(self) -> None:
        """Stand for election at once: for the preferred leader of a new group."""
        try:
            self.engine.campaign()
        except Exception as fault:
            self.fail(fault)
            return
        self._schedule_drain()

    def transfer_leadership(self, to: NodeId) -> None:
        """Ask `to` to take over; the caller has stopped proposing."""
        try:
            self.engine.transfer_leadership(to)
        except Exception as fault:
            self.fail(fault)
            return
        self._schedule_drain()

    # -- is the state right?

    def compare_states(self) -> bool:
        """As leader, ask the others for their state's digest at the index applied here; called now
        and then. Returns whether the last round ended in doubt: no quorum has one state."""
        if not self.is_serving or len(self.engine.members) == 1:
            return False
        in_doubt = self._marks.undecided
        term = self.engine.term
        self._send_marks(self._marks.ask(term, self.applied_index, self.machine.digest))
        return in_doubt

    def state_mark(self, sender: NodeId, mark: StateMark) -> None:
        """Another replica asks for, or tells, a digest."""
        engine = self.engine
        if self.stopped or engine.recovery or mark.sender_term != engine.term:
            return
        expected = self.is_serving if mark.kind is MarkKind.ANSWER else sender == engine.leader
        if not expected:
            return
        self.scrub_versions[sender] = (mark.scrub, mark.encoding)
        self._send_marks(self._marks.received(sender, mark))
        if self._marks.diverged:
            self.on_diverged("a quorum has another state")

    def _send_marks(self, marks: Outgoing) -> None:
        for peer, mark in marks:
            said = replace(mark, scrub=self._services.scrub_version)
            self._services.peers.send(peer, self.group_id, said)

    def when_at(self, log_index: LogIndex, look: Callable[[], None]) -> bool:
        """Run `look` when the state store holds exactly what is applied with `log_index`, at once
        if that is now; instead of what was to be run earlier. False: it holds more already."""
        self._watched = None
        if self.applied_index > log_index:
            return False
        if self.applied_index == log_index:
            look()
        else:
            self._watched = (log_index, look)
        return True

    def distrust(self) -> None:
        """Take no further part until a snapshot has replaced the state; see EngineGroup."""
        try:
            self.engine.distrust()
        except Exception as fault:
            self.fail(fault)
            return
        self._schedule_drain()

    # -- what comes out

    def drain_now(self) -> None:
        """Carry out what is due, before the group is frozen."""
        self._drain()

    def _schedule_drain(self) -> None:
        if not self._drain_scheduled:
            self._drain_scheduled = True
            self._services.loop.call_soon(self._drain)

    def _drain(self) -> None:
        """Carry out everything the engine wants done. Never waits for the disk: durability comes
        back as an event."""
        self._drain_scheduled = False
        if self.stopped:
            return
        services = self._services
        group_id = self.group_id
        try:
            while (ready := self.engine.ready()) is not None:
                if ready.log_ops:
                    waits = False
                    for op in ready.log_ops:
                        if isinstance(op, SetHardState):
                            self.voted_for = op.voted_for
                        waits |= not isinstance(op, SetCommit | TrimPrefix)
                    durable = partial(self._durable, ready.number) if waits else None
                    with of_the_node("the write-ahead log"):
                        services.wal.append(group_id, ready.log_ops, durable)
                for peer, message in ready.messages:
                    services.peers.send(peer, group_id, message)
                self._to_apply.extend(ready.committed)
                if self.parked:
                    self.parked_bytes += _payload_bytes(ready.committed)
                for state in ready.read_states:
                    self._read_state(state.ticket, state.read_index)
                for peer in ready.snapshot_wanted:
                    self._on_snapshot_wanted(peer)
            self._note_leadership()
        except Exception as fault:
            self.fail(fault)
            return
        self._apply()

    def _durable(self, ready_number: int) -> None:
        self.step(Durable(ready_number))

    def _apply(self) -> None:
        if self._apply_timer is not None or self.is_held:
            return
        try:
            self._apply_some()
        except UnknownEntryError as unknown:
            self._park(unknown)
        except Exception as fault:
            # a replica that can apply no further must not go on as if it were only slow
            self.fail(fault)

    def _park(self, unknown: UnknownEntryError) -> None:
        """Stop before the next entry, which only a newer release can apply. What is decided by the
        others is still logged, acknowledged and voted on here, because that needs no knowledge."""
        self.parked = f"entry {self._to_apply[0].log_index}: {unknown}"
        self.parked_bytes = _payload_bytes(self._to_apply)
        self._services.log.error(
            "replica_parked",
            group=self.group_id,
            log_index=self._to_apply[0].log_index,
            reason=str(unknown),
            remedy="run a newer release on this node: it goes on from here; nothing is lost",
        )
        try:
            self.engine.abstain()
            self._refuse_applied_reads()
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
        for _ in range(APPLY_ENTRIES_PER_TURN):
            if not self._to_apply:
                break
            entry = self._to_apply[0]
            plan = self._plan if self._plan is not None else self.machine.plan(entry)
            self._plan = plan
            try:
                with of_the_node("the state store"):
                    self._services.store.write(plan.write_set.prefixed(self._prefix))
            except StoreStalledError:
                self._apply_timer = self._services.loop.call_later(
                    STALL_RETRY_SECONDS, self._apply_again
                )
                break
            self.machine.commit(plan)
            self._send_marks(self._marks.applied(self.applied_index, self.machine.digest))
            self._plan = None
            self._to_apply.popleft()
            if self._watched is not None and self._watched[0] <= entry.log_index:
                (_, look), self._watched = self._watched, None
                look()
            if self.is_serving and not self._seen_serving:
                # before anybody may propose: what was assumed so far is dropped now
                self._seen_serving = True
                self._on_leadership()
            self._settle(entry, plan)
            self._on_applied(plan)
        else:
            if self._to_apply:
                self._apply_timer = self._services.loop.call_soon(self._apply_again)
        self._settle_reads()

    def _apply_again(self) -> None:
        self._apply_timer = None
        self._apply()

    def _settle(self, entry: LogEntry, plan: Any) -> None:
        for waiter in self._waiters.pop(entry.log_index, ()):
            if waiter.term == entry.term:
                self.commands_applied_as_leader += len(plan.outcomes)
                waiter.done(plan.outcomes, None)
            else:
                waiter.done(None, UnavailableError("another leader's entry took the place"))

    def _read_state(self, ticket: ReadTicket, read_index: LogIndex | None) -> None:
        for done in self._reads.pop(ticket, ()):
            if read_index is None:
                done(self.not_leader())
            else:
                self._when_applied(read_index, done)

    def _when_applied(self, log_index: LogIndex, done: ReadCallback) -> None:
        if self.applied_index >= log_index:
            done(None)
        else:
            self._applied_reads.append((log_index, done))

    def _settle_reads(self) -> None:
        if not self._applied_reads:
            return
        applied = self.applied_index
        waiting, self._applied_reads = self._applied_reads, []
        for log_index, done in waiting:
            if log_index <= applied:
                done(None)
            else:
                self._applied_reads.append((log_index, done))

    def _note_leadership(self) -> None:
        now = (self.engine.role, self.engine.term)
        if now == self._seen:
            return
        was_leader = self._seen[0] is Role.LEADER
        self._seen = now
        self._seen_serving = False
        if was_leader or now[0] is Role.LEADER:
            self.leader_changes += 1
            self._services.log.info(
                "leadership_changed",
                group=self.group_id,
                role=now[0].value,
                term=now[1],
                leader=self.engine.leader,
            )
            if was_leader:
                # reads that wait for an entry of the lost term may wait for ever
                self._refuse_applied_reads()
            self._on_leadership()

    def _refuse_applied_reads(self) -> None:
        waiting, self._applied_reads = self._applied_reads, []
        for _, done in waiting:
            done(self.not_leader())

    def sweep(self, now: float) -> None:
        """End the waiters whose deadline is over; called with every tick. `now` is monotonic."""
        expired: list[LogIndex] = []
        for log_index, waiters in self._waiters.items():
            if waiters[-1].deadline > now:
                break
            expired.append(log_index)
        for log_index in expired:
            for waiter in self._waiters.pop(log_index):
                waiter.done(None, DeadlineError("not known to be committed by the deadline"))

    def fail(self, fault: BaseException) -> None:
        """Stop, for good as far as this process goes: what is half done can only be built again
        from the log."""
        if not self.stopped:
            self.fault = f"{type(fault).__name__}: {fault}"
            self.stop()
            # nothing is applied any more: the log on the disk has it all for the next start
            self._to_apply.clear()
            self._plan = None
            self.parked_bytes = 0
            self.engine.release()
            self._on_fault(fault)

    def stop(self) -> None:
        """Take no further event and answer everyone who waits. What was proposed may still be
        committed by the other replicas: its outcome is unknown."""
        self.stopped = True
        if self._apply_timer is not None:
            self._apply_timer.cancel()
            self._apply_timer = None
        waiters, self._waiters = self._waiters, {}
        for group in waiters.values():
            for waiter in group:
                waiter.done(None, DeadlineError("the replica stopped before the outcome"))
        gone = self.not_leader()
        reads, self._reads = self._reads, {}
        for callbacks in reads.values():
            for done in callbacks:
                done(gone)
        applied_reads, self._applied_reads = self._applied_reads, []
        for _, done in applied_reads:
            done(gone)


def _payload_bytes(entries: Iterable[LogEntry]) -> int:
    return sum(len(entry.payload) for entry in entries)


def _nobody(reason: str) -> None:
    """Nobody is told."""
