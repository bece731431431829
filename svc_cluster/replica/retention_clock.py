"""By which time a leader lets records go: by its own clock, as long as the others' agree with it.

Every envelope that a node sends says what its wall clock shows. A leader compares its own clock
with the median of those of its group's members: one that is far from it expires nothing, and
neither does one that knows too few of them. So a clock that is wrong by itself costs time at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import NodeId, TimestampMs
from svc_cluster.base.log import Logger

CLOCK_AWAY_MS_MAX: Final = 60_000
"""How far a leader's clock may be from the median of its group's before nothing expires."""

CLOCK_FRESH_SECONDS: Final = 5.0
"""How long a peer's reading counts: many heartbeats, and less than any clock drifts a second in."""

SAY_SECONDS: Final = 60.0
"""How often at most the log says how it stands with the clocks."""

UNKNOWN_SECONDS: Final = 10.0
"""Too few clocks known for this long is worth a line; a new leader hears of them in no time."""


@dataclass(slots=True)
class PeerClocks:
    """What the other nodes' wall clocks showed last, and when that was. Bounded by the nodes."""

    _heard: dict[NodeId, tuple[int, float]] = field(default_factory=dict)

    def heard(self, peer: NodeId, wall_ms: int, now: float) -> None:
        """`wall_ms`: what the peer said; `now`: monotonic seconds at its arrival here."""
        self._heard[peer] = wall_ms, now

    def of(self, members: Iterable[NodeId], now: float) -> list[int]:
        """What the clocks of those members show by now, in milliseconds, as far as that is known.

        It goes on from the reading by the monotonic clock, so that a step of the own wall clock
        between two readings looks like what it is."""
        out = []
        for member in members:
            wall_ms, at = self._heard.get(member, (0, float("-inf")))
            if now - at <= CLOCK_FRESH_SECONDS:
                out.append(wall_ms + round((now - at) * 1000))
        return out


def away_ms(own_ms: int, others_ms: Sequence[int], members: int) -> int | None:
    """Return how far the own clock is ahead of (below 0: behind) the median of a group's clocks. It
    is None when fewer of them than a quorum of `members` are known, the own one among them.

    Of an even number, that of the two in the middle counts that is further away: where two clocks
    contradict each other, nobody can tell which one is wrong.
    """
    known = sorted((own_ms, *others_ms))
    if len(known) < members // 2 + 1:
        return None
    middle = known[(len(known) - 1) // 2], known[len(known) // 2]
    return max((own_ms - one for one in middle), key=abs)


class Engine(Protocol):
    """What is to be known of a group."""

    @property
    def node_id(self) -> NodeId: ...

    @property
    def members(self) -> tuple[NodeId, ...]: ...


class RetentionClock:
    """The time by which one group lets go of what is old."""

    def __init__(self, engine: Engine, clock: Clock, peers: PeerClocks) -> None:
        self._engine = engine
        self._clock = clock
        self._peers = peers

    def away_ms(self) -> int | None:
        """See `away_ms`."""
        engine = self._engine
        others = [member for member in engine.members if member != engine.node_id]
        known = self._peers.of(others, self._clock.monotonic())
        return away_ms(self._clock.wall_ms(), known, len(engine.members))

    def wall_ms(self) -> TimestampMs | None:
        """Unix milliseconds; None while nothing may expire."""
        away = self.away_ms()
        if away is None or abs(away) > CLOCK_AWAY_MS_MAX:
            return None
        return self._clock.wall_ms()


class ClockWatch:
    """Says when the groups that a node leads let nothing go. One for each node."""

    def __init__(self, clock: Clock, log: Logger) -> None:
        self._clock = clock
        self._log = log
        self._unknown_since: float | None = None
        self._said: bool = False
        self._said_at = float("-inf")
        self.stopped = 0
        """Groups led here in which nothing expires."""
        self.away_ms = 0
        """The own clock from the median of a group's, where it is furthest; below 0: behind."""

    def look(self, distances: Sequence[int | None]) -> None:
        """To be called now and then, with the `away_ms` of the groups that are led here."""
        known = [away for away in distances if away is not None]
        unknown = len(distances) - len(known)
        away = sum(abs(distance) > CLOCK_AWAY_MS_MAX for distance in known)
        self.away_ms = max(known, key=abs, default=0)
        self.stopped = away + unknown
        now = self._clock.monotonic()
        if not unknown:
            self._unknown_since = None
        elif self._unknown_since is None:
            self._unknown_since = now
        lasts = self._unknown_since is not None and now - self._unknown_since >= UNKNOWN_SECONDS
        self._say(now, is_stopped=bool(away) or lasts)

    def _say(self, now: float, *, is_stopped: bool) -> None:
        if is_stopped == self._said and not is_stopped:
            return
        if now - self._said_at < SAY_SECONDS:
            return
        self._said, self._said_at = is_stopped, now
        if is_stopped:
            self._log.warning(
                "retention_stopped",
                groups=self.stopped,
                clock_away_ms=self.away_ms,
                reason="this node's clock is more than a minute from the median of its groups' "
                "clocks, or too few of them are known: nothing expires in groups led here",
            )
        else:
            self._log.info("retention_resumed", clock_away_ms=self.away_ms)
