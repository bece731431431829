"""Whether a process that says nothing could have said something: what the system tells of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

TURN_SHARE_MIN: Final = 0.1
"""A process that had this share of one processor has had turns enough to say a word."""
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_STATE, _USER_TICKS, _SYSTEM_TICKS = 0, 11, 12
"""Places behind the name, which may have spaces in it."""


class ProcessorTurns:
    """The turns that the main thread of one process, which its event loop is on, has had of a
    processor."""

    def __init__(self, pid: int) -> None:
        self._path = Path(f"/proc/{pid}/task/{pid}/stat")
        self._used = 0.0

    def were_missing(self, seconds: float) -> bool:
        """Whether it wants a processor and has hardly had one in the `seconds` since the last look.

        The host is too busy then, and the process does not hang. One that waits for something, or
        is stopped, wants none; one that runs in circles has had one."""
        try:
            facts = self._path.read_text().rpartition(") ")[2].split()
            used = (int(facts[_USER_TICKS]) + int(facts[_SYSTEM_TICKS])) / _TICKS_PER_SECOND
        except (OSError, ValueError, IndexError):
            return False  # it has ended, or nothing can be told here
        before, self._used = self._used, used
        return facts[_STATE] == "R" and used - before < TURN_SHARE_MIN * seconds
