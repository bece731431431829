"""What the callers of a node have of its memory, each in all its conversations together.

A conversation has a credit, but a caller may have 64 conversations, and one that reads nothing
would have as many credits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from svc_cluster.base.memory import MIB

CALLER_ROOM_BYTES_MAX: Final = 64 * MIB
"""Room of one caller for long answers, of reads and lists; its conversations divide it."""

CALLER_WAITING_BYTES_MAX: Final = 16 * MIB
"""Bytes of other answers to one caller that wait here for it to read: they are short, and none
wait for long to a gateway that reads."""

WAITING_BYTES_MAX: Final = 64 * MIB
"""The same of all callers together. Beyond it whoever has more than an even share is too much."""

FREE_BYTES: Final = 64 * 1024
"""What one conversation has of it without being looked at."""


class Answered(Protocol):
    """One conversation in which answers are sent."""

    @property
    def name(self) -> str:
        """The caller's."""
        ...

    @property
    def waiting_bytes(self) -> int:
        """Bytes of short answers that have not been handed to its socket."""
        ...


class CallerShares:
    """The one of a node; callers are known by name."""

    def __init__(self) -> None:
        self._by_caller: dict[str, set[Answered]] = {}

    def begin(self, conversation: Answered) -> None:
        self._by_caller.setdefault(conversation.name, set()).add(conversation)

    def end(self, conversation: Answered) -> None:
        """Repeatable."""
        others = self._by_caller.get(conversation.name, set())
        others.discard(conversation)
        if not others:
            self._by_caller.pop(conversation.name, None)

    def room_bytes(self, caller: str) -> int:
        """The room for long answers of each of its conversations."""
        return CALLER_ROOM_BYTES_MAX // max(len(self._by_caller.get(caller, ())), 1)

    def is_too_much(self, conversation: Answered) -> bool:
        """Whether so much waits that this conversation is to end, in which something was added."""
        if conversation.waiting_bytes <= FREE_BYTES:
            return False
        own = _sum(self._by_caller.get(conversation.name, ()))
        if own > CALLER_WAITING_BYTES_MAX:
            return True
        each = [size for one in self._by_caller.values() if (size := _sum(one))]
        return sum(each) > WAITING_BYTES_MAX and own * len(each) > sum(each)


def _sum(conversations: Iterable[Answered]) -> int:
    return sum(one.waiting_bytes for one in conversations)
