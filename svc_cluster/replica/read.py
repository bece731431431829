"""The read path of a basin's leader: confirm leadership, wait for the state store, scan.

A read is linearizable because it is served only after a quorum confirmed this leader in a round
that began after the read did, and after the **state store** has applied what was committed then.

What comes behind it in the same request may be had from any replica: it says which entry of the log
it has seen, and who has applied that one has seen all that it has (docs/adr/0071).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypedDict, TypeVar

from svc_cluster.base.errors import (
    KeyRequiredError,
    ServiceError,
    StreamDeletionPendingError,
    StreamNotFoundError,
    UnavailableError,
)
from svc_cluster.base.ids import StreamId, TimestampMs
from svc_cluster.base.limits import READ_BYTES_MAX, STREAM_STATES_CACHED_MAX
from svc_cluster.codec.batch_cut import cut_batches
from svc_cluster.model.read_bounds import ReadBounds, ReadStart, StartKind
from svc_cluster.model.record import Position, SequencedBatch
from svc_cluster.replica.answer_room import RoomReservation
from svc_cluster.replica.callbacks import result_of
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.retention_clock import RetentionClock
from svc_cluster.replica.store_reads import StoreReads
from svc_cluster.stream import scan
from svc_cluster.stream.basin_state import BasinState
from svc_cluster.stream.batch_finder import NO_GUESS, BatchGuess, HoleError, Lookups
from svc_cluster.stream.rows import StreamState

_T = TypeVar("_T")

ATTEMPTS_MAX: Final = 8
"""The attempts at a read that records are trimmed under, before it is made in one turn of the event
loop."""

WAIT_SECONDS_MAX: Final = 5.0
"""A follower's call is answered after this long even if nothing came; the gateway calls again."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    stream: str
    start: ReadStart
    bounds: ReadBounds
    refuse_at_tail: bool
    wait_ms: int
    has_key: bool = False
    """Tells that whoever asks can open the records of an encrypted stream."""
    committed: bool = False
    """What is committed is enough, whether or not there is more by now."""
    at_least: int = 0
    """With `committed`: a replica that follows may answer too, once it has applied this entry of
    the log. 0: none may."""


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    start_seq_num: int
    batches: list[SequencedBatch]
    tail: Position
    may_have_more: bool
    """The scan ended before the tail. Without batches: the next record is beyond the bounds."""
    stream_id: StreamId
    cipher: str | None = None
    shared_caching: bool = False
    """Caches that serve many may keep it."""
    applied_index: int = 0
    """Nothing of the answer is later than this entry of the log."""


class _ReadLimits(TypedDict):
    now_ms: TimestampMs
    from_ms: int
    max_bytes: int


