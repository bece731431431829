"""The leader's queue: requests become commands, commands become entries, outcomes go back.

Batching happens where work queues up: while the entries in flight are being synced, the next entry
fills. Never by a timer. Whatever the sequencer refuses is answered only once the state it was
judged by is known to be committed and still this leader's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from svc_cluster.base.errors import HotServerError, InternalError, ServiceError, UnavailableError
from svc_cluster.base.ids import LogIndex, TimestampMs
from svc_cluster.base.log import get_logger
from svc_cluster.replica.group import GroupReplica, Services

log = get_logger("proposer")

ENTRY_BYTES_TARGET: Final = 1_500_000
"""An entry is closed once it has this many record bytes; with one more legal batch (1 MiB metered,
little more encoded) it stays below the engine's bound unless it holds a single batch."""

ENTRY_COMMANDS_MAX: Final = 512

PIPELINE_BYTES: Final = 256 * 1024
"""A further entry joins those in flight only when this much waits for it (or as many commands as
an entry holds): each entry costs every replica about the same, however little is in it."""

QUEUE_BYTES_MAX: Final = 64 * 1024 * 1024
QUEUE_REQUESTS_MAX: Final = 20_000

ResultCallback = Callable[[Any, ServiceError | None], None]
"""Called once with the command's outcome (None: nothing had to change), or with a refusal."""


class CommandSequencer(Protocol):
    """What a proposer needs of a sequencer."""

    def begin(self) -> None: ...

    def undo(self) -> None: ...

    def proposed(self, log_index: LogIndex) -> None: ...

    def applied(self, log_index: LogIndex) -> None: ...

    def reset(self) -> None: ...


@dataclass(slots=True)
class Proposal:
    """One request in the queue. `sequence(now_ms)` returns a command, or None when nothing has to
    change, or raises a ServiceError."""

    sequence: Callable[[TimestampMs], Any]
    size: int
    deadline: float
    done: ResultCallback


