"""Reads of one group that wait: for a quorum to confirm the leader, then for their entry to be
applied."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import LogIndex
from svc_cluster.raft.group import ReadTicket
from svc_cluster.replica.waking import Waking

ReadCallback = Callable[[ServiceError | None], None]


class Readable(Protocol):
    """The group whose state is read."""

    @property
    def applied_index(self) -> LogIndex: ...

    @property
    def is_given_up(self) -> bool: ...

    def not_leader(self) -> ServiceError: ...


class WaitingReads:
    """Each is woken where its turn of the event loop has room for it, else in one of the next; see
    `Waking`. So its callback may run inside `confirmed` and `applied`, and always does so inside
    `refuse_confirmed` and `stop`."""

    def __init__(self, group: Readable, waking: Waking[ServiceError | None]) -> None:
        self._group = group
        self._waking = waking
        self._unconfirmed: dict[ReadTicket, list[ReadCallback]] = {}
        self._confirmed: list[tuple[LogIndex, ReadCallback]] = []

    def __len__(self) -> int:
        """Reads that wait, those of one round as one."""
        return len(self._unconfirmed) + len(self._confirmed)

    def add(self, ticket: ReadTicket, done: ReadCallback, at_least: LogIndex) -> None:
        """The read goes on when its ticket is confirmed, and `at_least` is applied."""
        if at_least > self._group.applied_index:
            inner = done

            def wait_for_entry(error: ServiceError | None) -> None:
                if error is not None:
                    inner(error)
                else:
                    self._when_applied(at_least, inner)

            done = wait_for_entry
        self._unconfirmed.setdefault(ticket, []).append(done)

    def confirmed(self, ticket: ReadTicket, read_index: LogIndex | None) -> int:
        """The round of the ticket is over; None: no quorum confirmed it. Returns how many reads it
        was for."""
        callbacks = self._unconfirmed.pop(ticket, ())
        for done in callbacks:
            if read_index is None:
                self._waking.wake(done, self._group.not_leader())
            else:
                self._when_applied(read_index, done)
        return len(callbacks)

    def applied(self) -> None:
        """Wake those whose entry the state store holds by now."""
        if not self._confirmed:
            return
        waiting, self._confirmed = self._confirmed, []
        for log_index, done in waiting:
            self._when_applied(log_index, done)

    def refuse_confirmed(self) -> None:
        """What they wait for may never be applied here."""
        waiting, self._confirmed = self._confirmed, []
        for _, done in waiting:
            done(self._group.not_leader())

    def stop(self) -> None:
        """Refuse them all."""
        gone = self._group.not_leader()
        unconfirmed, self._unconfirmed = self._unconfirmed, {}
        for callbacks in unconfirmed.values():
            for done in callbacks:
                done(gone)
        self.refuse_confirmed()

    def _when_applied(self, log_index: LogIndex, done: ReadCallback) -> None:
        if self._group.applied_index >= log_index:
            self._waking.wake(partial(self._go_on, done), None)
        else:
            self._confirmed.append((log_index, done))

    def _go_on(self, done: ReadCallback, _: ServiceError | None) -> None:
        """The state may have been given up while the read waited to be woken."""
        done(self._group.not_leader() if self._group.is_given_up else None)
