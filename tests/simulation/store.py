"""The state store of a simulated node, which can be stalled for a while."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator

from svc_cluster.base.write_set import WriteSet
from svc_cluster.storage.state_store import ON_DISK, Peeked, StoreStalledError
from tests.memory_store import MemoryStore
from tests.simulation.loop import SimLoop

FLUSH_MS = (1.0, 200.0)
COLD_SHARE = 0.3
FETCH_MS = (0.1, 5.0)


Effect = Callable[[str], None]


class StallingStore(MemoryStore):
    """A memory store with a switch. After `crash` this object changes nothing that lasts."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        initial: dict[bytes, bytes] | None = None,
    ) -> None:
        super().__init__(
            loop,
            rng,
            flush_ms=FLUSH_MS,
            cold_share=COLD_SHARE,
            fetch_ms=FETCH_MS,
            initial=initial,
        )
        self._own_loop = loop
        self._own_rng = rng
        self._dead = False
        self.stall_share = 0.0
        """Share of writes that are refused."""
        self.on_effect: Effect | None = None
        """Told of each step that lasts, right behind it."""
        self.on_disk: Callable[[bytes], bool] | None = None
        """Of a key: whether only the disk can tell about it. None: now and then one is drawn."""
        self.read_s = 0.0
        """How long the disk takes for each value under such a key: who reads one without leaving
        the event loop keeps that for so long, with everything that runs on it."""

    def write(self, write_set: WriteSet) -> None:
        if self.stall_share and self._own_rng.random() < self.stall_share:
            raise StoreStalledError("the store is stalled")
        super().write(write_set)
        if self.on_effect is not None:
            discards = any(end is not None for _, _, end in write_set.ops)
            self._effect("store discard" if discards else "store write")

    def peek(self, key: bytes) -> Peeked:
        if self.on_disk is None:
            return super().peek(key)
        return ON_DISK if self.on_disk(key) else self._pairs.values.get(key)

    def get(self, key: bytes) -> bytes | None:
        value = super().get(key)
        if value is not None:
            self._wait_for(key)
        return value

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        for pair in super().scan(start, end, reverse=reverse):
            self._wait_for(pair[0])
            yield pair

    def _wait_for(self, key: bytes) -> None:
        if self.on_disk is not None and self.read_s and self.on_disk(key):
            assert isinstance(self._own_loop, SimLoop)
            self._own_loop.keep(self.read_s)

    def _fetch_s(self, values: list[bytes | None]) -> float:
        if self.on_disk is None:
            return super()._fetch_s(values)
        return self.read_s * sum(value is not None for value in values)

    def flush(self, done: Callable[[], None]) -> None:
        def flushed() -> None:
            self._effect("store flush done")
            if not self._dead:
                done()

        super().flush(flushed)
        self._effect("store flush begin")

    def pairs(self) -> dict[bytes, bytes]:
        """Everything in it, as a reader sees it."""
        return dict(self.scan(b"", b"\xff" * 64))

    def crash(self, keeps: float | None = None) -> StallingStore:
        """What the next start finds; `keeps` is the share of the unflushed writes that survive,
        drawn when it is None. A process that dies in the middle of a step finishes that step on
        this object, which is nobody's any more."""
        self._dead = True
        self.on_effect = None
        count = len(self._unflushed)
        drawn = self._own_rng.randint(0, count)
        self._make_durable(drawn if keeps is None else round(keeps * count))
        return StallingStore(self._own_loop, self._own_rng, self._durable.values)

    def _effect(self, kind: str) -> None:
        if self.on_effect is not None:
            self.on_effect(kind)
