"""A state store in memory that loses after a crash what an unflushed one would lose.

For simulation and tests: it models writes that are readable at once and durable only after a flush
that was asked for, or after one that happened by itself at any moment.
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn

from svc_cluster.base.write_set import WriteSet
from svc_cluster.storage.read_pool import WAITING_MAX_DEFAULT
from svc_cluster.storage.state_store import (
    FETCHED_KEYS_MAX,
    ON_DISK,
    Finish,
    Peeked,
    StoreBusyError,
    StoreStalledError,
    unchanged,
)


class _Pairs:
    """An ordered map: a dict and its keys in order."""

    __slots__ = ("keys", "values")

    def __init__(self, values: dict[bytes, bytes] | None = None) -> None:
        self.values: dict[bytes, bytes] = {} if values is None else dict(values)
        self.keys = sorted(self.values)

    def apply(self, write_set: WriteSet) -> None:
        for key, value, end in write_set.ops:
            if value is not None:
                if key not in self.values:
                    insort(self.keys, key)
                self.values[key] = value
            elif end is not None:
                places = self._places(key, end)
                for one in self.keys[places]:
                    del self.values[one]
                del self.keys[places]
            elif self.values.pop(key, None) is not None:
                del self.keys[bisect_left(self.keys, key)]

    def scan(self, start: bytes, end: bytes, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        keys = self.keys[self._places(start, end)]
        for key in reversed(keys) if reverse else keys:
            yield key, self.values[key]

    def _places(self, start: bytes, end: bytes) -> slice:
        first = bisect_left(self.keys, start)
        return slice(first, max(first, bisect_left(self.keys, end)))


class MemorySnapshot:
    """A copy of one moment."""

    def __init__(self, pairs: _Pairs) -> None:
        self._pairs: _Pairs | None = pairs

    def get(self, key: bytes) -> bytes | None:
        return self._open().values.get(key)

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._open().scan(start, end, reverse=reverse)

    def close(self) -> None:
        self._pairs = None

    def _open(self) -> _Pairs:
        assert self._pairs is not None, "a closed snapshot is not read"
        return self._pairs


class KnownHarm:
    """What a test says, or a process before has met."""

    def __init__(self, generations: Iterable[int] = ()) -> None:
        self.generations = frozenset(generations)

    def forget(self, generation: int) -> None:
        self.generations -= {generation}


class MemoryStore:
    """Implements StateStore.

    `stall_probability` in [0, 1): share of writes that are refused. `flush_ms`: range of how long
    a flush takes, in milliseconds. `cold_share` in [0, 1]: share of the peeks that memory cannot
    answer; `fetch_ms`: range of how long the disk takes for each piece of a fetch, in milliseconds.
    `initial`: what the disk held.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        *,
        stall_probability: float = 0.0,
        flush_ms: tuple[float, float] = (1, 20),
        cold_share: float = 0.0,
        fetch_ms: tuple[float, float] = (0.1, 20),
        initial: dict[bytes, bytes] | None = None,
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._stall_probability = stall_probability
        self._flush_ms = flush_ms
        self.cold_share = cold_share
        self.fetch_ms = fetch_ms
        self.fetching = 0
        """Fetches that have not ended."""
        self._pairs = _Pairs(initial)
        self._durable = _Pairs(initial)
        self._unflushed: list[WriteSet] = []
        self._flushed_count = 0
        """Write sets ever made durable: those before `_unflushed`."""
        self._is_open = True
        self.harm = KnownHarm()

    def get(self, key: bytes) -> bytes | None:
        assert self._is_open, "a closed store is not read"
        return self._pairs.values.get(key)

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        assert self._is_open, "a closed store is not read"
        return self._pairs.scan(start, end, reverse=reverse)

    def peek(self, key: bytes) -> Peeked:
        if self.cold_share and self._rng.random() < self.cold_share:
            return ON_DISK
        return self.get(key)

    def fetch(
        self, keys: Sequence[bytes], finish: Finish = unchanged
    ) -> asyncio.Future[list[bytes | None]]:
        assert self._is_open, "a closed store is not read"
        if self.fetching >= WAITING_MAX_DEFAULT:
            raise StoreBusyError("too many reads wait for the disk")
        future: asyncio.Future[list[bytes | None]] = self._loop.create_future()
        values: list[bytes | None] = []

        def go_on() -> None:
            piece = keys[len(values) :][:FETCHED_KEYS_MAX]
            # what the disk finds at the end decides, not what was there when it began to look
            delay_s = self._fetch_s([self._pairs.values.get(key) for key in piece])
            self._loop.call_later(delay_s, read, piece)

        def read(piece: Sequence[bytes]) -> None:
            if future.done():
                return
            if not self._is_open:
                future.cancel()
                return
            some = [self._pairs.values.get(key) for key in piece]
            values.extend(some)
            if len(values) < len(keys) and all(value is None for value in some):
                go_on()
            else:
                future.set_result(finish(values))

        def ended(_: object) -> None:
            self.fetching -= 1

        self.fetching += 1
        future.add_done_callback(ended)
        go_on()
        return future

    def _fetch_s(self, _: list[bytes | None]) -> float:
        """Seconds that the disk takes for these values."""
        return self._rng.uniform(*self.fetch_ms) / 1000

    @staticmethod
    def fail(failure: BaseException) -> NoReturn:
        raise failure

    def write(self, write_set: WriteSet) -> None:
        assert self._is_open, "a closed store is not written"
        if self._stall_probability and self._rng.random() < self._stall_probability:
            raise StoreStalledError("the store is stalled")
        copy = WriteSet()
        copy.extend(write_set)
        self._pairs.apply(copy)
        self._unflushed.append(copy)

    def snapshot(self, *, fills_cache: bool = True) -> MemorySnapshot:
        assert self._is_open, "a closed store is not read"
        return MemorySnapshot(_Pairs(self._pairs.values))

    def flush(self, done: Callable[[], None]) -> None:
        assert self._is_open, "a closed store is not flushed"
        target = self._flushed_count + len(self._unflushed)

        def finished() -> None:
            if self._is_open:
                self._make_durable(target - self._flushed_count)
                done()

        delay_ms = self._rng.uniform(*self._flush_ms)
        self._loop.call_later(delay_ms / 1000, finished)

    @property
    def unflushed_bytes(self) -> int:
        return 0  # no flush of it takes room

    def reclaim(self) -> None:
        assert self._is_open, "a closed store is left alone"
        # nothing to do: what is deleted here holds nothing

    def close(self) -> None:
        self._is_open = False

    def crash(self) -> MemoryStore:
        """End this store as a power cut would, and return what the next start finds. That is
        everything up to the last completed flush and a random prefix of the write sets behind
        it."""
        self._is_open = False
        self._make_durable(self._rng.randint(0, len(self._unflushed)))
        return MemoryStore(
            self._loop,
            self._rng,
            stall_probability=self._stall_probability,
            flush_ms=self._flush_ms,
            cold_share=self.cold_share,
            fetch_ms=self.fetch_ms,
            initial=self._durable.values,
        )

    def _make_durable(self, count: int) -> None:
        """The first `count` unflushed write sets are on the disk; none if it is not positive."""
        if count <= 0:
            return
        for write_set in self._unflushed[:count]:
            self._durable.apply(write_set)
        del self._unflushed[:count]
        self._flushed_count += count
