"""Appends of several clients to one stream go to its leader as one request.

The leader makes one command of what waits for it anyway (stream/append_run.py); here the way there
and back is shared too, which costs more than the append itself. What is joined are requests that
nothing sets apart: without conditions, keys, sessions and commands, and without timestamps of their
clients. All records of such a batch get one timestamp (stream/timestamping.py), so that the
acknowledgement of the whole says what each of its parts is acknowledged.

Nobody waits to be joined. An append goes by itself while none of its stream is under way; those
that come meanwhile leave together in the next turn of the event loop. A refusal without effect is
told to none of them: each then asks by itself, and hears what concerns it alone.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final, Protocol

from svc_cluster.base.errors import InternalError, ServiceError
from svc_cluster.base.ids import SeqNum
from svc_cluster.base.limits import BATCH_RECORDS_MAX
from svc_cluster.base.tasks import Tasks
from svc_cluster.model.leader_stages import LeaderStages
from svc_cluster.model.record import AppendAck, Position, StoredBatch

REQUESTS_MAX: Final = 128
"""Requests that leave as one."""

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

    def __init__(self, ask: AskLeader) -> None:
        self._ask = ask
        self._under_way: dict[Place, int] = {}
        """Requests to the leader, for each stream that has any."""
        self._open: dict[Place, _Run] = {}
        """What may still be joined; it leaves in the next turn."""
        self._tasks = Tasks()
        self.joined = 0
        """Requests that left in another one's."""

    @property
    def under_way(self) -> int:
        """How many requests to leaders are under way, or leave in the next turn."""
        return sum(self._under_way.values())

    async def append(
        self, basin: str, stream: str, batch: StoredBatch, deadline: float
    ) -> Appended:
        """The batch, which `joins`, is appended, in a request of its own or in one with others.
        Raises ServiceError."""
        place = (basin, stream)
        if place not in self._under_way or len(batch.records) > BYTES_MAX:
            return await self._ask_alone(place, batch, deadline)
        run = self._open.get(place)
        if run is None or not run.takes(batch):
            # the one that was open leaves as it is: its task has it
            self._open[place] = run = _Run(deadline)
            self._began(place)
            self._tasks.spawn(self._send(place, run), "append together")
        else:
            self.joined += 1
        try:
            return await run.add(batch)
        except _RefusedTogetherError:
            return await self._ask_alone(place, batch, deadline)

    async def close(self) -> None:
        """Nobody waits any more."""
        await self._tasks.cancel_all()

    async def _ask_alone(self, place: Place, batch: StoredBatch, deadline: float) -> Appended:
        self._began(place)
        try:
            return await self._ask(*place, batch, 1, deadline)
        finally:
            self._ended(place)

    async def _send(self, place: Place, run: _Run) -> None:
        try:
            if self._open.get(place) is run:
                del self._open[place]
            whole = await self._ask(*place, run.whole(), len(run.waiting), run.deadline)
            run.acknowledge(whole)
        except ServiceError as refusal:
            run.refuse(refusal)
        except Exception:
            run.refuse(InternalError("internal error"))
            raise
        finally:
            run.leave()
            self._ended(place)

    def _began(self, place: Place) -> None:
        self._under_way[place] = self._under_way.get(place, 0) + 1

    def _ended(self, place: Place) -> None:
        left = self._under_way[place] - 1
        if left:
            self._under_way[place] = left
        else:
            del self._under_way[place]


def joins(batch: StoredBatch) -> bool:
    """Whether nothing in the batch itself sets it apart from others."""
    return not (batch.commands or batch.timestamps_given or batch.sealed_for is not None)


class _RefusedTogetherError(Exception):
    """The whole was refused, without effect."""


class _Run:
    """The requests that leave as one."""

    __slots__ = ("_byte_count", "_metered_bytes", "_record_count", "deadline", "waiting")

    def __init__(self, deadline: float) -> None:
        """`deadline`: of the first, which ends before those of the others."""
        self.deadline = deadline
        self.waiting: list[tuple[StoredBatch, asyncio.Future[Appended]]] = []
        self._byte_count = self._metered_bytes = self._record_count = 0

    def takes(self, batch: StoredBatch) -> bool:
        return (
            len(self.waiting) < REQUESTS_MAX
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

    def whole(self) -> StoredBatch:
        """The batch of all."""
        if len(self.waiting) == 1:
            return self.waiting[0][0]
        return StoredBatch(
            records=b"".join([batch.records for batch, _ in self.waiting]),
            record_count=self._record_count,
            metered_bytes=self._metered_bytes,
            op_units=sum([batch.op_units for batch, _ in self.waiting]),
        )

    def acknowledge(self, whole: Appended) -> None:
        """Tell each its part. Raises InternalError, and nobody was told, where the answer is not
        that of one batch with one timestamp."""
        seq_num, timestamp_ms = whole.ack.start.seq_num, whole.ack.start.timestamp_ms
        wanted = Position(SeqNum(seq_num + self._record_count), timestamp_ms)
        if whole.ack.end != wanted or whole.ack.is_repeated:
            raise InternalError("the leader's acknowledgement is of something else")
        start = whole.ack.start
        for batch, future in self.waiting:
            end = Position(SeqNum(start.seq_num + batch.record_count), timestamp_ms)
            if not future.done():
                future.set_result(Appended(AppendAck(start, end, end), whole.stages))
            start = end

    def refuse(self, refusal: ServiceError) -> None:
        """Tell those who wait. Who was alone hears it as it is."""
        together = len(self.waiting) > 1 and not refusal.may_have_taken_effect
        for _, future in self.waiting:
            if not future.done():
                own = _RefusedTogetherError() if together else copy.copy(refusal)
                future.set_exception(own)

    def leave(self) -> None:
        """Let go of whoever was told nothing: the process ends."""
        for _, future in self.waiting:
            future.cancel()
