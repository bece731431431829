"""Backups one after the other, for as long as the process lives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from svc_cluster.backup.backup_errors import BackupError
from svc_cluster.base.clock import Clock

EVERY_SECONDS_MIN: Final = 60
RETRY_SECONDS: Final = 600
"""Between a backup that failed and the next attempt, unless the interval is shorter."""


def due_in(last_at_ms: int | None, now_ms: int, every_seconds: int) -> float:
    """Seconds until the next backup begins: so long after the end of the last one, and at once
    where there is none. A last one of the future, by a clock that was put back, counts as none: it
    would put the next one off for as long as the clock was ahead. Pure."""
    if last_at_ms is None or last_at_ms > now_ms:
        return 0.0
    return max(every_seconds - (now_ms - last_at_ms) / 1000, 0.0)


class BackupSchedule:
    """Takes a backup whenever one is due. `last` tells when the last one was finished (Unix
    milliseconds, None for never), `take` makes one; what either raises as BackupError is said, and
    tried again after RETRY_SECONDS."""

    def __init__(
        self,
        last: Callable[[], Awaitable[int | None]],
        take: Callable[[], Awaitable[None]],
        every_seconds: int,
        clock: Clock,
        pause: Callable[[float], Awaitable[None]],
        say: Callable[[str], None],
    ) -> None:
        if every_seconds < EVERY_SECONDS_MIN:
            raise BackupError(f"--every is {every_seconds} s: use {EVERY_SECONDS_MIN} or more")
        self._last = last
        self._take = take
        self._every = every_seconds
        self._clock = clock
        self._pause = pause
        self._say = say

    async def run(self) -> None:
        """Does not return."""
        while True:
            try:
                wait = due_in(await self._last(), self._clock.wall_ms(), self._every)
                if not wait:
                    await self._take()
            except BackupError as cause:
                wait = float(min(RETRY_SECONDS, self._every))
                self._say(f"{cause} (the next attempt is in {wait:.0f} s)")
            await self._pause(wait)
