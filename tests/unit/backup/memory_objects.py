"""A place for backups in memory, which dies on demand before or behind any of its operations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from svc_cluster.backup.objects import ObjectInfo, Page, StoreBounds
from svc_cluster.base.ids import TimestampMs


class KilledError(BaseException):
    """The process is gone: nothing catches it."""


class StoppedClock:
    """Moves when it is told to."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def wall_ms(self) -> TimestampMs:
        return TimestampMs(self.now_ms)

    def monotonic(self) -> float:
        return self.now_ms / 1000


class MemoryObjects:
    """Implements ObjectStore."""

    place = "memory"

    def __init__(self, clock: StoppedClock) -> None:
        self.objects: dict[str, bytes] = {}
        self.modified_ms: dict[str, int] = {}
        self.operations = 0
        self.dies_at: int | None = None
        """The process ends ahead of the operation that is half of it; an odd one: behind its half,
        rounded up."""
        self.is_ahead_by_ms = 0
        """How much its own clock is ahead of everybody's."""
        self._clock = clock
        self.bounds = StoreBounds()

    def _step(self) -> bool:
        """Whether the process dies behind this operation."""
        self.operations += 1
        if self.dies_at is None or self.operations * 2 < self.dies_at:
            return False
        if self.operations * 2 == self.dies_at:
            raise KilledError
        return True

    async def put_new(self, name: str, data: bytes) -> bool:
        dies = self._step()
        await asyncio.sleep(0)  # others have a turn, as they have while a store works
        is_new = name not in self.objects
        if is_new:
            self.objects[name] = data
            self.modified_ms[name] = self._clock.now_ms + self.is_ahead_by_ms
        if dies:
            raise KilledError
        return is_new

    async def get(self, name: str) -> bytes | None:
        return self.objects.get(name)

    async def pages(self, prefix: str) -> AsyncGenerator[Page, None]:
        for each in self._found(prefix):
            yield [each]

    async def list(self, prefix: str) -> Page:
        await asyncio.sleep(0)
        found = self._found(prefix)
        self.bounds.check_names(len(found), self.place)
        return found

    def _found(self, prefix: str) -> Page:
        return [
            ObjectInfo(name, len(data), self.modified_ms[name])
            for name, data in sorted(self.objects.items())
            if name.startswith(prefix)
        ]

    async def delete(self, name: str) -> None:
        dies = self._step()
        self.objects.pop(name, None)
        if dies:
            raise KilledError

    async def sweep(self, before_ms: int) -> tuple[int, int]:
        return 0, 0

    async def close(self) -> None:
        """Nothing is held."""
