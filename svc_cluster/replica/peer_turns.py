"""How many messages of the other nodes are dealt with in one turn of the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

TURN_MESSAGES_MAX: Final = 128
"""Messages of all other nodes together that are dealt with before others have the event loop. Each
counts for one, and for one more for each MESSAGE_BYTES of it: entries are many small ones at the
worst. Behind each is a group that has something to do then, in the next turn."""

MESSAGE_BYTES: Final = 32


class PeerTurns:
    """The one of a node. Callers that found no room have their turns one after the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = TURN_MESSAGES_MAX
        self._is_asked = False
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def has_room(self) -> bool:
        """Whether one more message is dealt with in this turn."""
        return self._left > 0

    def take(self, size: int) -> None:
        """A message of so many bytes is dealt with."""
        self._left -= 1 + size // MESSAGE_BYTES
        self._ask()

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` when there is room again. A caller waits once at a time."""
        self._waiting.append(go_on)
        self._ask()

    def _ask(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_asked = False
        self._left = TURN_MESSAGES_MAX
        try:
            while self._waiting and self._left > 0:
                self._waiting.popleft()()
        finally:
            if self._waiting:
                self._ask()
