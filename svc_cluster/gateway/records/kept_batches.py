"""How much all followed streams of a gateway keep together."""

from __future__ import annotations

from typing import Protocol


class Forgetting(Protocol):
    """What one stream keeps."""

    def forget_one(self, at_least: int = 0) -> bool:
        """Whether the oldest batch of more than `at_least` was let go of."""
        ...


class KeptBatches:
    """What all tails keep together: those that had nothing new for longest give way first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._tails: dict[Forgetting, None] = {}
        """Those that keep something, by when they had something new."""
        self.held_bytes = 0

    def grew(self, tail: Forgetting, size: int) -> None:
        """`tail` has something new; what it had last stays in any case, for those who wait."""
        self._tails.pop(tail, None)
        self._tails[tail] = None
        self.held_bytes += size
        while self.held_bytes > self._bytes_max:
            oldest = next(iter(self._tails))
            if not oldest.forget_one(at_least=int(oldest is tail)):
                if oldest is tail:
                    return
                del self._tails[oldest]

    def shrank(self, size: int) -> None:
        self.held_bytes -= size

    def gone(self, tail: Forgetting, size: int) -> None:
        """Nobody comes to it any more."""
        self.held_bytes -= size
        self._tails.pop(tail, None)
