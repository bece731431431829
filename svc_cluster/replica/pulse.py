"""What is known of another node by the beats that it sends: whether it lives, and still knows what
it agreed to."""

from __future__ import annotations

from enum import Enum
from typing import Final

from svc_cluster.raft.messages import Beat

SILENCE_SECONDS: Final = 1.0
"""A node of which no beat was heard for so long is lost."""

RECENT_SECONDS: Final = 0.6
"""A node that was heard within so long lives, as far as elections are concerned: more than two
beats, and less than what makes it lost, as voters that lose the same node do not all see it at the
same moment."""

DIFFERENCE_SECONDS: Final = 1.0
"""So long what two nodes know of each other's groups at rest may differ, which it does while marks
are under way; then lists are exchanged."""

EXCUSED_SECONDS: Final = 5.0
"""Behind so much silence groups rest without a node."""


class Heard(Enum):
    """What a beat says beyond that its node is there."""

    SAME = 1
    NEW_LIFE = 2
    """Another process than before: it knows of no agreement."""
    DIFFERS = 3
    """What rests by agreement has differed for too long."""


class Pulse:
    """The pulse of one other node."""

    def __init__(self, now: float) -> None:
        """`now`, here as everywhere: monotonic seconds."""
        self._boot: int | None = None
        self._heard_at = float("-inf")
        self._silent_since = now
        self._differs_since: float | None = None
        self.is_lost = True
        """It is so at first, and until it is heard."""

    def heard(self, beat: Beat, count: int, digest: int, now: float) -> Heard:
        """A beat came. `count` and `digest` are of the groups that rest here and that its sender
        leads."""
        is_new_life = self._boot is not None and beat.boot != self._boot
        self._boot, self._heard_at, self._silent_since = beat.boot, now, now
        self.is_lost = False
        if is_new_life:
            self._differs_since = None
            return Heard.NEW_LIFE
        if (beat.count, beat.digest) == (count, digest):
            self._differs_since = None
        elif self._differs_since is None:
            self._differs_since = now
        elif now - self._differs_since >= DIFFERENCE_SECONDS:
            self._differs_since = now
            return Heard.DIFFERS
        return Heard.SAME

    def falls_silent(self, now: float) -> bool:
        """Whether it is lost from now on, because it was silent for too long."""
        if self.is_lost or now - self._heard_at < SILENCE_SECONDS:
            return False
        self.is_lost = True
        return True

    def link_down(self) -> bool:
        """It cannot be sent to any more. Returns whether it is lost by that."""
        was_lost, self.is_lost = self.is_lost, True
        self._heard_at = float("-inf")
        return not was_lost

    def forgive(self, seconds: float, now: float) -> None:
        """This process stood still for so long: that was no silence of the other's."""
        self._heard_at = min(now, self._heard_at + seconds)

    def lives(self, now: float) -> bool:
        return not self.is_lost and now - self._heard_at < RECENT_SECONDS

    def is_excused(self, now: float) -> bool:
        return self.is_lost and now - self._silent_since >= EXCUSED_SECONDS
