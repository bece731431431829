"""What groups have to carry out is done a bounded part at a time, in turns of the event loop.

One sync of the log may be what a thousand groups waited for, one read of a socket may bring
messages for all of them. Each has something to do then: it waits in line, and is visited in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

COMMANDS_PER_TURN: Final = 64
"""Commands that all groups of a node together work out, or put into entries, in one turn of the
event loop, as far as those can be told apart: what is one step stays one. Neither a long backlog
nor very many groups may silence heartbeats."""

VISIT_COMMANDS: Final = 4
"""A visit of a group costs about as much as so many commands, whatever is done there."""


class GroupTurns:
    """The line of a node. A group is in it once for each kind of work, so that it is as long as
    there are groups, times the kinds."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._line: deque[Callable[[], None]] = deque()
        self._is_asked = False
        """A turn is asked of the loop, or goes on."""
        self.left = COMMANDS_PER_TURN
        """Commands that are left of this turn. Who is visited has one at least; below 0, what was
        done was more than there was room for."""

    def __len__(self) -> int:
        """How many visits wait."""
        return len(self._line)

    def soon(self, visit: Callable[[], None]) -> None:
        """Call `visit` in one of the next turns, behind those that wait. No turn has a visit that
        was asked for in it: what a group brings about for itself does not go before the others."""
        self._line.append(visit)
        if not self._is_asked:
            self._is_asked = True
            self._loop.call_soon(self._turn)

    def spend(self, commands: int) -> None:
        """So many commands were worked out."""
        self.left -= commands

    def _turn(self) -> None:
        self.left = COMMANDS_PER_TURN
        due = len(self._line)
        try:
            while due > 0 and self.left > 0:
                due -= 1
                self._line.popleft()()
                self.left -= VISIT_COMMANDS
        finally:
            # what escapes a visit is its own fault: the others go on
            self._is_asked = bool(self._line)
            if self._is_asked:
                self._loop.call_soon(self._turn)
