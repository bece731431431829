"""What a node keeps in memory on behalf of others, under one bound.

Each part says how much it holds at the moment. What is new asks for admission; what a node owes to
the other replicas (votes, heartbeats, acknowledgements, the repair of logs) never does. The log is
the part that can give way: `log_allowance` says how much each group may keep of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.memory import MIB, MemoryPart

NODE_BYTES_MAX: Final = 320 * MIB
"""The default bound. With what the process and its store need themselves it stays below 700 MiB."""

LOG_SHARE: Final = 0.5
"""The share of the bound that the groups' logs are cut back to."""

PIECES_BYTES_MAX: Final = 16 * MIB
"""What a node may hold of the pieces of snapshots that it sends and takes, each with its encoding.
It is twice what the transfers under way need that keep to their numbers: a sender waits for room,
and a piece that finds none is not taken; its transfer begins again."""

LOOK_SECONDS: Final = 0.05
"""While nothing is admitted, the parts are asked again so often at most."""


class MemoryBudget:
    """This is the memory budget of one node."""

    def __init__(self, bytes_max: int, clock: Clock) -> None:
        self.bytes_max = bytes_max
        self._clock = clock
        self._parts: dict[str, Callable[[], int]] = {}
        self._known = 0
        self._admitted = 0
        """Bytes, since the parts were asked."""

        self._looked_at = float("-inf")
        self._refused: dict[str, Callable[[], int]] = {}
        self._not_admitted = 0
        self.pieces = pieces = MemoryPart(PIECES_BYTES_MAX)
        """The pieces of snapshots, on their way to other nodes and from them."""

        self.add("transfers", lambda: pieces.held, lambda: pieces.refused)

    def add(
        self, name: str, held: Callable[[], int], refused: Callable[[], int] | None = None
    ) -> None:
        """From now on `held` is asked what this part keeps, in bytes. And `refused` is asked how
        often it had no room of its own for what came."""
        self._parts[name] = held
        if refused is not None:
            self._refused[name] = refused

    def refused(self) -> dict[str, int]:
        """How often there was no room, by the part that what came would have belonged to."""
        counts = {name: refused() for name, refused in self._refused.items()}
        return {**counts, "requests": self._not_admitted}

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

    def held_beside(self, counted: Mapping[str, int]) -> int:
        """Bytes of all parts, where the caller has counted some of them in steps of its own."""
        others = (held() for name, held in self._parts.items() if name not in counted)
        return sum(counted.values()) + sum(others)

    def admit(self, byte_count: int) -> None:
        """A new request brings so much. Raises UnavailableError, without effect, when it does not
        fit into what is left."""
        if self._known + self._admitted + byte_count > self.bytes_max:
            if self._clock.monotonic() - self._looked_at >= LOOK_SECONDS:
                self.look()
            if self._known + self._admitted + byte_count > self.bytes_max:
                self._not_admitted += 1
                raise UnavailableError("the node holds as much in memory as it may")
        self._admitted += byte_count


def log_allowance(sizes: Iterable[int], bytes_max: int) -> int | None:
    """Return the greatest size such that logs cut back to it have `bytes_max` together. It is None
    where they have no more than that as they are. Small logs are not cut for the sake of large
    ones."""
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
