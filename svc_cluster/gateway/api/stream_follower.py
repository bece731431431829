"""Streaming reads: catch up, then follow the tail. Server-sent events and read sessions differ only
in how they say what was found.

An open stream survives the loss of a leader: it goes on at the next sequence number it owes, with
neither a gap nor a repetition. Whoever iterates the pieces must close the iterator.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice
from typing import Final, Protocol

from svc_cluster.base.errors import (
    HotServerError,
    InternalError,
    ReadDeadlineError,
    ServiceError,
    UnavailableError,
)
from svc_cluster.base.log import get_logger
from svc_cluster.base.memory import Holder
from svc_cluster.base.tasks import start_task
from svc_cluster.codec.plain_read import Piece, RecordForm
from svc_cluster.gateway.api.context import Call
from svc_cluster.gateway.api.followed_body import FollowedBody
from svc_cluster.gateway.api.pace import PORTION_BYTES_MAX, Pace
from svc_cluster.gateway.api.pieces import PIECE_BYTES_MAX, Waiting
from svc_cluster.gateway.api.read_ahead import AHEAD_BYTES_MIN, ReadAhead
from svc_cluster.gateway.api.read_query import Cursor, Encode, ReadQuery
from svc_cluster.gateway.cluster.backend import ReadResult
from svc_cluster.gateway.records.encoded_part import EncodedPart
from svc_cluster.gateway.records.fanout import RESULT_BYTES_MAX
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.http.message import PieceSink
from svc_cluster.model.record import Position
from svc_cluster.model.usage import MINUTE_SECONDS

HEARTBEAT_GAP_SECONDS: Final = (5.0, 15.0)
PACED_GAP_SECONDS: Final = (5.0, 10.0)
"""While a limit keeps a stream waiting: what it waits for next, when it may go on, takes a moment
more, and clients' watchdogs bark after 20 s."""
OUTAGE_SECONDS_MAX: Final = 20.0
"""How long a stream waits for the cluster before it ends with an error."""

TURN_SECONDS_MAX: Final = 1.0
TURN_PAUSE_SECONDS_MAX: Final = 0.05

_RETRY_SECONDS_MIN: Final = 0.05
_RETRY_SECONDS_MAX: Final = 1.0
_PASSING: Final = (UnavailableError, HotServerError, ReadDeadlineError)

log = get_logger("gateway.follow")


class ReadEncoder(Protocol):
    """How one kind of stream says things."""

    @property
    def form(self) -> str:
        """Two wires of one form encode the same records to the same bytes."""
        ...

    @property
    def record_form(self) -> RecordForm:
        """The form in which `encode` takes records that are encoded already."""
        ...

    def encode(
        self, records: Sequence[Piece], tail: Position | None
    ) -> Generator[None, None, bytes]:
        """1 to 1000 records, in steps of a bounded time. `tail`: the tail, where they end at
        it."""
        ...

    def batch(self, part: EncodedPart) -> bytes:
        """What was encoded, with what belongs to this connection."""
        ...

    def heartbeat(self, now_ms: int, tail: Position) -> bytes: ...

    def failure(self, error: ServiceError) -> bytes:
        """The last thing said of a stream that fails."""
        ...

    def end(self) -> bytes | None:
        """The last thing said of a stream that has delivered all; None: its end says it."""
        ...

    def may_leave(self) -> bool:
        """The server stops: whether the client knows it by now, so that the stream may end. Raises
        DrainingError where only a failure can tell it."""
        ...


