"""Appends of several clients to one stream go to its leader as one request.

The leader makes one command of what waits for it anyway (stream/append_run.py); here the way there
and back is shared too, which costs more than the append itself. What is joined are requests that
nothing sets apart: without conditions, keys, sessions and commands, and without timestamps of their
clients. All records of such a batch get one timestamp (stream/timestamping.py), so that the
acknowledgement of the whole says what each of its parts is acknowledged.

Nobody waits to be joined for longer than until the other requests of this turn of the event loop
have been looked at: what is there then leaves together, and alone what is alone. They have to leave
together: the first one, ahead of the others, would be an entry of the log that these wait for.

A refusal without effect that may concern one of them is told to none: each then asks by itself, and
hears what concerns it alone. What was asked again until the deadline, because a node had too much
to do or nobody led, concerns all of them and is told as it is: another attempt could only be cut
off, which would leave it unknown. Nothing is asked for clients that have gone, as soon as all have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from svc_cluster.base.errors import (
    DrainingError,
    HotServerError,
    InternalError,
    ServiceError,
    UnavailableError,
)
from svc_cluster.base.ids import SeqNum
from svc_cluster.base.limits import BATCH_RECORDS_MAX
from svc_cluster.base.tasks import Tasks
from svc_cluster.gateway.cluster.leaders import LAST_TRY_SECONDS
from svc_cluster.model.leader_stages import LeaderStages
from svc_cluster.model.record import AppendAck, Position, StoredBatch

REQUESTS_MAX: Final = 128
"""Requests that leave as one."""

OF_ALL: Final = (UnavailableError, HotServerError, DrainingError)
"""Refusals of whom was asked, whatever it was asked: they were asked again while there was time."""

BYTES_MAX: Final = 256 * 1024
"""Bytes of their records, encoded or metered; one that is longer by itself goes by itself."""


@dataclass(frozen=True, slots=True)
class Appended:
    """What the leader answers to one request."""

    ack: AppendAck
    stages: LeaderStages | None = None
    """Where the time went there; None: it does not say."""


class AskLeader(Protocol):
    """The way to the leader of a stream's basin."""

    def __call__(
        self, basin: str, stream: str, batch: StoredBatch, requests: int, deadline: float
    ) -> Awaitable[Appended]:
        """Append the batch, which stands for so many requests. `deadline`: monotonic seconds.
        Raises ServiceError."""
        ...


Place = tuple[str, str]
"""Basin and stream."""


