"""Linearizable reads without a lease.

A read notes the commit index and the sequence number of the last message sent. It is confirmed
when a quorum has answered, in the same term, a message with a later number: at that moment no
other leader can have been elected, so nothing newer than the noted index was acknowledged before
the read began. Many tickets share a round: while one is open, new tickets wait for the next.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from svc_cluster.base.ids import LogIndex, NodeId
from svc_cluster.raft.group import ReadState, ReadTicket


@dataclass(frozen=True, slots=True)
class _WaitingRead:
    ticket: ReadTicket
    read_index: LogIndex
    sequence: int
    started: float


class ReadRounds:
    """Tickets of one leadership. `others_needed` answers make a quorum with the leader's own."""

    def __init__(self, others_needed: int, ticket_seconds_max: float) -> None:
        self._others_needed = others_needed
        self._ticket_seconds_max = ticket_seconds_max
        self._waiting: deque[_WaitingRead] = deque()
        self._answered: dict[NodeId, int] = {}
        self._round_open = False
        self._tickets = 0
        self._states: list[ReadState] = []

    def start(self, read_index: LogIndex, sequence: int, now: float) -> ReadTicket:
        """`sequence` is that of the last message sent before this read began."""
        self._tickets += 1
        ticket = ReadTicket(self._tickets)
        self._waiting.append(_WaitingRead(ticket, read_index, sequence, now))
        return ticket

    def wants_round(self) -> bool:
        """Whether messages should be sent now for the sake of the reads."""
        return bool(self._waiting) and not self._round_open

    def round_sent(self) -> None:
        """A message has been sent to every reachable peer."""
        self._round_open = bool(self._waiting)

    def answer(self, peer: NodeId, sequence: int) -> None:
        """`peer` answered, in this term, the message numbered `sequence`."""
        if sequence > self._answered.get(peer, 0):
            self._answered[peer] = sequence
            self.settle()

    def settle(self) -> None:
        """Confirm what a quorum has answered."""
        confirmed = self._confirmed()
        while self._waiting and (confirmed is None or self._waiting[0].sequence < confirmed):
            done = self._waiting.popleft()
            self._states.append(ReadState(done.ticket, done.read_index))
            self._round_open = False

    def expire(self, now: float) -> None:
        """Give up on tickets that have waited too long for a quorum."""
        while self._waiting and now - self._waiting[0].started > self._ticket_seconds_max:
            self._states.append(ReadState(self._waiting.popleft().ticket, None))
            self._round_open = False

    def fail_all(self) -> None:
        """Leadership is over: no ticket can be confirmed any more."""
        self._states.extend(ReadState(waiting.ticket, None) for waiting in self._waiting)
        self._waiting.clear()
        self._answered.clear()
        self._round_open = False

    @property
    def has_answers(self) -> bool:
        """Whether `take_states` would return any."""
        return bool(self._states)

    def take_states(self) -> list[ReadState]:
        states = self._states
        self._states = []
        return states

    def _confirmed(self) -> int | None:
        """The number that a quorum has answered; None when no other voter is needed."""
        if self._others_needed == 0:
            return None
        if len(self._answered) < self._others_needed:
            return 0
        return sorted(self._answered.values(), reverse=True)[self._others_needed - 1]
