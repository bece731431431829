"""What the callers of a node have of its memory, each in all its conversations together.

A conversation has a credit, but a caller may have 64 conversations, and one that reads nothing
would have as many credits.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from svc_cluster.base.memory import MIB

CALLER_ROOM_BYTES_MAX: Final = 64 * MIB
"""Room of one caller for long answers, of reads and lists; its conversations divide it."""

CALLER_OWED_BYTES_MAX: Final = 16 * MIB
"""Bytes of other answers that one caller has not dealt with: they are short, and a gateway that
reads has less than a megabyte of them."""

OWED_BYTES_MAX: Final = 64 * MIB
"""The same of all callers together. Beyond it whoever has more than an even share is too much."""


class CallerShares:
    """The one of a node; callers are known by name."""

    def __init__(self) -> None:
        self._conversations: Counter[str] = Counter()
        self._owed: Counter[str] = Counter()
        self.owed_bytes = 0
        """Bytes of all callers together."""

    def begin(self, caller: str) -> None:
        self._conversations[caller] += 1

    def end(self, caller: str) -> None:
        self._conversations[caller] -= 1
        if not self._conversations[caller]:
            del self._conversations[caller]

    def room_bytes(self, caller: str) -> int:
        """The room for long answers of each of its conversations."""
        return CALLER_ROOM_BYTES_MAX // max(self._conversations[caller], 1)

    def owe(self, caller: str, byte_count: int) -> bool:
        """A short answer is made for a caller. Returns whether it leaves too much unread, so that
        the conversation that wants more is to end."""
        self._owed[caller] += byte_count
        self.owed_bytes += byte_count
        owed = self._owed[caller]
        if self.owed_bytes > OWED_BYTES_MAX and owed * len(self._owed) > self.owed_bytes:
            return True
        return owed > CALLER_OWED_BYTES_MAX

    def settle(self, caller: str, byte_count: int) -> None:
        """The caller has dealt with so much of it, or is gone."""
        self.owed_bytes -= byte_count
        self._owed[caller] -= byte_count
        if not self._owed[caller]:
            del self._owed[caller]
