"""The leader's queue: requests become commands, commands become entries, outcomes go back.

Batching happens where work queues up: while the entries in flight are being synced, the next entry
fills. Never by a timer. Whatever the sequencer refuses is answered only once the state it was
judged by is known to be committed and still this leader's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from svc_cluster.base.errors import HotServerError, InvalidError, ServiceError, UnavailableError
from svc_cluster.base.ids import LogIndex, Term, TimestampMs
from svc_cluster.base.log import get_logger
from svc_cluster.raft.group import ENTRY_BYTES_MAX
from svc_cluster.replica.entry_draft import EntryDraft, Joiner
from svc_cluster.replica.group_replica import GroupReplica
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.group_watch import EntryTimes
from svc_cluster.replica.kept_entries import KeptEntries
from svc_cluster.replica.machine import EntryPlan
from svc_cluster.replica.node_traces import NodeTraces
from svc_cluster.replica.proposal import Proposal, take_time, tell, undecided

log = get_logger("proposer")

ENTRY_BYTES_TARGET: Final = 1_500_000
"""An entry is closed once it has this many bytes, encoded. The bound that nothing goes over is
the engine's (ENTRY_BYTES_MAX): a command that would is the first of the next entry, and one that
does by itself is refused."""

ENTRY_COMMANDS_MAX: Final = 512

PIPELINE_BYTES: Final = 256 * 1024
"""A further entry joins those in flight only when this much waits for it (or as many commands as
an entry holds): each entry costs every replica about the same, however little is in it."""

QUEUE_BYTES_MAX: Final = 64 * 1024 * 1024
QUEUE_REQUESTS_MAX: Final = 20_000

REFUSED_PER_SWEEP: Final = 512
"""Requests whose deadline is over that are told so in one turn of the event loop."""

Command = TypeVar("Command")
Outcome = TypeVar("Outcome")


class CommandSequencer(Protocol):
    """What a proposer needs of a sequencer."""

    def begin(self) -> None: ...

    def undo(self) -> None: ...

    def proposed(self, log_index: LogIndex) -> None: ...

    def applied(self, log_index: LogIndex) -> None: ...

    def reset(self) -> None: ...


Draft = EntryDraft[Command, Outcome, Proposal[Command, Outcome]]


class Proposer(Generic[Command, Outcome]):
    """One for each group on each node; it does something only while the group leads."""

    def __init__(
        self,
        *,
        group: GroupReplica[EntryPlan[Outcome]],
        services: GroupServices,
        sequencer: CommandSequencer,
        encode: Callable[[Command], bytes],
        join: Callable[[Sequence[bytes]], bytes],
        entries_in_flight_max: int,
        commands_per_entry_max: int = ENTRY_COMMANDS_MAX,
        kept: KeptEntries[Command] | None = None,
        joiner: Joiner[Command, Outcome] | None = None,
    ) -> None:
        """What it proposes it puts into `kept`, from where whoever applies it takes it. `joiner`:
        None: each request has a command of its own."""
        self._group = group
        self._services = services
        self._sequencer = sequencer
        self._encode = encode
        self._join = join
        self._header_bytes = len(join(()))
        self._entries_max = entries_in_flight_max
        self._commands_max = commands_per_entry_max
        self._kept = kept
        self._joiner = joiner
        self._queue: deque[Proposal[Command, Outcome]] = deque()
        self._queued_bytes = 0
        self._in_flight = 0
        self._joined: dict[LogIndex, int] = {}
        """By entry on its way: how many requests it has beyond its commands."""
        self._last_proposed = LogIndex(0)
        self._pump_scheduled = False
        self._serving = False
        self._pauses = 0

    @property
    def paused(self) -> bool:
        """Whether leadership is being handed over: requests wait, nothing is proposed."""
        return self._pauses > 0

    @property
    def is_idle(self) -> bool:
        """Nothing waits to be proposed, or is on its way."""
        return not (self._queue or self._in_flight or self.paused)

    def submit(self, proposal: Proposal[Command, Outcome]) -> None:
        """Queue a request; its `done` is always called, later or at once."""
        if not self._queue and not self._group.is_serving and not self._will_serve():
            proposal.done(None, self._group.not_leader())
            return
        if (
            self._queued_bytes + proposal.size > QUEUE_BYTES_MAX
            or len(self._queue) >= QUEUE_REQUESTS_MAX
        ):
            proposal.done(None, HotServerError("too many writes are waiting for this basin"))
            return
        proposal.queued_at = self._services.clock.monotonic()
        self._queue.append(proposal)
        self._queued_bytes += proposal.size
        self._pump_soon()

    def _will_serve(self) -> bool:
        """Leads, but is still applying what earlier leaders left."""
        engine = self._group.engine
        return not self._group.is_held and engine.leader == engine.node_id

    def _pump_once(self) -> None:
        self._pump_scheduled = False
        self._group.attempt(self.pump)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Nothing is proposed within. Who pauses as well ends its own pause alone."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            self.pump()

    def leadership_changed(self) -> None:
        """Drop what was assumed; answer what was never proposed."""
        if self._kept is not None:
            self._kept.clear()
        self._sequencer.reset()
        self._in_flight = 0
        self._joined.clear()
        self._last_proposed = LogIndex(0)
        # only from here on: a proposal made before the reset would be forgotten by the sequencer
        self._serving = self._group.is_serving
        if not self._will_serve():
            self.refuse_all()
        self.pump()

    def refuse_all(self) -> None:
        """Answer what was never proposed: it has no effect."""
        queue, self._queue = self._queue, deque()
        self._queued_bytes = 0
        for proposal in queue:
            tell(proposal, None, self._group.not_leader())

    def pump(self) -> None:
        """Make an entry of what waits, if the entries in flight allow it; the next one in a turn of
        its own."""
        if self._can_propose():
            self._propose_next()
            if self._can_propose():
                self._pump_soon()

    def _pump_soon(self) -> None:
        if not self._pump_scheduled:
            self._pump_scheduled = True
            self._services.turns.soon(self._pump_once)

    def _can_propose(self) -> bool:
        return (
            bool(self._queue)
            and not self.paused
            and self._may_propose()
            and self._serving
            and self._group.is_serving
        )

    def _may_propose(self) -> bool:
        if self._in_flight == 0:
            return True
        full = self._queued_bytes >= PIPELINE_BYTES or len(self._queue) >= self._commands_max
        return full and self._in_flight < self._entries_max

    def _propose_next(self) -> None:
        draft: Draft[Command, Outcome] = EntryDraft(self._header_bytes)
        refused: list[tuple[Proposal[Command, Outcome], ServiceError | None]] = []
        now_ms = self._services.clock.wall_ms()
        now = self._services.clock.monotonic()
        queue = self._queue
        while queue and len(draft.taken) < self._commands_max:
            proposal = queue[0]
            if draft.commands and draft.size + proposal.size > ENTRY_BYTES_TARGET:
                break
            queue.popleft()
            self._queued_bytes -= proposal.size
            if proposal.deadline < now:
                tell(proposal, None, UnavailableError("the write waited too long to be proposed"))
                continue
            if self._joins(proposal, now_ms):
                draft.share(proposal, proposal.size)
                self._note_taken(proposal, now)
                continue
            self._end_run(draft)
            try:
                decided = self._sequence(proposal, now_ms)
            except ServiceError as refusal:
                refused.append((proposal, refusal))
                continue
            if decided is None:
                refused.append((proposal, None))
                continue
            if draft.size + len(decided[1]) > ENTRY_BYTES_MAX:
                # more than its request promised: it is decided again, as the first of the next
                self._sequencer.undo()
                queue.appendleft(proposal)
                self._queued_bytes += proposal.size
                break
            self._note_taken(proposal, now)
            draft.add(*decided, proposal)
            if self._joiner is not None and proposal.append is not None:
                self._joiner.began(proposal.append, decided[0])
        self._end_run(draft)
        self._services.turns.spend(len(draft.taken) + len(refused))
        if draft.commands:
            self._propose(draft)
        for proposal, refusal_or_none in refused:
            self._answer_unproposed(proposal, refusal_or_none)

    def _note_taken(self, proposal: Proposal[Command, Outcome], now: float) -> None:
        self._services.figures.on_queued(now - proposal.queued_at)
        if proposal.stages is not None:
            proposal.stages.queue = now - proposal.queued_at

    def _joins(self, proposal: Proposal[Command, Outcome], now_ms: TimestampMs) -> bool:
        """Whether the request shares the last command. If it does not, it has left no trace."""
        joiner, append = self._joiner, proposal.append
        return joiner is not None and append is not None and joiner.join(append, now_ms)

    def _end_run(self, draft: Draft[Command, Outcome]) -> None:
        """Make one command of the requests that share one."""
        if self._joiner is None:
            return
        try:
            whole = self._joiner.end()
            if whole is not None:
                command, own = whole
                draft.replace_last(command, self._encoded(command), own)
        except Exception as fault:  # it harms those that have joined, and no other of the entry
            self._sequencer.undo()
            log.error("appends_not_joined", exc_info=fault)
            for proposal in draft.drop_joined():
                tell(proposal, None, undecided())

    def _sequence(
        self, proposal: Proposal[Command, Outcome], now_ms: TimestampMs
    ) -> tuple[Command, bytes] | None:
        """The proposal's command, and encoded; None when nothing has to change. Whatever it raises
        instead, nothing of it is left in what the proposals behind it are judged by."""
        self._sequencer.begin()
        try:
            command = proposal.sequence(now_ms)
            return None if command is None else (command, self._encoded(command))
        except ServiceError:
            self._sequencer.undo()
            raise
        except Exception as fault:  # it harms this proposal, and no other of the entry
            self._sequencer.undo()
            log.error("proposal_failed", exc_info=fault)
            raise undecided() from fault

    def _encoded(self, command: Command) -> bytes:
        """Raises InvalidError for a command that no entry holds."""
        encoded = self._encode(command)
        if self._header_bytes + len(encoded) > ENTRY_BYTES_MAX:
            raise InvalidError(f"a write of {len(encoded)} bytes does not fit into an entry")
        return encoded

    def _propose(self, draft: Draft[Command, Outcome]) -> None:
        taken = draft.taken
        term = self._group.engine.term
        times: EntryTimes | None = None

        def done(plan: EntryPlan[Outcome] | None, error: ServiceError | None) -> None:
            if self._group.engine.term == term and self._in_flight > 0:
                self._in_flight -= 1
            if plan is None:
                for proposal in taken:
                    tell(proposal, None, error)
            elif len(plan.outcomes) != len(draft.commands):
                # an entry of ours that apply could not read: rejected as a whole
                for proposal in taken:
                    tell(proposal, None, UnavailableError("the entry was rejected"))
            else:
                if times is not None:
                    take_time(taken, times, self._services.clock.monotonic())
                for proposal, outcome in draft.told(plan.outcomes, self._joiner):
                    tell(proposal, outcome, None)

        deadline = max(proposal.deadline for proposal in taken)
        try:
            entry = self._join(draft.encoded)
        except Exception as fault:  # nothing is in the log, so it harms this entry alone
            log.error("entry_not_made", exc_info=fault)
            self._not_proposed(taken, undecided())
            return
        try:
            log_index = self._group.propose(entry, deadline, done)
        except ServiceError as error:
            self._not_proposed(taken, error)
            return
        times = self._group.times.newest
        self._in_flight += 1
        self._last_proposed = log_index
        self._sequencer.proposed(log_index)
        self._joined[log_index] = sum([each.requests for each in taken]) - len(draft.commands)
        if self._kept is not None:
            self._kept.keep(log_index, term, draft.commands)
        # behind all that has to hold together: a fault of the telling spoils nothing but itself
        if self._services.traces is not None:
            self._tell_followers(self._services.traces, term, log_index, taken)

    def _not_proposed(self, taken: list[Proposal[Command, Outcome]], error: ServiceError) -> None:
        self._sequencer.reset()
        for proposal in taken:
            tell(proposal, None, error)

    def _tell_followers(
        self,
        traces: NodeTraces,
        term: Term,
        log_index: LogIndex,
        taken: list[Proposal[Command, Outcome]],
    ) -> None:
        peers, group_id = self._services.peers, self._group.group_id
        traces.proposed(
            term,
            log_index,
            (proposal.stages for proposal in taken),
            self._group.engine.members,
            lambda peer, told: peers.send(peer, group_id, told),
        )

    def _answer_unproposed(
        self, proposal: Proposal[Command, Outcome], refusal: ServiceError | None
    ) -> None:
        """The verdict came from speculative state. It may be told only once that state is known to
        be committed, by a leader that a quorum still confirms."""

        def confirmed(lost: ServiceError | None) -> None:
            tell(proposal, None, refusal if lost is None else lost)

        self._group.linearize(confirmed, at_least=self._last_proposed)

    def sweep(self, now: float) -> None:
        """Refuse what waited in the queue beyond its deadline. `now` is monotonic seconds. At most
        REFUSED_PER_SWEEP are told at once, the others at the next sweeps."""
        are_late = (proposal for proposal in self._queue if proposal.deadline < now)
        late = list(islice(are_late, REFUSED_PER_SWEEP))
        if not late:
            return
        gone = {id(one) for one in late}
        self._queue = deque(one for one in self._queue if id(one) not in gone)
        for proposal in late:
            self._queued_bytes -= proposal.size
        for proposal in late:
            tell(proposal, None, UnavailableError("the write waited too long to be proposed"))

    def joined(self, log_index: LogIndex) -> int:
        """How many requests of the entry, which is being applied, joined another one's command."""
        return self._joined.get(log_index, 0)

    def applied(self, log_index: LogIndex) -> None:
        """The state store has taken over `log_index`."""
        self._sequencer.applied(log_index)
        self._joined.pop(log_index, None)
        if self._services.turns.left > 0:
            self.pump()
        else:
            self._pump_soon()
