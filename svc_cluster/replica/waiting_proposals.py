"""Who waits for the entries that were proposed here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from svc_cluster.base.errors import DeadlineError, ServiceError, UnavailableError
from svc_cluster.base.ids import LogIndex, Term
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.raft.group import LogPosition

Plan = TypeVar("Plan")

PlanCallback = Callable[[Plan | None, ServiceError | None], None]
"""Called once: with the plan of the entry when it is applied, or with why it is not known."""


@dataclass(slots=True)
class _ProposalWaiter(Generic[Plan]):
    term: Term
    deadline: float
    done: PlanCallback[Plan]


class WaitingProposals(Generic[Plan]):
    """The waiters of one group. How many there may be is the proposer's bound."""

    def __init__(self) -> None:
        self._waiters: dict[LogIndex, list[_ProposalWaiter[Plan]]] = {}

    def __len__(self) -> int:
        """Entries proposed here whose outcome is not known yet."""
        return len(self._waiters)

    def add(self, position: LogPosition, deadline: float, done: PlanCallback[Plan]) -> None:
        """Wait for the entry of this place until `deadline`, which is monotonic seconds."""
        waiter: _ProposalWaiter[Plan] = _ProposalWaiter(position.term, deadline, done)
        self._waiters.setdefault(position.log_index, []).append(waiter)

    def applied(self, entry: LogEntry, lost: Callable[[], None]) -> Iterator[PlanCallback[Plan]]:
        """Who waits for this entry; whoever waits for another in its place is refused, and `lost`
        is called for each."""
        for waiter in self._waiters.pop(entry.log_index, ()):
            if waiter.term == entry.term:
                yield waiter.done
            else:
                lost()
                waiter.done(None, UnavailableError("another leader's entry took the place"))

    def sweep(self, now: float) -> None:
        """End those whose deadline is over. `now` is monotonic seconds."""
        expired = [
            log_index for log_index, waiters in self._waiters.items() if waiters[-1].deadline <= now
        ]
        for log_index in expired:
            for waiter in self._waiters.pop(log_index):
                waiter.done(None, DeadlineError("not known to be committed by the deadline"))

    def refuse_above(self, log_index: LogIndex) -> None:
        """The group's configuration has ended there: what was proposed behind has no effect."""
        for late in [one for one in self._waiters if one > log_index]:
            for waiter in self._waiters.pop(late):
                waiter.done(None, UnavailableError("the group's members changed meanwhile"))

    def stop(self) -> None:
        """Answer everyone: what was proposed may still be committed by the other replicas."""
        waiters, self._waiters = self._waiters, {}
        for group in waiters.values():
            for waiter in group:
                waiter.done(None, DeadlineError("the replica stopped before the outcome"))