class Reader:
    """Reads of one basin on one node."""

    def __init__(
        self,
        group: AnyGroup,
        state: BasinState,
        services: GroupServices,
        clock: RetentionClock,
    ) -> None:
        self._group = group
        self._state = state
        self._services = services
        self._clock = clock
        self._reads = StoreReads(services.store, group.generation)
        self._guesses: dict[StreamId, BatchGuess] = {}
        """By the batch read last, by stream; least recently read first."""
        self._followers: dict[StreamId, list[asyncio.Future[None]]] = {}
        self.reads = 0
        """Answers since this was opened."""
        self.read_records = 0
        self.read_bytes = 0
        """What there was in them, in metered bytes."""

    async def linearize(self) -> None:
        """Return once everything committed before this call is in the state store. Raises
        NotLeaderHereError or UnavailableError."""
        await result_of(
            self._services.loop, lambda told: self._group.linearize(partial(told, None))
        )

    async def check_tail(self, stream: str) -> Position:
        await self.linearize()
        found = self.stream(stream)
        return found.tail

    async def read(self, request: ReadRequest, place: RoomReservation | None = None) -> ReadAnswer:
        """Read once; with `wait_ms`, wait at the tail for the first records. Records are taken from
        the store only in `place`, which may have to be waited for; its owner gives it back."""
        answer = await self._read(request, place)
        self.reads += 1
        for batch in answer.batches:
            self.read_records += batch.placement.record_count
            self.read_bytes += batch.placement.metered_bytes
        return answer

    async def _read(self, request: ReadRequest, place: RoomReservation | None) -> ReadAnswer:
        if not self._is_known(request):
            await self.linearize()
        if place is not None:
            await place.take()
        stream = self.stream(request.stream)
        if stream.cipher is not None and not request.has_key:
            raise KeyRequiredError.of(stream.cipher)
        start = await self._resolve(stream, request)
        answer = await self._scan(request, stream.stream_id, start)
        if answer.batches or request.wait_ms == 0 or answer.may_have_more:
            return answer
        if place is not None:
            place.give_back()
        woken = await self._wait(stream.stream_id, min(request.wait_ms / 1000, WAIT_SECONDS_MAX))
        if not woken:
            # the tail told at the end of a wait must be this moment's
            await self.linearize()
        if place is not None:
            await place.take()
        return await self._scan(request, stream.stream_id, answer.start_seq_num)

    def _is_known(self, request: ReadRequest) -> bool:
        """Whether a read begins without a round to a quorum. What it asks for need only be
        committed, and this replica, which leads for all it knows, has applied what comes before.
        One that leads no longer is behind until it is told so; what it has is committed still."""
        start = request.start
        if request.at_least > self._state.applied_index:
            return False  # also of who leads no longer, and does not know it
        if not request.committed or start.kind is not StartKind.SEQ_NUM:
            return False
        serving = self._group.is_serving
        if not (serving or self._may_follow(request)):
            return False
        stream = self._state.stream_by_name(request.stream)
        if stream is None or stream.deleted_at_ms is not None:
            return False
        # where the tail is, and what comes next there, only who leads can say
        return start.value < stream.tail_seq_num + serving

    def _may_follow(self, request: ReadRequest) -> bool:
        """Whether this replica may answer, which does not lead. What is applied here is committed,
        and nothing that the asker has seen is later; what has expired has to be known too."""
        return (
            request.at_least > 0
            and not self._group.is_given_up
            and self._clock.wall_ms() is not None
        )

    async def _resolve(self, stream: StreamState, request: ReadRequest) -> int:
        start = request.start
        if not scan.needs_lookup(stream, start):
            return scan.place_of(stream, start, refuse_at_tail=request.refuse_at_tail)
        now, found = await self._look_up(
            request.stream,
            stream.stream_id,
            lambda now: scan.look_up_first_at(now, start.value, self._guess(now)),
            lambda now: scan.resolve_start(self._state.reader, now, start, refuse_at_tail=False),
        )
        return scan.looked_up(now, found, refuse_at_tail=request.refuse_at_tail)

    async def _scan(self, request: ReadRequest, stream_id: StreamId, start: int) -> ReadAnswer:
        from_ms = request.start.value if request.start.kind is StartKind.TIMESTAMP else 0
        portion_bytes = request.bounds.portion_bytes
        if portion_bytes is None or portion_bytes > READ_BYTES_MAX:
            portion_bytes = READ_BYTES_MAX
        while True:
            stream, result = await self._step(request, stream_id, start, from_ms, portion_bytes)
            if result.batches or result.stopped_by is not scan.StoppedBy.SIZE:
                break
            # a stretch of expired batches: go on behind it, but let the others have a turn
            start = result.next_seq_num
            await asyncio.sleep(0)
        more = result.stopped_by is not scan.StoppedBy.TAIL
        begin = result.start_seq_num if result.batches or more else result.next_seq_num
        bounds = request.bounds
        if stream.cipher is not None:
            bounds = replace(bounds, metered_bytes=None)
        batches = cut_batches(result.batches, begin, bounds, from_ms)
        shared = stream.config.shared_caching
        stream_id, cipher = stream.stream_id, stream.cipher
        applied = self._state.applied_index
        return ReadAnswer(begin, batches, stream.tail, more, stream_id, cipher, shared, applied)

    async def _step(
        self, request: ReadRequest, stream_id: StreamId, start: int, from_ms: int, max_bytes: int
    ) -> tuple[StreamState, scan.ReadStep]:
        asked: _ReadLimits = {
            # what nothing may expire by hides nothing either
            "now_ms": self._clock.wall_ms() or TimestampMs(0),
            "from_ms": from_ms,
            "max_bytes": max_bytes,
        }
        stream, (step, guess) = await self._look_up(
            request.stream,
            stream_id,
            lambda now: scan.look_up_batches(
                now,
                start,
                request.bounds,
                guess=self._guess(now),
                **asked,
            ),
            lambda now: (
                scan.read_batches(self._state.reader, now, start, request.bounds, **asked),
                NO_GUESS,
            ),
        )
        self._note(stream_id, guess)
        return stream, step

    async def _look_up(
        self,
        name: str,
        stream_id: StreamId,
        lookups: Callable[[StreamState], Lookups[_T]],
        at_once: Callable[[StreamState], _T],
    ) -> tuple[StreamState, _T]:
        """What the lookups come to, and the stream as they were begun with.

        While they wait for the disk records are trimmed and expire, and the stream may be deleted:
        what they miss may have gone by right. So they are begun again as long as the stream's trim
        point moves; whether something is missing is judged by `at_once`, in one turn of the event
        loop, in which nothing can go.
        """
        for _ in range(ATTEMPTS_MAX):
            stream = self._same_stream(name, stream_id)
            try:
                result = await self._reads.run(lookups(stream))
            except HoleError:
                if self._same_stream(name, stream_id).trim_point == stream.trim_point:
                    break
            else:
                if self._group.is_given_up:
                    raise self._group.not_leader()
                return stream, result
        stream = self._same_stream(name, stream_id)
        try:
            return stream, at_once(stream)
        except HoleError as hole:
            raise self._damaged(hole) from hole

    def _guess(self, stream: StreamState) -> BatchGuess:
        return self._guesses.get(stream.stream_id, NO_GUESS)

    def _note(self, stream_id: StreamId, guess: BatchGuess) -> None:
        """Remember what a batch of the stream was like."""
        self._guesses.pop(stream_id, None)
        self._guesses[stream_id] = guess
        if len(self._guesses) > STREAM_STATES_CACHED_MAX:
            del self._guesses[next(iter(self._guesses))]

    def _damaged(self, hole: HoleError) -> UnavailableError:
        """What the caller is told, when the replica has been given over to repair."""
        self._group.on_diverged(str(hole))
        return UnavailableError("records are missing on this node; they are fetched from others")

    def stream(self, name: str) -> StreamState:
        """The stream as applied here. To be asked again behind each wait: meanwhile the state may
        have been given up, or replaced and deleted. Raises NotLeaderHereError or UnavailableError
        then, otherwise StreamNotFoundError and StreamDeletionPendingError."""
        if self._group.is_given_up:
            raise self._group.not_leader()
        stream = self._state.stream_by_name(name)
        if stream is None:
            raise StreamNotFoundError("no stream of this name in the basin")
        if stream.deleted_at_ms is not None:
            raise StreamDeletionPendingError("the stream is being deleted")
        return stream

    def _same_stream(self, name: str, stream_id: StreamId) -> StreamState:
        """Does what `stream` does, for the one that had the name before."""
        stream = self.stream(name)
        if stream.stream_id != stream_id:
            raise StreamNotFoundError("the stream was deleted while it was read")
        return stream

    async def _wait(self, stream_id: StreamId, seconds: float) -> bool:
        """Wait for an append (or the end) of the stream; False when the time ran out."""
        future: asyncio.Future[None] = self._services.loop.create_future()
        waiting = self._followers.setdefault(stream_id, [])
        waiting.append(future)
        timer = self._services.loop.call_later(seconds, _cancel, future)
        try:
            await future
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return False
        finally:
            timer.cancel()
            if future in waiting:
                waiting.remove(future)
            if not waiting and self._followers.get(stream_id) is waiting:
                del self._followers[stream_id]
        return True

    def wake(self, stream_id: StreamId) -> None:
        """The stream has a new tail, or is gone."""
        for future in self._followers.pop(stream_id, ()):
            if not future.done():
                future.set_result(None)

    def wake_all(self, error: Callable[[], ServiceError]) -> None:
        """Leadership is gone: whoever waits must ask another replica."""
        followers, self._followers = self._followers, {}
        for waiting in followers.values():
            for future in waiting:
                if not future.done():
                    future.set_exception(error())


def _cancel(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.cancel()