class Proposer:
    """One for each group on each node; it does something only while the group leads."""

    def __init__(
        self,
        *,
        group: GroupReplica,
        services: Services,
        sequencer: CommandSequencer,
        encode: Callable[[Any], bytes],
        join: Callable[[Sequence[bytes]], bytes],
        entries_in_flight_max: int,
        commands_per_entry_max: int = ENTRY_COMMANDS_MAX,
    ) -> None:
        self._group = group
        self._services = services
        self._sequencer = sequencer
        self._encode = encode
        self._join = join
        self._entries_max = entries_in_flight_max
        self._commands_max = commands_per_entry_max
        self._queue: deque[Proposal] = deque()
        self._queued_bytes = 0
        self._in_flight = 0
        self._last_proposed = LogIndex(0)
        self._pump_scheduled = False
        self._serving = False
        self.paused = False
        """Set while leadership is being handed over: requests wait, nothing is proposed."""

    def submit(self, proposal: Proposal) -> None:
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
        self._queue.append(proposal)
        self._queued_bytes += proposal.size
        if not self._pump_scheduled:
            self._pump_scheduled = True
            self._services.loop.call_soon(self._pump_once)

    def _will_serve(self) -> bool:
        """Leads, but is still applying what earlier leaders left."""
        engine = self._group.engine
        return not self._group.is_held and engine.leader == engine.node_id

    def _pump_once(self) -> None:
        self._pump_scheduled = False
        self._group.attempt(self.pump)

    def resume(self) -> None:
        """End a pause."""
        self.paused = False
        self.pump()

    def leadership_changed(self) -> None:
        """Drop what was assumed; answer what was never proposed."""
        self._sequencer.reset()
        self._in_flight = 0
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
            _tell(proposal, None, self._group.not_leader())

    def pump(self) -> None:
        """Make entries of what waits, as far as the entries in flight allow."""
        while (
            self._queue
            and not self.paused
            and self._may_propose()
            and self._serving
            and self._group.is_serving
        ):
            self._propose_next()

    def _may_propose(self) -> bool:
        if self._in_flight == 0:
            return True
        full = self._queued_bytes >= PIPELINE_BYTES or len(self._queue) >= self._commands_max
        return full and self._in_flight < self._entries_max

    def _propose_next(self) -> None:
        commands: list[bytes] = []
        taken: list[Proposal] = []
        refused: list[tuple[Proposal, ServiceError | None]] = []
        size = 0
        now_ms = self._services.clock.wall_ms()
        now = self._services.clock.monotonic()
        queue = self._queue
        while queue and size < ENTRY_BYTES_TARGET and len(commands) < self._commands_max:
            proposal = queue[0]
            if commands and size + proposal.size > ENTRY_BYTES_TARGET:
                break
            queue.popleft()
            self._queued_bytes -= proposal.size
            if proposal.deadline < now:
                _tell(proposal, None, UnavailableError("the write waited too long to be proposed"))
                continue
            try:
                command = self._sequence(proposal, now_ms)
            except ServiceError as refusal:
                refused.append((proposal, refusal))
                continue
            if command is None:
                refused.append((proposal, None))
                continue
            commands.append(command)
            taken.append(proposal)
            size += proposal.size
        if commands:
            self._propose(commands, taken)
        for proposal, refusal_or_none in refused:
            self._answer_unproposed(proposal, refusal_or_none)

    def _sequence(self, proposal: Proposal, now_ms: TimestampMs) -> bytes | None:
        """The proposal's command, encoded; None when nothing has to change. Whatever it raises
        instead, nothing of it is left in what the proposals behind it are judged by."""
        self._sequencer.begin()
        try:
            command = proposal.sequence(now_ms)
            return None if command is None else self._encode(command)
        except ServiceError:
            self._sequencer.undo()
            raise
        except Exception as fault:  # it harms this proposal, and no other of the entry
            self._sequencer.undo()
            log.error("proposal_failed", exc_info=fault)
            failed = InternalError("the write could not be decided")
            failed.may_have_taken_effect = False
            raise failed from fault

    def _propose(self, commands: list[bytes], taken: list[Proposal]) -> None:
        term = self._group.engine.term

        def done(outcomes: list[Any] | None, error: ServiceError | None) -> None:
            if self._group.engine.term == term and self._in_flight > 0:
                self._in_flight -= 1
            if outcomes is None:
                for proposal in taken:
                    _tell(proposal, None, error)
            elif len(outcomes) != len(taken):
                # an entry of ours that apply could not read: rejected as a whole
                for proposal in taken:
                    _tell(proposal, None, UnavailableError("the entry was rejected"))
            else:
                for proposal, outcome in zip(taken, outcomes, strict=True):
                    _tell(proposal, outcome, None)

        deadline = max(proposal.deadline for proposal in taken)
        try:
            log_index = self._group.propose(self._join(commands), deadline, done)
        except ServiceError as error:
            self._sequencer.reset()
            for proposal in taken:
                _tell(proposal, None, error)
            return
        self._in_flight += 1
        self._last_proposed = log_index
        self._sequencer.proposed(log_index)

    def _answer_unproposed(self, proposal: Proposal, refusal: ServiceError | None) -> None:
        """The verdict came from speculative state: it may be told only once that state is known to
        be committed, by a leader that a quorum still confirms."""

        def confirmed(lost: ServiceError | None) -> None:
            _tell(proposal, None, refusal if lost is None else lost)

        self._group.linearize(confirmed, at_least=self._last_proposed)

    def sweep(self, now: float) -> None:
        """Refuse what waited in the queue beyond its deadline. `now` is monotonic seconds."""
        while self._queue and self._queue[0].deadline < now:
            proposal = self._queue.popleft()
            self._queued_bytes -= proposal.size
            _tell(proposal, None, UnavailableError("the write waited too long to be proposed"))

    def applied(self, log_index: LogIndex) -> None:
        """The state store has taken over `log_index`."""
        self._sequencer.applied(log_index)
        self.pump()


def _tell(proposal: Proposal, outcome: Any, error: ServiceError | None) -> None:
    """Whoever asked hears of it; a fault in hearing is theirs alone."""
    try:
        proposal.done(outcome, error)
    except Exception as fault:
        log.error("outcome_not_told", exc_info=fault)
