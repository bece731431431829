"""Who was turned away, in few lines: one a minute for each caller, in a table of bounded size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LINE_SECONDS: Final = 60.0
CALLERS_MAX: Final = 256
"""Callers that are told apart; further ones share a line."""
OTHERS: Final = "others"


@dataclass(slots=True)
class _Caller:
    told_at: float
    untold: int = 0


class RefusedCallers:
    """Counts refusals between the lines about them."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` tells monotonic seconds."""
        self._now = now
        self._callers: OrderedDict[str, _Caller] = OrderedDict()
        """In the order of their last lines."""

    def refused(self, caller: str) -> int | None:
        """How many refusals the line about this one stands for, itself included; None: no line
        now. `caller` is what lines are told apart by."""
        now = self._now()
        self._forget(now)
        if caller not in self._callers and len(self._callers) >= CALLERS_MAX:
            caller = OTHERS
        known = self._callers.get(caller)
        if known is not None and now - known.told_at < LINE_SECONDS:
            known.untold += 1
            return None
        count = 1 if known is None else known.untold + 1
        self._callers[caller] = _Caller(now)
        self._callers.move_to_end(caller)
        return count

    def _forget(self, now: float) -> None:
        """Callers whose last line is so long ago that the next one says nothing of it."""
        while self._callers:
            first = next(iter(self._callers.values()))
            if now - first.told_at < 2 * LINE_SECONDS:
                return
            self._callers.popitem(last=False)

    def __len__(self) -> int:
        return len(self._callers)


def caller_of(peer: str) -> str:
    """The address of gRPC's `ipv4:10.0.0.1:5000`, without the port, which each connection has
    anew."""
    return peer.rpartition(":")[0] or peer
