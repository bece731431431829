"""Gives back what nothing needs of payload files that hold something else as well.

A round, as soon as more may be held in vain than the settings allow:

1. Every file that gets nothing more is walked through: how much of it is needed?
2. Those with most in vain are walked through once more, for the stretches that nothing needs.
3. A flush that began behind that is complete: a restart finds no row that points there either. The
   log is synced, so that the bases behind which a restart needs no payload are as they were seen.
4. Every view that was open when that flush began is closed. Now the stretches become holes.

A crash between any two leaves what a next round finds, or holes where nothing is needed: it needs
no note of its own, and nothing is written twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from svc_cluster.base.log import get_logger
from svc_cluster.base.seldom import Seldom
from svc_cluster.storage.holes import Stretch
from svc_cluster.storage.payload.budget import Budget
from svc_cluster.storage.payload.open_views import Views
from svc_cluster.storage.payload.payload_files import PayloadFiles
from svc_cluster.storage.payload.payload_frame import PayloadPlace
from svc_cluster.storage.payload.payload_release import PayloadRelease, PlacesOfLog
from svc_cluster.storage.payload.payload_space import (
    FileSpace,
    FileWalk,
    allowed_dead_bytes,
    holes_beside,
    spaces,
    worth_holes,
)
from svc_cluster.storage.payload.references import References
from svc_cluster.storage.state_store import StateStore

log = get_logger("storage.payload")

ROWS_PER_STEP: Final = 256
"""Rows that are looked at in one turn of the event loop, unless its bytes or its time end first."""

STEP_PAUSE_S: Final = 0.05
"""Between two such turns."""

FILES_PER_ROUND: Final = 8
"""At most so many files get holes before all are looked at again."""


class _Plan(NamedTuple):
    """Stretches of one file that nothing needs and nothing new can need."""

    number: int
    holes: list[Stretch]
    newest_view: int
    """The newest view that may have seen a row that points there."""


class PayloadHoles:
    """Takes the steps. All of it runs on the event loop."""

    def __init__(
        self,
        store: StateStore,
        files: PayloadFiles,
        log: PlacesOfLog,
        release: PayloadRelease,
        references: References,
        views: Views,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._store = store
        self._files = files
        self._log = log
        self._release = release
        self._references = references
        self._views = views
        self._loop = loop
        self._live: dict[int, int] = {}
        """Bytes of each file that were needed when it was last walked through."""
        self._freed = float("inf")
        """Bytes that may have become needless since the last round began. What an earlier process
        has left behind is not known."""
        self._to_walk: deque[int] = deque()
        self._walk: FileWalk | None = None
        self._is_choosing = False
        """The files that get holes are walked through now, the others were before."""
        self._in_log: dict[int, list[PayloadPlace]] = {}
        """By file, what the log needed when this walk, or one before it, began."""
        self._walked: list[tuple[int, list[Stretch]]] = []
        """Stretches of the round under way that no flush has covered."""
        self._unread: list[_Plan] = []
        self._waits = 0
        """Syncs of the log, and files with holes in the making."""
        self._timer: asyncio.TimerHandle | None = None
        self._failures = Seldom()
        self._is_stopped = False
        self.hole_bytes = 0
        """Bytes given back in this process."""

    @property
    def is_busy(self) -> bool:
        """A round is under way."""
        return self._is_walking() or bool(self._walked or self._unread or self._waits)

    def _is_walking(self) -> bool:
        return self._walk is not None or bool(self._to_walk)

    def spaces(self) -> list[FileSpace]:
        """What is known of the files that get nothing more. Those that are free soon as they are
        need no holes, and are left out."""
        dying = self._release.dying
        closed = [one for one in self._files.closed_numbers() if one not in dying]
        return spaces({one: self._files.held_bytes(one) for one in closed}, self._live)

    def stop(self) -> None:
        """Take no further step: the store is about to be closed."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def note(self, freed: Iterable[tuple[bytes, bytes, int | None]]) -> None:
        """These ranges of keys, with about as many bytes in them, are deleted."""
        for _, _, size in freed:
            self._freed += float("inf") if size is None else size

    def flush_begins(self) -> Callable[[], None]:
        """Everything written so far is part of a flush. The result is to be called behind its
        end."""
        newest = self._views.newest
        covered = [_Plan(*walked, newest) for walked in self._walked]
        self._walked = []
        self._waits += bool(covered)

        def flushed() -> None:
            if self._is_stopped:
                return
            if covered:
                self._log.sync(lambda: self._synced(covered))
            self._dig()
            self._look()

        return flushed

    def step(self) -> None:
        """Look at some rows."""
        budget = Budget(ROWS_PER_STEP, self._loop.time)
        while self._is_walking() and not self._is_stopped and not budget.is_spent():
            if self._walk is None:
                number = self._to_walk.popleft()
                self._walk = self._walk_of(number) if self._is_there(number) else None
            elif not self._is_there(self._walk.number):
                self._walk = None  # it died meanwhile, and needs no holes
            if self._walk is not None:
                self._walk.step(self._store, budget)
                if self._walk.is_done:
                    self._passed(self._walk)
                    self._walk = None
            budget.take(1)  # behind the step: each begins with something left
            if not self._is_walking():
                self._ended()
        if self._is_walking():
            self._step_soon()

    def _step_by_timer(self) -> None:
        try:
            self.step()
        except Exception as failure:  # or no file ever got holes again in this process
            self._walk = None
            self._to_walk.clear()
            self._freed = float("inf")  # what was seen of this round is of no use
            if (count := self._failures.note(self._loop.time())) is not None:
                log.error("payload_holes_failed", count=count, exc_info=failure)

    def _look(self) -> None:
        """Begin a round if there may be something to do and none is under way."""
        if self.is_busy or not self._files.can_dig:
            return
        files = self.spaces()
        dead = sum(file.dead_bytes for file in files)
        if files and self._freed + dead > self._allowed(files):
            self._freed = 0.0
            self._is_choosing = False
            self._begin_walks([file.number for file in files])

    def _begin_walks(self, numbers: Iterable[int]) -> None:
        self._in_log = {}
        for place in self._log.places():
            self._in_log.setdefault(place.number, []).append(place)
        self._to_walk.extend(numbers)
        self._step_soon()

    def _step_soon(self) -> None:
        if not self._is_stopped:
            self._timer = self._loop.call_later(STEP_PAUSE_S, self._step_by_timer)

    def _walk_of(self, number: int) -> FileWalk:
        references = self._references
        ranges = [references.range_of(number, owner) for owner in references.owners(number)]
        return FileWalk(number, ranges, self._in_log.get(number, ()))

    def _passed(self, walk: FileWalk) -> None:
        self._live[walk.number] = walk.live_bytes
        if self._is_choosing:
            holes = holes_beside(walk.live(), self._files.length(walk.number))
            self._walked.append((walk.number, holes))
        else:
            self._freed += walk.log_bytes  # that dies without a delete

    def _ended(self) -> None:
        """All files in question are walked through."""
        if self._is_choosing:
            return
        files = self.spaces()
        here = {file.number for file in files}
        self._live = {number: size for number, size in self._live.items() if number in here}
        self._is_choosing = True
        chosen = worth_holes(files, self._allowed(files), FILES_PER_ROUND)
        if chosen:
            self._begin_walks(chosen)

    def _allowed(self, files: Iterable[FileSpace]) -> int:
        settings = self._files.settings
        live = sum(file.live_bytes for file in files)
        return allowed_dead_bytes(
            live, settings.dead_share_max, settings.dead_files_max * settings.file_bytes
        )

    def _synced(self, plans: list[_Plan]) -> None:
        self._waits -= 1
        self._unread += plans
        self._dig()

    def _dig(self) -> None:
        """Make holes where nobody reads any more."""
        left: list[_Plan] = []
        for plan in self._unread:
            if self._views.is_open(plan.newest_view):
                left.append(plan)
            elif not self._is_stopped and self._files.can_dig and self._is_there(plan.number):
                self._waits += 1
                self._files.dig(plan.number, plan.holes, self._dug)
        self._unread = left

    def _is_there(self, number: int) -> bool:
        return number in self._files.closed_numbers() and number not in self._release.dying

    def _dug(self, given_back: int) -> None:
        self._waits -= 1
        self.hole_bytes += given_back
