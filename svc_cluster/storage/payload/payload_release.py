"""When a payload file may be used again.

Four steps, each flush doing the next one of some files:

1. A flush begins, and no row points into the file any more: whatever removed the rows is in this
   flush. Nor has the log an entry there, so that nothing of it is still to be applied.
2. The flush is complete: a restart finds no such row either. The file's references are deleted.
3. The next flush is complete: a restart does not miss the file. The log is synced, so that its
   bases, behind which a restart needs no payload, are as they were seen.
4. Every view that may have seen such a row is closed, and no holes are being made. The file is
   free.

A crash between any two repeats them, or finds at its start that nothing names the file.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Final, Protocol

from svc_cluster.base.write_set import WriteSet
from svc_cluster.storage.payload.budget import Budget
from svc_cluster.storage.payload.open_views import Views
from svc_cluster.storage.payload.payload_files import PayloadFiles
from svc_cluster.storage.payload.payload_frame import PayloadPlace
from svc_cluster.storage.payload.payload_space import RANGE_ROWS
from svc_cluster.storage.payload.pointer import decode_pointer
from svc_cluster.storage.payload.references import References, rows_of
from svc_cluster.storage.state_store import StateStore, StoreStalledError

FILES_PER_FLUSH: Final = 64
"""So many files are looked at when a flush begins; the next flush goes on behind them."""

ROWS_PER_FLUSH: Final = 4096
"""So many rows are looked at when a flush begins, a range of them counting as some more, unless
bytes or time end first; the next flush goes on there."""

ROWS_PER_LOOK: Final = 256
"""So many rows of an owner are looked at for one that points into a file; a later look goes on
behind them."""


class PlacesOfLog(Protocol):
    """What the log needs of the files."""

    def placed_numbers(self) -> set[int]:
        """The files in which entries stand that a restart would read."""
        ...

    def places(self) -> list[PayloadPlace]:
        """Where these entries stand."""
        ...

    def sync(self, done: Callable[[], None]) -> None:
        """Call `done` once everything appended so far is on the disk."""
        ...


@dataclass(frozen=True, slots=True)
class _Dying:
    """A file that nothing new can point into."""

    number: int
    newest_view: int
    """The newest view that may have seen a row that points into it."""


class PayloadRelease:
    """Takes the steps. All of it runs on the event loop."""

    def __init__(
        self,
        store: StateStore,
        files: PayloadFiles,
        log: PlacesOfLog,
        references: References,
        views: Views,
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._files = files
        self._log = log
        self._references = references
        self._views = views
        self._monotonic = monotonic
        self._dying: set[int] = set()
        self._unnamed: list[_Dying] = []
        """Files whose references were deleted, by a write that no flush has covered."""
        self._unread: list[_Dying] = []
        """Files behind the third step."""
        self._looked_to = 0
        self._is_stopped = False

    @property
    def dying(self) -> Set[int]:
        """Files behind the first step."""
        return self._dying

    def stop(self) -> None:
        """Take no further step: the store is about to be closed. A next start goes on."""
        self._is_stopped = True

    def flush_begins(self) -> Callable[[], None]:
        """Everything written so far is part of a flush. The result is to be called behind its
        end."""
        unnamed, self._unnamed = self._unnamed, []
        newest = self._views.newest
        dead = [_Dying(number, newest) for number in self._dead_now()]
        self._dying.update(file.number for file in dead)

        def flushed() -> None:
            if self._is_stopped:
                return
            for file in dead:
                self._forget(file)
            if unnamed:
                self._log.sync(lambda: self._unread.extend(unnamed))
            self._retire()

        return flushed

    def _dead_now(self) -> list[int]:
        closed = sorted([*self._files.closed_numbers(), *self._files.lost])
        behind = [number for number in closed if number > self._looked_to]
        looked = (behind or closed)[:FILES_PER_FLUSH]
        if not looked:
            return []
        needed = self._log.placed_numbers() | self._dying
        budget = Budget(ROWS_PER_FLUSH, self._monotonic)
        dead: list[int] = []
        for number in looked:
            if number not in needed:
                is_pointed_into = self._is_pointed_into(number, budget)
                if is_pointed_into is None:
                    break
                if not is_pointed_into:
                    dead.append(number)
            self._looked_to = number
        return dead

    def _is_pointed_into(self, number: int, budget: Budget) -> bool | None:
        """Tell whether any row does. An owner without one is left out from then on, as nothing new
        comes to point into the file: one of very many streams is looked through once. None: the
        budget was spent before that was known, and a next look goes on from there."""
        for owner in self._references.owners(number):
            if budget.is_spent():
                return None
            budget.take(RANGE_ROWS)
            rows = self._store.scan(*self._references.range_of(number, owner))
            for count, (key, row) in enumerate(rows, start=1):
                pointer = decode_pointer(key, row)
                if pointer is not None and pointer.place.number == number:
                    return True
                budget.take(1, len(row))
                if count == ROWS_PER_LOOK:
                    self._references.begin_behind(number, owner, key)
                    return True  # for all that is known
                if budget.is_spent():
                    self._references.begin_behind(number, owner, key)
                    return None
            self._references.leave_out(number, owner)
        return False

    def _forget(self, file: _Dying) -> None:
        write_set = WriteSet()
        write_set.delete_range(*rows_of(file.number))
        try:
            self._store.write(write_set)
        except StoreStalledError:
            self._dying.discard(file.number)  # it is found again
            return
        self._references.forget(file.number)
        self._unnamed.append(file)

    def _retire(self) -> None:
        left: list[_Dying] = []
        for file in self._unread:
            if self._views.is_open(file.newest_view) or self._files.is_digging(file.number):
                left.append(file)
            else:
                self._dying.discard(file.number)
                self._files.retire(file.number)
        self._unread = left