class AppendCoalescer:
    """The one of a gateway. Everything happens on its event loop."""

    def __init__(
        self,
        ask: AskLeader,
        clock: Callable[[], float],
        note_retry: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`clock` tells monotonic seconds. `note_retry` is told the reason of each request that is
        asked again by itself."""
        self._ask = ask
        self._clock = clock
        self._note_retry = note_retry
        self._is_closed = False
        self._open: dict[Place, _JoinedAppends] = {}
        """What may still be joined; it leaves in the next turn."""
        self._tasks = Tasks()
        self.joined = 0
        """Requests that left in another one's."""

    @property
    def under_way(self) -> int:
        """How many requests for several are under way, or leave in the next turn."""
        return len(self._tasks) + len(self._open)

    async def append(
        self, basin: str, stream: str, batch: StoredBatch, deadline: float
    ) -> Appended:
        """The batch, which `joins`, is appended, in a request of its own or in one with others.
        Raises ServiceError."""
        if len(batch.records) > BYTES_MAX:
            return await self._ask(basin, stream, batch, 1, deadline)
        place = (basin, stream)
        run = self._open.get(place)
        try:
            if run is not None and run.takes(batch):
                self.joined += 1
                return await run.outcome(run.add(batch))
            run = await self._first_of(place, batch, deadline)
            if run.waiting:
                return await run.outcome(run.waiting[0][1])
        except _RefusedTogetherError as told:
            if deadline - self._clock() <= LAST_TRY_SECONDS:
                raise told.refusal from None
            self._note_retry("refused_together")
        return await self._ask(basin, stream, batch, 1, deadline)

    async def _first_of(self, place: Place, batch: StoredBatch, deadline: float) -> _JoinedAppends:
        """Let others join until they have been looked at. Returns the run, which has the batch as
        its first; it is empty where nobody has joined, and the batch is to be sent alone."""
        # one that was open and is full is its first one's to send
        self._open[place] = run = _JoinedAppends(batch, deadline)
        try:
            await asyncio.sleep(0)
            run.forget_those_who_have_gone()
            if run.waiting:
                run.add_first()
        finally:
            run.forget_those_who_have_gone()
            if self._open.get(place) is run:
                del self._open[place]
            if run.waiting and not self._is_closed:
                run.sending = self._tasks.spawn_one(self._send(place, run), "append together")
                # it may be cancelled before it has begun
                run.sending.add_done_callback(lambda _: run.leave())
            else:
                run.leave()
        return run

    async def close(self) -> None:
        """Nobody waits any more, and nothing is sent together from now on."""
        self._is_closed = True
        await self._tasks.cancel_all()

    async def _send(self, place: Place, run: _JoinedAppends) -> None:
        try:
            whole = await self._ask(*place, run.whole(), len(run.waiting), run.deadline)
            run.acknowledge(whole)
        except ServiceError as refusal:
            run.refuse(refusal)
        except Exception:
            run.refuse(InternalError("internal error"))
            raise


def joins(batch: StoredBatch) -> bool:
    """Whether nothing in the batch itself sets it apart from others."""
    return not (batch.commands or batch.timestamps_given or batch.sealed_for is not None)


class _RefusedTogetherError(Exception):
    """The whole was refused, without effect, for what may concern one of its parts."""

    def __init__(self, refusal: ServiceError) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def _copied(refusal: ServiceError) -> ServiceError:
    """The same refusal for another one to raise: what is raised keeps where it was."""
    kind = type(refusal)
    own = kind.__new__(kind, *refusal.args)
    own.__dict__.update(refusal.__dict__)
    return own


class _JoinedAppends:
    """The requests that leave as one."""

    __slots__ = (
        "_byte_count",
        "_first",
        "_metered_bytes",
        "_record_count",
        "deadline",
        "sending",
        "waiting",
    )

    def __init__(self, first: StoredBatch, deadline: float) -> None:
        """`deadline`: of the first, which ends before those of the others."""
        self.deadline = deadline
        self.waiting: list[tuple[StoredBatch, asyncio.Future[Appended]]] = []
        """Without the first, until that is added."""
        self.sending: asyncio.Task[None] | None = None
        self._first = first
        self._byte_count = len(first.records)
        self._metered_bytes = first.metered_bytes
        self._record_count = first.record_count

    def takes(self, batch: StoredBatch) -> bool:
        return (
            len(self.waiting) + 1 < REQUESTS_MAX
            and self._record_count + batch.record_count <= BATCH_RECORDS_MAX
            and self._metered_bytes + batch.metered_bytes <= BYTES_MAX
            and self._byte_count + len(batch.records) <= BYTES_MAX
        )

    def add(self, batch: StoredBatch) -> asyncio.Future[Appended]:
        """What becomes of it. The future may raise _RefusedTogetherError."""
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self.waiting.append((batch, future))
        self._byte_count += len(batch.records)
        self._metered_bytes += batch.metered_bytes
        self._record_count += batch.record_count
        return future

    def add_first(self) -> None:
        """The client that came first has not gone meanwhile."""
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self.waiting.insert(0, (self._first, future))

    def forget_those_who_have_gone(self) -> None:
        """Nothing has left: whoever does not wait any more was never there."""
        self.waiting = [(batch, future) for batch, future in self.waiting if not future.done()]

    async def outcome(self, future: asyncio.Future[Appended]) -> Appended:
        """What becomes of one of them. Where all of their clients have gone, nobody asks on."""
        try:
            return await future
        finally:
            gone = future.cancelled() and self.sending is not None
            if gone and all(one.done() for _, one in self.waiting):
                assert self.sending is not None
                self.sending.cancel()

    def whole(self) -> StoredBatch:
        """The batch of all who wait."""
        batches = [batch for batch, _ in self.waiting]
        return StoredBatch(
            records=b"".join([batch.records for batch in batches]),
            record_count=sum([batch.record_count for batch in batches]),
            metered_bytes=sum([batch.metered_bytes for batch in batches]),
            op_units=sum([batch.op_units for batch in batches]),
        )

    def acknowledge(self, whole: Appended) -> None:
        """Tell each its part. Raises InternalError, and nobody was told, where the answer is not
        that of one batch with one timestamp."""
        seq_num, timestamp_ms = whole.ack.start.seq_num, whole.ack.start.timestamp_ms
        record_count = sum([batch.record_count for batch, _ in self.waiting])
        wanted = Position(SeqNum(seq_num + record_count), timestamp_ms)
        if whole.ack.end != wanted or whole.ack.is_repeated:
            raise InternalError("the leader's acknowledgement is of something else")
        start = whole.ack.start
        for batch, future in self.waiting:
            end = Position(SeqNum(start.seq_num + batch.record_count), timestamp_ms)
            if not future.done():
                future.set_result(Appended(AppendAck(start, end, end), whole.stages))
            start = end

    def refuse(self, refusal: ServiceError) -> None:
        """Tell those who wait. Who is alone in the end hears it as it is."""
        of_one = not (refusal.may_have_taken_effect or isinstance(refusal, OF_ALL))
        together = len(self.waiting) > 1 and of_one
        for _, future in self.waiting:
            if not future.done():
                own = _copied(refusal)
                future.set_exception(_RefusedTogetherError(own) if together else own)

    def leave(self) -> None:
        """Let go of whoever was told nothing: the process ends."""
        for _, future in self.waiting:
            future.cancel()
