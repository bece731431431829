"""How much a follower that is behind asks for at once: as much as its client takes in a moment.

A large portion is cheaper by the byte, but it is read, encoded and sent in one go, while everybody
else waits. For a client that reads slowly it would also be held until it is wanted.
"""

from __future__ import annotations

from typing import Final

PORTION_BYTES_MIN: Final = 64 * 1024
PORTION_BYTES_MAX: Final = 1024 * 1024
"""What a node gives at most."""
MOMENT_SECONDS: Final = 0.25


class Pace:
    """The pace of one client."""

    __slots__ = ("portion_bytes",)

    def __init__(self) -> None:
        self.portion_bytes = PORTION_BYTES_MAX

    @property
    def is_slow(self) -> bool:
        """The client cannot be hurt by waiting for its next portion a little."""
        return self.portion_bytes == PORTION_BYTES_MIN

    def took(self, seconds: float) -> None:
        """The client has taken what it was sent last, after so long. The next portion is at most
        twice the last one, and as much smaller as it took longer than a moment."""
        wanted = self.portion_bytes * MOMENT_SECONDS / max(seconds, MOMENT_SECONDS / 2)
        self.portion_bytes = min(max(int(wanted), PORTION_BYTES_MIN), PORTION_BYTES_MAX)