class Follower:
    """One streaming read: its place, what it may still return, and when it last spoke."""

    def __init__(
        self, call: Call, cursor: Cursor, wire: ReadEncoder, wait_seconds: int | None
    ) -> None:
        self._call = call
        self._cursor = cursor
        self._wire = wire
        self._pace = Pace()
        self._held = Holder(call.services.memory.followers)
        self._ahead = ReadAhead(call.services.memory.followers)
        self._begun = call.services.clock.monotonic()
        self._minutes_counted = 0
        # Without a bound a stream follows for ever; with one it ends at the tail, unless told.
        self._wait_seconds = wait_seconds
        if wait_seconds is None and not cursor.budget.unbounded:
            self._wait_seconds = 0
        self._sink: PieceSink | None = None
        self._gap = 0.0
        """How long it is quiet before a heartbeat, in seconds; drawn for each heartbeat."""
        self.quiet_until = 0.0

    def body(self, first: ReadResult | None) -> FollowedBody:
        """What `pieces` says, and between its pieces what is pushed."""
        return FollowedBody(self.pieces(first), self.attach)

    def attach(self, sink: PieceSink) -> None:
        """What comes while the follower waits at the tail may leave by `sink` from now on. That is
        so where nothing but a record can end the wait: no limit of the read, nor of the caller."""
        is_free = not self._call.allowance.paces_reads and self._wait_seconds is None
        if is_free and self._cursor.budget.unbounded:
            self._sink = sink

    @property
    def at(self) -> int:
        return self._cursor.start.value

    def push(self, result: ReadResult) -> bool:
        """Implements `Pushed`: all checks of a follower that is woken, in one go."""
        services, sink = self._call.services, self._sink
        if sink is None or not sink.is_open or result.may_have_more:
            return False
        if services.draining.is_set() or self._call.allowance.paces_reads:
            return False
        self._call.caller.check()
        form, encode = self._form(result), self._encoder(result)
        part = self._cursor.push(result, form, self._wire.record_form, encode)
        if part is None:
            return False
        now = services.clock.monotonic()
        self._count_minutes()
        self.quiet_until = now + self._gap
        sink.send(self._wire.batch(part))
        return True

    async def pieces(self, first: ReadResult | None) -> AsyncGenerator[bytes, None]:
        """All that is to be said from the first result on. None: nothing is left to read."""
        wire = self._wire
        gauge = self._call.services.metrics.read_sessions
        gauge.inc()
        self._count_minutes()
        try:
            if first is not None:
                follow = self._follow(first)
                first = None
                try:
                    async for piece in follow:
                        leaving = [piece]
                        del piece
                        yield leaving.pop()  # while it waits to be sent nobody holds it here
                finally:
                    await follow.aclose()
            elif (end := wire.end()) is not None:
                yield end
        except ServiceError as error:
            yield wire.failure(error)
        except Exception as failure:  # the answer has begun: this is its only way to say so
            told = {"request_id": self._call.request.id}
            self._call.services.faults.tell(log, "follow_failed", failure, **told)
            yield wire.failure(InternalError("internal"))
        finally:
            self._ahead.drop()
            self._held.becomes(0)
            gauge.dec()
            self._call.allowance.close()
            self._count_minutes()

    def _count_minutes(self) -> None:
        """Each minute that is begun is an operation."""
        seconds = self._call.services.clock.monotonic() - self._begun
        begun = int(seconds // MINUTE_SECONDS) + 1
        if begun > self._minutes_counted:
            usage = self._call.services.usage
            usage.streaming_read(self._cursor.basin, begun - self._minutes_counted)
            self._minutes_counted = begun

    async def _follow(self, result: ReadResult) -> AsyncGenerator[bytes, None]:
        services, wire, cursor = self._call.services, self._wire, self._cursor
        clock, draining = services.clock, services.draining
        heartbeat_at: float | None = None  # None: catching up
        end_at: float | None = None
        while True:
            self._count_minutes()
            size = min(sum([len(batch.records) for batch in result.batches]), RESULT_BYTES_MAX)
            if not self._held.try_take(size):
                heartbeat_at = None
                del result  # nothing is held meanwhile: it is read again
                result = await self._when_there_is_room(size)
            self._read_ahead(result, size)
            part, is_all = await self._take(result)
            has_records, is_behind = part.count > 0, result.may_have_more or not is_all
            if not is_all:
                cursor.leave(result)
            tail = result.tail
            del result  # nothing is held for a client that does not read
            if has_records:
                whole = wire.batch(part)
                del part
                if len(whole) <= PIECE_BYTES_MAX:
                    begun = clock.monotonic()
                    self._held.becomes(len(whole))
                    leaving = [whole]
                    del whole
                    yield leaving.pop()
                else:
                    piece = await services.turns.run(Waiting.steps(whole), 0)
                    del whole
                    self._held.becomes(piece.held_bytes)
                    waiting = iter(piece)
                    begun = clock.monotonic()
                    while leaving := list(islice(waiting, 1)):
                        yield leaving.pop()
                        self._held.becomes(piece.held_bytes)
                self._pace.took(clock.monotonic() - begun)
                cursor.portion_bytes = self._pace.portion_bytes
            self._held.becomes(0)
            if cursor.budget.exhausted:
                break
            async with aclosing(self._paced(tail, has_records, is_behind)) as pings:
                async for ping in pings:
                    yield ping
            if draining.is_set() and wire.may_leave():
                return
            if is_behind:
                # Also a follower that fell behind: it catches up again.
                heartbeat_at = None
                result = await self._next(0)
                continue
            now = clock.monotonic()
            if self._wait_seconds is not None:
                if has_records or end_at is None:
                    end_at = now + self._wait_seconds
                if now >= end_at:
                    break
            is_due = self._is_due(heartbeat_at, now, has_records=has_records)
            if is_due:
                yield wire.heartbeat(clock.wall_ms(), tail)
                if draining.is_set() and wire.may_leave():
                    return
            if heartbeat_at is None or is_due or has_records:
                heartbeat_at = self._quiet_from(now)
            idle_until = heartbeat_at if end_at is None else min(heartbeat_at, end_at)
            result = await self._next(math.ceil((idle_until - now) * 1000))
            heartbeat_at = self.quiet_until
        if (end := wire.end()) is not None:
            yield end

    def _is_due(self, heartbeat_at: float | None, now: float, *, has_records: bool) -> bool:
        """Behind records there is no silence to break, and their tail may be another replica's."""
        if heartbeat_at is None or self._call.services.draining.is_set():
            return True
        return now >= heartbeat_at and not has_records

    def _quiet_from(self, now: float) -> float:
        self._gap = self._call.services.rng.uniform(*HEARTBEAT_GAP_SECONDS)
        self.quiet_until = now + self._gap
        return self.quiet_until

    async def _paced(
        self, tail: Position, has_records: bool, is_behind: bool
    ) -> AsyncGenerator[bytes, None]:
        """End when the read may go on, which with many under one limit can take minutes. What is
        said meanwhile is that the stream is there: a client gives up one that is silent."""
        call = self._call
        if not (has_records and call.allowance.paces_reads):
            return
        clock, rng = call.services.clock, call.services.rng
        waiting = start_task(self._wait_for_room_in_limit(is_behind=is_behind), "paced read")
        try:
            while not (await asyncio.wait((waiting,), timeout=rng.uniform(*PACED_GAP_SECONDS)))[0]:
                yield self._wire.heartbeat(clock.wall_ms(), tail)
            await waiting
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def _wait_for_room_in_limit(self, *, is_behind: bool) -> None:
        async with self._call.caller.while_valid():
            await self._call.allowance.pace_read(is_behind=is_behind)

    def _read_ahead(self, result: ReadResult, size: int) -> None:
        """Ask for what comes behind a large portion, for a client that takes such at once."""
        if size < AHEAD_BYTES_MIN or self._pace.portion_bytes < PORTION_BYTES_MAX:
            return
        cursor, end = self._cursor, _end_of(result)
        bounds = cursor.bounds_behind(result)
        if bounds is not None and end is not None:
            self._ahead.begin(end, partial(cursor.ahead, end, bounds))

    async def _take(self, result: ReadResult) -> tuple[EncodedPart, bool]:
        """The next part of `result`, and whether that was all of it. Where it ends at the tail it
        says so itself: a client that reads to the tail need not wait for what comes behind. Source:
        contract 8.4."""
        form, encode = self._form(result), self._encoder(result)
        return await self._cursor.take_part(result, form, self._wire.record_form, encode)

    def _encoder(self, result: ReadResult) -> Encode:
        tail, ends_there, wire = result.tail, _ends_at_tail(result), self._wire

        def encode(records: Sequence[Piece]) -> Generator[None, None, bytes]:
            reaches_tail = records[-1].end_seq_num == tail.seq_num
            return wire.encode(records, tail if ends_there and reaches_tail else None)

        return encode

    def _form(self, result: ReadResult) -> str:
        """Records that end at the tail are encoded with it."""
        return f"{self._wire.form} {result.tail.seq_num if _ends_at_tail(result) else None}"

    async def _when_there_is_room(self, size: int) -> ReadResult:
        """What was read for this follower, about `size` bytes of it, again once it may be held.
        Raises UnavailableError when that takes too long."""
        async with self._call.caller.while_valid():
            await self._held.wait(size, OUTAGE_SECONDS_MAX)
        return await self._next(0)

    async def _next(self, wait_ms: int) -> ReadResult:
        """Does what `_read_through_outage` does, for as long as the caller's access token is
        good."""
        async with self._call.caller.while_valid():
            return await self._read_through_outage(wait_ms)

    async def _read_through_outage(self, wait_ms: int) -> ReadResult:
        """Read, trying again while there is no leader; raises the last refusal after 20 s."""
        services = self._call.services
        give_up_at, failed_at, pause = 0.0, -1, _RETRY_SECONDS_MIN
        while True:
            try:
                if wait_ms:
                    pushed = None if self._sink is None else self
                    return await self._cursor.follow(wait_ms, pushed)
                ahead = await self._ahead.taken(self._cursor.start.value)
                if ahead is not None:
                    return ahead
                if self._pace.is_slow:
                    return await self._in_turn()
                return await self._cursor.go_on()
            except _PASSING:
                now = services.clock.monotonic()
                if failed_at != self.at:  # at first, and where it was pushed to meanwhile
                    give_up_at, pause = now + OUTAGE_SECONDS_MAX, _RETRY_SECONDS_MIN
                    failed_at = self.at
                if now + pause > give_up_at or services.draining.is_set():
                    raise
            await asyncio.sleep(pause * services.rng.uniform(0.5, 1.0))
            self._call.caller.check()  # a push may have failed for want of a lease
            pause = min(2 * pause, _RETRY_SECONDS_MAX)

    async def _in_turn(self) -> ReadResult:
        """What comes next, while no other slow client of this gateway reads, and then as much time
        for everybody else. No longer than a second is waited for that, lest one that the cluster
        lets wait holds up all."""
        clock, turn = self._call.services.clock, self._call.services.tails.slow_reads
        try:
            async with asyncio.timeout(TURN_SECONDS_MAX):
                await turn.acquire()
        except TimeoutError:
            return await self._cursor.go_on()
        begun = clock.monotonic()
        try:
            return await self._cursor.go_on()
        finally:
            pause = min(clock.monotonic() - begun, TURN_PAUSE_SECONDS_MAX)
            asyncio.get_running_loop().call_later(pause, turn.release)


def _end_of(result: ReadResult) -> int | None:
    """The sequence number behind the last record of a result; None where it has none."""
    return result.batches[-1].placement.end_seq_num if result.batches else None


def _ends_at_tail(result: ReadResult) -> bool:
    return result.tail_is_of_now and _end_of(result) == result.tail.seq_num


def refuses_at_tail(call: Call, wanted: ReadQuery) -> bool:
    """Tells whether a streaming read that starts at the tail is refused. It is refused in the S2
    dialect where it is bounded and may not wait, so that it could return nothing (contract 6.2)."""
    may_follow = wanted.budget().unbounded or bool(wanted.wait_seconds)
    return call.dialect is Dialect.S2 and not may_follow
