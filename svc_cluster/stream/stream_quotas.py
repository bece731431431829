"""How many streams a basin may have, and how much it may store: bounds of what is taken in."""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import QuotaError
from svc_cluster.model.record import CommandKind, StoredBatch
from svc_cluster.stream.basin_state import BasinState
from svc_cluster.stream.rows import BasinHead
from svc_cluster.stream.usage_rows import BasinReading

TRIM_ROOM_BYTES: Final = 64 << 20
"""What trims may take beyond the bytes that a basin may store: more than what can be in flight when
that is reached, which is four entries and one that is being filled, of records that are metered at
most four times their encoded size."""


def check_streams(state: BasinState, now: BasinHead | None, streams_max: int) -> None:
    """`now` is the basin with what is in flight, which has been counted by the ids it takes. What
    is being purged still counts. Raises QuotaError."""
    applied = state.basin
    assert applied is not None, "streams are made in what was bootstrapped"
    assert now is not None, "what is in flight is on top of what is applied"
    in_flight = now.next_stream_id - applied.next_stream_id
    if state.stream_count + in_flight >= streams_max:
        raise QuotaError(f"the basin has {streams_max} streams already")


def check_stored(
    reading: tuple[int, BasinReading] | None, stored_bytes_max: int, batch: StoredBatch
) -> None:
    """By what is applied: what is in flight may go beyond. A batch of nothing but trims, which is
    how room is made, finds more. Raises QuotaError."""
    stored_bytes = 0 if reading is None else reading[1].stored_bytes
    if len(batch.commands) == batch.record_count and all(
        command.kind is CommandKind.TRIM for command in batch.commands
    ):
        stored_bytes -= TRIM_ROOM_BYTES
    if stored_bytes + batch.metered_bytes > stored_bytes_max:
        raise QuotaError(f"a basin stores at most {stored_bytes_max} bytes: trim or delete")
