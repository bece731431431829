"""Series of numbers over a long time, held as numbers alone: eight bytes each.

Ninety days have 129,600 minutes. The cluster is asked for them two days at a time, and of what it
tells only what was asked for stays here.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Final

SPAN_SECONDS: Final = 2 * 86400
"""Asked for at a time. Buckets of every length begin where a span does."""

_NUMBER: Final = "Q"
_NUMBER_BYTES: Final = 8


def spans(start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of `[start, end)` in Unix seconds, cut at multiples of SPAN_SECONDS. Where that is
    empty it is the one part."""
    while True:
        until = min(start // SPAN_SECONDS * SPAN_SECONDS + SPAN_SECONDS, end)
        yield start, until
        if until >= end:
            return
        start = until


class Columns:
    """A number by bucket and name; 0 where none was added."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names`: the series that there are, whether anything is added to them or not."""
        self._at = array(_NUMBER)
        self._values = {name: array(_NUMBER) for name in names}

    @property
    def names(self) -> list[str]:
        return list(self._values)

    @property
    def held_bytes(self) -> int:
        return _NUMBER_BYTES * len(self._at) * (1 + len(self._values))

    def add(self, at: int, counted: Iterable[tuple[str, int]]) -> None:
        """Add the next bucket, which begins at the Unix second `at`; numbers are 0 to 2^64 - 1."""
        assert not self._at or at > self._at[-1], "buckets come in order, each once"
        rows = len(self._at)
        self._at.append(at)
        for name, number in counted:
            column = self._values.get(name)
            if column is None:
                column = self._values[name] = array(_NUMBER, bytes(_NUMBER_BYTES * rows))
            column.append(number)
        for column in self._values.values():
            if len(column) == rows:
                column.append(0)

    def series(self, name: str) -> Iterator[tuple[int, int]]:
        """The numbers of one name, in order of their buckets, with the second that each begins
        at."""
        return zip(self._at, self._values[name], strict=True)
