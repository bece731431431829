"""The heads of requests that have begun and not ended, of all connections of one server together.

What is kept of a head until it ends costs several times its bytes, and anybody may begin one on
each of thousands of connections. All together are bounded: what does not fit ends the connection
whose head has been unfinished longest, since an honest head arrives at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

HEADS_BYTES_MAX: Final = 8 * 1024 * 1024
"""The largest size of unfinished heads, as they came. In memory it is up to four times as much: the
parser keeps each field by itself."""


class UnfinishedHead(Protocol):
    """A head that is being received."""

    drop: Callable[[], None]
    """End its connection at once, and keep nothing of it."""


class UnfinishedHeads:
    """Which heads are not finished, in the order in which they began, and their bytes."""

    def __init__(self, bytes_max: int = HEADS_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held: dict[UnfinishedHead, int] = {}
        self.bytes = 0
        """The size of all together; at most the bound whenever no call is under way."""

    def hold(self, head: UnfinishedHead, size: int) -> None:
        """So much of this head has come, in all. Drops heads, perhaps this one, until what is left
        fits."""
        self.bytes += size - self._held.get(head, 0)
        self._held[head] = size
        while self.bytes > self._bytes_max:
            oldest = next(iter(self._held))
            self.release(oldest)
            oldest.drop()

    def release(self, head: UnfinishedHead) -> None:
        """It has ended, or its connection has. Does nothing for one that is not held."""
        self.bytes -= self._held.pop(head, 0)
