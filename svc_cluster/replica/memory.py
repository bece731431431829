"""What a node keeps in memory on behalf of others, under one bound.

Each part says how much it holds at the moment. What is new asks for admission; what a node owes to
the other replicas (votes, heartbeats, acknowledgements, the repair of logs) never does. The log is
the part that can give way: `log_allowance` says how much each group may keep of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import UnavailableError

MIB: Final = 1024 * 1024

NODE_BYTES_MAX: Final = 320 * MIB
"""The default bound. With what the process and its store need themselves it stays below 700 MiB."""

LOG_SHARE: Final = 0.5
"""Of the bound: how much of it the groups' logs are cut back to."""

LOOK_SECONDS: Final = 0.05
"""While nothing is admitted, the parts are asked again so often at most."""


class MemoryBudget:
    """Of one node."""

    def __init__(self, bytes_max: int, clock: Clock) -> None:
        self.bytes_max = bytes_max
        self._clock = clock
        self._parts: dict[str, Callable[[], int]] = {}
        self._known = 0
        self._admitted = 0
        """Bytes, since the parts were asked."""

        self._looked_at = float("-inf")
        self.refused = 0
        """Requests that were not admitted."""

    def add(self, name: str, held: Callable[[], int]) -> None:
        """From now on `held` is asked what this part keeps, in bytes."""
        self._parts[name] = held

    def held(self) -> dict[str, int]:
        """Bytes by part, as of now."""
        return {name: held() for name, held in self._parts.items()}

    @property
    def log_bytes_max(self) -> int:
        return int(self.bytes_max * LOG_SHARE)

    def look(self) -> int:
        """Ask all parts; returns the sum."""
        self._known = sum(held() for held in self._parts.values())
        self._admitted = 0
        self._looked_at = self._clock.monotonic()
        return self._known

    def admit(self, byte_count: int) -> None:
        """A new request brings so much. Raises UnavailableError, without effect, when it does not
        fit into what is left."""
        if self._known + self._admitted + byte_count > self.bytes_max:
            if self._clock.monotonic() - self._looked_at >= LOOK_SECONDS:
                self.look()
            if self._known + self._admitted + byte_count > self.bytes_max:
                self.refused += 1
                raise UnavailableError("the node holds as much in memory as it may")
        self._admitted += byte_count


def log_allowance(sizes: Iterable[int], bytes_max: int) -> int | None:
    """The greatest size such that logs cut back to it have `bytes_max` together; None where they
    have no more than that as they are. Small logs are not cut for the sake of large ones."""
    ordered = sorted(sizes)
    if sum(ordered) <= bytes_max:
        return None
    left = bytes_max
    for place, size in enumerate(ordered):
        share = left // (len(ordered) - place)
        if size > share:
            return share
        left -= size
    raise AssertionError("their sum is larger")
