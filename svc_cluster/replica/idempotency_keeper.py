"""This is the leader's care for the idempotency keys. Those that are old enough are forgotten,
by entries of the log. When that is due is in memory only; a new leader reads it from the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.model.idempotency_table import IDEMPOTENCY_KEYS_KEPT_MS, IdempotencyTable


class ExpiryClock(Protocol):
    def wall_ms(self) -> TimestampMs | None:
        """None while nothing may be forgotten."""
        ...


Ask = Callable[[TimestampMs, Callable[[object, ServiceError | None], None]], None]
"""Propose to forget the keys decided before then; tell the callback when that is decided."""


class IdempotencyKeeper:
    """One for each basin, and one for the catalog. For the leader only."""

    def __init__(self, table: IdempotencyTable, clock: ExpiryClock, ask: Ask) -> None:
        self._table = table
        self._clock = clock
        self._ask = ask
        self._is_asked = False
        self._due_ms = TimestampMs(0)

    def work(self) -> None:
        """Ask for what is due; at once for more when that is done. To be called now and then."""
        if self._is_asked or not self._table.count:
            return
        now_ms = self._clock.wall_ms()
        if now_ms is None or now_ms < self._due_ms:
            return
        oldest_ms = self._table.oldest_ms()
        assert oldest_ms is not None, "what is counted is there"
        self._due_ms = TimestampMs(oldest_ms + IDEMPOTENCY_KEYS_KEPT_MS)
        if self._due_ms < now_ms:
            self._is_asked = True
            self._ask(TimestampMs(now_ms - IDEMPOTENCY_KEYS_KEPT_MS), self._done)

    def _done(self, decided: object, error: ServiceError | None) -> None:
        self._is_asked = False
        if error is None and decided is not None:
            self.work()
