"""Requests to the catalog that a client may repeat: decided once, answered alike ever after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.catalog.commands import (
    CatalogCommand,
    CatalogWrite,
    KeyedCatalogWrite,
)
from svc_cluster.model.outcome_table import OutcomeTable, check_room, is_outcome


@dataclass(frozen=True, slots=True)
class Answered:
    """What comes of a request that may be repeated."""

    answer: bytes
    command: KeyedCatalogWrite | None
    """None: this is a repetition, and nothing is done."""


def once(
    table: OutcomeTable,
    outcomes_max: int,
    key: bytes,
    write: Callable[[TimestampMs], CatalogWrite | None],
    answer: Callable[[CatalogCommand | None], bytes],
    refusal: Callable[[ServiceError], bytes],
    now_ms: TimestampMs,
) -> Answered:
    """What `write` comes to; or, where this key stands for a request that was decided before, what
    that came to. For a leader that has nothing in flight. Raises RateLimitedError when there is no
    room to remember the outcome, and what `write` raises that is no outcome."""
    known = table.find(key)
    if known is not None:
        return Answered(known.answer, None)
    check_room(table, 0, outcomes_max, now_ms)
    try:
        command = write(now_ms)
        told = answer(command)
    except ServiceError as refused:
        if not is_outcome(refused):
            raise
        command = None
        told = refusal(refused)
    return Answered(told, KeyedCatalogWrite(key, now_ms, told, command))
