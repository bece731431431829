"""Who still reads the store as it was: space that they may look at is not given away."""

from __future__ import annotations


class Views:
    """Reads and snapshots that are open, in the order of their beginnings."""

    def __init__(self) -> None:
        self._next = 0
        self._open: dict[int, None] = {}

    def begin(self) -> int:
        """Returns what is to be given to `end`."""
        self._next += 1
        self._open[self._next] = None
        return self._next

    def end(self, view: int) -> None:
        """What was ended before is left alone."""
        self._open.pop(view, None)

    @property
    def newest(self) -> int:
        """Every view that is open now began at this or before it."""
        return self._next

    def is_open(self, newest: int) -> bool:
        """Whether any of the views that began up to `newest` is open."""
        return next(iter(self._open), newest + 1) <= newest
