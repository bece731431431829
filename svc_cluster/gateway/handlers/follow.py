"""Streaming reads as server-sent events: catch up, then follow the tail.

An open stream survives the loss of a leader: it goes on at the next sequence number it owes, with
neither a gap nor a repetition. Whoever iterates the events must close the iterator.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Iterator
from typing import Final

from svc_cluster.base.errors import (
    DrainingError,
    ErrorCode,
    HotServerError,
    InternalError,
    MalformedError,
    ReadDeadlineError,
    ServiceError,
    StreamNotFoundError,
    UnavailableError,
)
from svc_cluster.base.log import get_logger
from svc_cluster.codec.json_body import DataFormat, encode_read_batch
from svc_cluster.codec.records import (
    METERED_BYTES_MAX,
    RECORDS_MAX,
    U64_MAX,
    ReadBudget,
    RecordOut,
)
from svc_cluster.codec.sse import (
    DONE,
    EventId,
    batch_event,
    error_event,
    parse_event_id,
    ping_event,
)
from svc_cluster.gateway.backend import ReadResult
from svc_cluster.gateway.handlers.context import Call
from svc_cluster.gateway.handlers.reading import (
    READ_CALL_WAIT_MS_MAX,
    ReadRequest,
    bounds_of,
    count_read,
    take,
)
from svc_cluster.gateway.http.errors import error_body
from svc_cluster.gateway.http.message import Response
from svc_cluster.gateway.http.negotiation import EVENT_STREAM
from svc_cluster.model.read_bounds import ReadStart, StartKind

PING_GAP_SECONDS: Final = (5.0, 15.0)
OUTAGE_SECONDS_MAX: Final = 20.0
"""How long a stream waits for the cluster before it ends with an error."""

_RETRY_SECONDS_MIN: Final = 0.05
_RETRY_SECONDS_MAX: Final = 1.0
_PASSING: Final = (UnavailableError, HotServerError, ReadDeadlineError)

_HEADERS: Final = (
    ("content-type", EVENT_STREAM),
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
)

log = get_logger("gateway.follow")


async def open_event_stream(
    call: Call, basin: str, stream: str, wanted: ReadRequest, encoding: DataFormat
) -> Response:
    """Read once, so that a refusal is still a plain answer, then stream.

    Raises what the first backend read raises, and MalformedError for a bad `last-event-id`.
    """
    budget = ReadBudget(wanted.count, wanted.metered_bytes, wanted.until_ms, wanted.from_ms)
    follower = Follower(call, basin, stream, wanted, budget, encoding)
    last_event_id = call.request.header("last-event-id")
    if last_event_id is not None:
        follower.resume_after(parse_event_id(last_event_id))
    first = None
    if last_event_id is None or not budget.exhausted:
        first = await follower.read(0)
    return Response(200, list(_HEADERS), follower.events(first))


class Follower:
    """One event stream: its place, what it may still return, and when it last spoke."""

    def __init__(
        self,
        call: Call,
        basin: str,
        stream: str,
        wanted: ReadRequest,
        budget: ReadBudget,
        encoding: DataFormat,
    ) -> None:
        self._call = call
        self._names = (basin, stream)
        self._start = wanted.start
        self._budget = budget
        self._encoding = encoding
        self._sent = EventId(0, 0, 0)
        self._incarnation: tuple[int, int] | None = None
        # Without a bound a stream follows for ever; with one it ends at the tail, unless told.
        self._wait_seconds = wanted.wait_seconds
        if wanted.wait_seconds is None and not budget.unbounded:
            self._wait_seconds = 0

    def resume_after(self, last: EventId) -> None:
        """Go on behind the last event that the client has seen."""
        if last.seq_num >= U64_MAX:
            raise MalformedError(ErrorCode.BAD_HEADER, "nothing can follow this last-event-id")
        self._start = ReadStart(StartKind.SEQ_NUM, last.seq_num + 1, clamp=self._start.clamp)
        budget = self._budget
        budget.from_ms = 0
        if budget.count is not None:
            budget.count = max(0, budget.count - last.count)
        if budget.metered_bytes is not None:
            budget.metered_bytes = max(0, budget.metered_bytes - last.metered_bytes)

    async def read(self, wait_ms: int) -> ReadResult:
        """One backend read from where the stream stands. Raises StreamNotFoundError when another
        stream has taken the name: its records are not the continuation of the first one's."""
        result = await self._call.services.backend.read(
            *self._names,
            self._start,
            bounds_of(self._budget),
            refuse_at_tail=False,
            wait_ms=min(wait_ms, READ_CALL_WAIT_MS_MAX),
        )
        if self._incarnation is None:
            self._incarnation = result.incarnation
        elif self._incarnation != result.incarnation:
            raise StreamNotFoundError("the stream that was followed is deleted")
        return result

    async def events(self, first: ReadResult | None) -> AsyncGenerator[bytes, None]:
        """All events from the first result on. None: nothing is left to read."""
        gauge = self._call.services.metrics.read_sessions
        gauge.inc()
        try:
            if first is None:
                yield DONE
                return
            follow = self._follow(first)
            try:
                async for event in follow:
                    yield event
            finally:
                await follow.aclose()
        except ServiceError as error:
            yield error_event(error_body(error, self._call.dialect))
        except Exception as failure:  # the answer has begun: this is its only way to say so
            log.error("follow_failed", exc_info=failure)
            yield error_event(error_body(InternalError("internal"), self._call.dialect))
        finally:
            gauge.dec()

    async def _follow(self, result: ReadResult) -> AsyncGenerator[bytes, None]:
        services = self._call.services
        clock = services.clock
        ping_at: float | None = None
        end_at: float | None = None
        while True:
            records, self._start = take(result, self._budget)
            count_read(self._call, records)
            for piece in _pieces(records):
                yield self._batch(piece)
            if self._budget.exhausted:
                break
            if services.draining.is_set():
                raise DrainingError("the server is stopping; connect again")
            if result.may_have_more:
                result = await self._read_through_outage(0)
                continue
            now = clock.monotonic()
            if self._wait_seconds is not None:
                if records or end_at is None:
                    end_at = now + self._wait_seconds
                if now >= end_at:
                    break
            if ping_at is None or now >= ping_at:
                yield ping_event(services.clock.wall_ms(), result.tail)
                ping_at = now + services.rng.uniform(*PING_GAP_SECONDS)
            elif records:
                ping_at = now + services.rng.uniform(*PING_GAP_SECONDS)
            idle_until = ping_at if end_at is None else min(ping_at, end_at)
            result = await self._read_through_outage(math.ceil((idle_until - now) * 1000))
        yield DONE

    async def _read_through_outage(self, wait_ms: int) -> ReadResult:
        """Read, trying again while there is no leader; raises the last refusal after 20 s."""
        services = self._call.services
        give_up_at: float | None = None
        pause = _RETRY_SECONDS_MIN
        while True:
            try:
                return await self.read(wait_ms)
            except _PASSING:
                now = services.clock.monotonic()
                if give_up_at is None:
                    give_up_at = now + OUTAGE_SECONDS_MAX
                if now + pause > give_up_at or services.draining.is_set():
                    raise
            await asyncio.sleep(pause * services.rng.uniform(0.5, 1.0))
            pause = min(2 * pause, _RETRY_SECONDS_MAX)

    def _batch(self, records: list[RecordOut]) -> bytes:
        sent = self._sent
        self._sent = EventId(
            records[-1].seq_num,
            sent.count + len(records),
            sent.metered_bytes + sum(record.metered_bytes for record in records),
        )
        return batch_event(self._sent, encode_read_batch(records, None, self._encoding))


def _pieces(records: list[RecordOut]) -> Iterator[list[RecordOut]]:
    """Runs of at most 1000 records and 1 MiB metered; one record never exceeds 1 MiB."""
    piece: list[RecordOut] = []
    metered_bytes = 0
    for record in records:
        metered_bytes += record.metered_bytes
        if piece and (len(piece) == RECORDS_MAX or metered_bytes > METERED_BYTES_MAX):
            yield piece
            piece = []
            metered_bytes = record.metered_bytes
        piece.append(record)
    if piece:
        yield piece
