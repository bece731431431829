"""What one turn of the event loop may look at: rows, bytes of them, and time, whatever ends first.

The last thing taken may go beyond it, as a row is known only when it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

BYTES_PER_TURN: Final = 1024 * 1024
"""Bytes of rows: some are as long as a record, where that did not go into a payload file."""

TURN_S: Final = 0.005
"""Seconds, as a row that is not in memory takes as long as the disk needs for it."""


class Budget:
    """Counts down what is left of a turn that begins now."""

    def __init__(self, rows: int, monotonic: Callable[[], float]) -> None:
        self._rows = rows
        self._bytes = BYTES_PER_TURN
        self._monotonic = monotonic
        self._end = monotonic() + TURN_S

    def is_spent(self) -> bool:
        return self._rows <= 0 or self._bytes <= 0 or self._monotonic() >= self._end

    def take(self, rows: int, size: int = 0) -> None:
        """So many rows were looked at, or something that costs as much, with so many bytes."""
        self._rows -= rows
        self._bytes -= size
