"""What has arrived in part has bounds of its own: in bytes for a process, in time for a message.

Nobody can be answered for a part, and nobody knows whether the rest ever comes. Credit bounds what
one conversation keeps; nothing here knows a socket or a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

ARRIVING_BYTES_MAX: Final = 96 * 1024 * 1024
"""Bytes of messages that have arrived in part, in all conversations that a process accepted. It is
what five callers keep in part who use up the credit of all classes, and callers that follow the
rules keep little of it: a message up to a slice arrives whole. The caller that has most of it loses
a conversation where it is exceeded."""

ARRIVING_SECONDS_MAX: Final = 120.0
"""From the first look at an incomplete message, or frame, to the end of its conversation: twice as
long as anybody waits for an answer."""


class Arriving:
    """How long it has been since each incomplete part was seen first."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, int], float] = {}

    def look(self, now: float, parts: Iterable[tuple[str, int]]) -> float:
        """Return for how many seconds one of `parts` has been among them, at most. To be called now
        and then with all that is incomplete; `now` is monotonic."""
        self._since = {part: self._since.get(part, now) for part in parts}
        return max((now - since for since in self._since.values()), default=0.0)
