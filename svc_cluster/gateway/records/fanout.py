"""One upstream read at the tail of each followed stream, shared by all its followers here.

A follower that is at the tail waits for the next result of the shared read; one that has fallen
behind what is kept reads by itself until it has caught up, so the slow never hold back the others.
What waits for a slow client to read it is not held for it: it is read again when it is wanted.
What is shared was committed when it was read. It says nothing of the tail now: a follower that
wants to name a tail without records (a heartbeat) has it confirmed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import InternalError, ServiceError, StreamNotFoundError
from svc_cluster.base.log import get_logger
from svc_cluster.base.tasks import Tasks, start_task
from svc_cluster.gateway.cluster.backend import Backend, ReadResult
from svc_cluster.gateway.records.byte_cache import ByteCache
from svc_cluster.gateway.records.encoded_part import EncodedPart, PartKey
from svc_cluster.gateway.records.kept_batches import KeptBatches
from svc_cluster.gateway.records.tail_pushes import Pushed, TailPushes
from svc_cluster.gateway.request.fault_lines import FaultLines
from svc_cluster.model.read_bounds import ReadBounds, ReadStart, StartKind
from svc_cluster.model.record import SequencedBatch

KEPT_BYTES_MAX: Final = 2 * 1024 * 1024
"""The size of stored batches kept for each stream; who needs older ones reads by itself."""

RESULT_BYTES_MAX: Final = 1024 * 1024
"""A follower is given about so much at once."""

UPSTREAM_WAIT_MS: Final = 5_000
IDLE_SECONDS: Final = 5.0
"""The shared read ends when nobody has asked for its results for this long."""

BYTES_MAX: Final = 40 * 1024 * 1024
"""The bound of the whole gateway, whatever the number of followers and streams, unless it is chosen
otherwise: two fifths for what tails keep, two for what followers left, one for encodings."""

PAUSE_SECONDS: Final = 0.05
_UNBOUNDED: Final = ReadBounds(None, None, None)

log = get_logger("gateway.fanout")


class SharedTails:
    """The followed streams of one gateway."""

    def __init__(self, backend: Backend, clock: Clock, bytes_max: int = BYTES_MAX) -> None:
        """`bytes_max`: of all that is held here. What is oldest gives way: who needs it reads by
        itself."""
        self._backend = backend
        self._clock = clock
        self._faults = FaultLines(clock)
        self._kept = KeptBatches(bytes_max * 2 // 5)
        self._streams: dict[tuple[str, str], _Tail] = {}
        self._tasks = Tasks()
        self._draining = False
        self.encodings: ByteCache[PartKey, EncodedPart] = ByteCache(bytes_max // 5)
        """What one follower encoded, for the others who are given the same."""
        self.slow_reads = asyncio.Semaphore(1)
        """Taken for each read of a client that is slow: those who fell behind together also come
        back together, and everybody else would wait for all of them."""
        self._left: ByteCache[tuple[str, str, int], ReadResult] = ByteCache(bytes_max * 2 // 5)

    @property
    def held_bytes(self) -> int:
        return self._kept.held_bytes + self.encodings.held_bytes + self._left.held_bytes

    def drain(self) -> None:
        """From now on nobody waits: calls under way and later ones answer as if their time was
        over."""
        self._draining = True
        for tail in self._streams.values():
            tail.hurry()

    async def read(
        self, basin: str, stream: str, at: int, wait_ms: int, pushed: Pushed | None = None
    ) -> ReadResult:
        """What comes at `at` (a sequence number) or behind it: at once if it is there, else when it
        comes. After `wait_ms` without anything, a result without batches and with a tail that is
        linearizable as of then. `pushed` may be given what comes meanwhile, and is then at another
        place, and waits longer. Raises what the backend's read raises."""
        names = (basin, stream)
        if self._draining:
            wait_ms, pushed = 0, None
        tail = self._streams.get(names)
        if tail is None:
            tail = self._streams[names] = self._tail_of(names, at)
            self._tasks.spawn(self._keep(tail), "shared tail")
        return await tail.read(at, wait_ms, pushed)

    def _tail_of(self, names: tuple[str, str], at: int) -> _Tail:
        return _Tail(self._backend, self._clock, self._faults, names, at, self._kept)

    def at_hand(
        self,
        basin: str,
        stream: str,
        incarnation: tuple[int, int] | None,
        at: int,
        bytes_max: int = RESULT_BYTES_MAX,
    ) -> ReadResult | None:
        """What is held here of that stream from `at` on, about `bytes_max` of it. As its tail may
        have moved since, it is said to have more behind it."""
        found = self._left.pop((basin, stream, at))
        if found is None:
            tail = self._streams.get((basin, stream))
            found = None if tail is None else tail.kept(at, bytes_max)
        if found is None or found.incarnation != incarnation:
            return None
        return replace(found, start_seq_num=at, may_have_more=True, tail_is_of_now=False)

    def leave(self, basin: str, stream: str, at: int, result: ReadResult) -> None:
        """Hold what `result` has from `at` on for a while, unless it is held already."""
        tail = self._streams.get((basin, stream))
        if tail is not None and tail.kept(at) is not None:
            return
        rest = tuple([b for b in result.batches if b.placement.end_seq_num > at])
        size = sum([_size(batch) for batch in rest])
        self._left.put((basin, stream, at), replace(result, batches=rest), size)

    async def _keep(self, tail: _Tail) -> None:
        try:
            await tail.run()
        finally:
            # A follower that comes from now on makes a new one.
            if self._streams.get(tail.names) is tail:
                del self._streams[tail.names]
            tail.end()

    async def close(self) -> None:
        await self._tasks.cancel_all()

    def __len__(self) -> int:
        return len(self._streams)


