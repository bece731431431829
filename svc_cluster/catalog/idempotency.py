"""Requests to the catalog that a client may repeat: decided once, answered alike ever after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.catalog.catalog_commands import (
    CatalogCommand,
    CatalogWrite,
    IdempotentCatalogWrite,
)
from svc_cluster.model.idempotency_table import IdempotencyTable, check_room, is_final_refusal


@dataclass(frozen=True, slots=True)
class IdempotentCatalogAnswer:
    """What comes of a request that may be repeated."""

    answer: bytes
    command: IdempotentCatalogWrite | None
    """None: this is a repetition, and nothing is done."""


def decide_idempotent(
    table: IdempotencyTable,
    idempotency_keys_max: int,
    key: bytes,
    write: Callable[[TimestampMs], CatalogWrite | None],
    answer: Callable[[CatalogCommand | None], bytes],
    refusal: Callable[[ServiceError], bytes],
    now_ms: TimestampMs,
) -> IdempotentCatalogAnswer:
    """What `write` comes to; or, where this key stands for a request that was decided before, what
    that came to. For a leader that has nothing in flight. Raises RateLimitedError when there is no
    room to keep the key, and what `write` raises that is no final refusal."""
    known = table.find(key)
    if known is not None:
        return IdempotentCatalogAnswer(known.answer, None)
    check_room(table, 0, idempotency_keys_max, now_ms)
    try:
        command = write(now_ms)
        told = answer(command)
    except ServiceError as refused:
        if not is_final_refusal(refused):
            raise
        command = None
        told = refusal(refused)
    return IdempotentCatalogAnswer(told, IdempotentCatalogWrite(key, now_ms, told, command))