class _Tail:
    """The tail of one stream: the latest batches, and who waits for the next."""

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        faults: FaultLines,
        names: tuple[str, str],
        at: int,
        all_kept: KeptBatches,
    ) -> None:
        self.names = names
        self._faults = faults
        self._all_kept = all_kept
        self._backend = backend
        self._clock = clock
        self._kept: deque[SequencedBatch] = deque()
        self._kept_bytes = 0
        self._begins = self._next = at
        """Sequence numbers: kept is everything from the one up to, and without, the other."""
        self._latest: ReadResult | None = None
        self._waiting: dict[asyncio.Future[bool], asyncio.TimerHandle] = {}
        """With what ends the wait of each."""
        self._pushes = TailPushes(self)
        self._collected: tuple[int, int, ReadResult] | None = None
        """What the last follower was given, from where on, and how much it asked for: those who
        were woken together are given the same."""
        self._failure: ServiceError | None = None
        self._used_at = clock.monotonic()
        self._hurried = False
        self._confirming: asyncio.Task[ReadResult] | None = None
        self._confirm_next: asyncio.Task[ReadResult] | None = None

    # -- upstream

    async def run(self) -> None:
        """Read on until nobody is interested any more, or the read fails."""
        try:
            while (
                self._waiting
                or self._pushes
                or self._clock.monotonic() - self._used_at < IDLE_SECONDS
            ):
                begun = self._clock.monotonic()
                # What is shared need only be committed: whoever names a tail has it confirmed.
                result = await self._read(self._next, UPSTREAM_WAIT_MS, committed=True)
                self._take(result)
                if not result.batches and self._clock.monotonic() - begun < PAUSE_SECONDS:
                    # Nothing came and nothing was waited for: asking at once would only spin.
                    await asyncio.sleep(PAUSE_SECONDS)
        except Exception as failure:
            if isinstance(failure, ServiceError) and not isinstance(failure, InternalError):
                self._failure = failure
                return
            self._faults.tell(log, "shared_tail_failed", failure)
            self._failure = InternalError("internal")

    def end(self) -> None:
        """Let whoever still waits be told, or read by itself."""
        self._all_kept.gone(self, self._kept_bytes)
        self._wake_all()

    def forget_one(self, at_least: int = 0) -> bool:
        """Whether the oldest batch of more than `at_least` was let go of."""
        if len(self._kept) <= at_least:
            return False
        self._collected = None
        gone = self._kept.popleft()
        self._kept_bytes -= _size(gone)
        self._begins = gone.placement.end_seq_num
        self._all_kept.shrank(_size(gone))
        return True

    def _forget_all(self) -> None:
        self._collected = None
        self._all_kept.shrank(self._kept_bytes)
        self._kept.clear()
        self._kept_bytes = 0
        self._begins = self._next

    def _take(self, result: ReadResult) -> None:
        latest = self._latest
        if latest is not None and latest.incarnation != result.incarnation:
            raise StreamNotFoundError("the stream that was read is deleted")
        self._latest = result
        self._collected = None
        if result.start_seq_num > self._next:
            # Trimmed beyond what is kept: who stands before that reads by itself.
            self._forget_all()
            self._begins = self._next = result.start_seq_num
            self._wake_all()
        if not result.batches:
            if result.may_have_more:
                raise InternalError("an unbounded read stopped early with nothing")
            return
        end = result.batches[-1].placement.end_seq_num
        if end <= self._next:
            raise InternalError("a read came back with nothing new")
        size = 0
        for batch in result.batches:
            self._kept.append(batch)
            size += _size(batch)
        self._kept_bytes += size
        self._next = end
        self._all_kept.grew(self, size)
        while self._kept_bytes > KEPT_BYTES_MAX and self.forget_one(at_least=1):
            pass
        self._wake()
        self._pushes.came()

    def _wake_all(self) -> None:
        self._wake()
        self._pushes.wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for future, timer in waiting.items():
            timer.cancel()
            if not future.done():
                future.set_result(True)

    # -- followers

    def hurry(self) -> None:
        """End all waiting."""
        self._hurried = True
        self._wake_all()

    async def read(self, at: int, wait_ms: int, pushed: Pushed | None = None) -> ReadResult:
        now = self._clock.monotonic()
        deadline = now + wait_ms / 1000
        while True:
            self._used_at = now
            if pushed is not None:
                at, deadline = pushed.at, max(deadline, pushed.quiet_until)
            if at < self._begins:
                return await self._read(at, 0)
            if at < self._next:
                return self._collect(at)
            if self._failure is not None:
                raise self._failure
            left = deadline - now
            if left <= 0 or self._hurried:
                return await self._confirmed(at)
            has_come = await self._wait(left, pushed)
            now = self._clock.monotonic()
            if not has_come and (pushed is None or pushed.quiet_until <= now):
                return await self._confirmed(at if pushed is None else pushed.at)

    async def _wait(self, seconds: float, pushed: Pushed | None) -> bool:
        """Whether something happened."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        # a timer and no task's timeout: thousands wait here for each record
        timer = loop.call_later(seconds, _is_over, future)
        if pushed is not None:
            self._pushes.add(future, pushed)
        else:
            self._waiting[future] = timer
        try:
            return await future
        finally:
            timer.cancel()
            self._waiting.pop(future, None)
            self._pushes.remove(future)

    @property
    def end_seq_num(self) -> int:
        """Behind what is kept."""
        return self._next

    def kept(self, at: int, bytes_max: int = RESULT_BYTES_MAX) -> ReadResult | None:
        """What is kept from `at` on; None: nothing, or not all of it."""
        return self._collect(at, bytes_max) if self._begins <= at < self._next else None

    def _collect(self, at: int, bytes_max: int = RESULT_BYTES_MAX) -> ReadResult:
        collected = self._collected
        if collected is not None and collected[:2] == (at, bytes_max):
            return collected[2]
        latest = self._latest
        assert latest is not None, "something is kept"
        # from the end on: most are at the tail and miss one batch of the thousands that are kept
        rest: list[SequencedBatch] = []
        for batch in reversed(self._kept):
            if batch.placement.end_seq_num <= at:
                break
            rest.append(batch)
        found: list[SequencedBatch] = []
        size = 0
        for batch in reversed(rest):
            if found and size + _size(batch) > bytes_max:
                break
            found.append(batch)
            size += _size(batch)
        result = ReadResult(
            start_seq_num=at,
            batches=tuple(found),
            tail=latest.tail,
            may_have_more=latest.may_have_more or found[-1].placement.end_seq_num < self._next,
            incarnation=latest.incarnation,
            cipher=latest.cipher,
        )
        self._collected = (at, bytes_max, result)
        return result

    async def _confirmed(self, at: int) -> ReadResult:
        """A read that began after this call did. All who ask while one is under way share the
        next."""
        if self._next != at:
            return await self._read(at, 0)
        if self._confirm_next is None:
            self._confirm_next = start_task(self._confirm(self._confirming), "confirm tail")
            self._confirm_next.add_done_callback(_look_at)
        result = await asyncio.shield(self._confirm_next)
        return result if result.start_seq_num == at else await self._read(at, 0)

    async def _confirm(self, before: asyncio.Task[ReadResult] | None) -> ReadResult:
        if before is not None:
            await asyncio.wait([before])
        self._confirming, self._confirm_next = self._confirm_next, None
        return await self._read(self._next, 0)

    async def _read(self, at: int, wait_ms: int, *, committed: bool = False) -> ReadResult:
        return await self._backend.read(
            *self.names,
            ReadStart(StartKind.SEQ_NUM, at),
            _UNBOUNDED,
            refuse_at_tail=False,
            wait_ms=wait_ms,
            # Nothing is opened here: each follower has a key of its own, or had been refused.
            has_key=True,
            committed=committed,
        )


def _size(batch: SequencedBatch) -> int:
    return len(batch.records)


def _is_over(future: asyncio.Future[bool]) -> None:
    """It has waited for long enough."""
    if not future.done():
        future.set_result(False)


def _look_at(task: asyncio.Task[ReadResult]) -> None:
    """A failure that nobody waits for any more is nobody's concern."""
    if not task.cancelled():
        task.exception()
