"""How long gateways may still trust the access tokens that they have. Pure: `now` is the leader's
monotonic seconds.

A gateway's lease runs from when it *asked*; here it is counted from when it is answered, which is
later, and a little longer, for clocks that run at different speeds. So it is over there before it
is over here. Leases that an earlier leader gave were asked for before this one was elected: one
whole lease after that they are over too. Or the predecessor itself says which there are: it may
once it has seen the successor's term, because it gives none any more.

What is assumed of clocks: that no two monotonic ones differ in speed by more than 5 %, and that
none goes back or stands still while its process runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svc_cluster.model.versions import FIRST

LEASE_SECONDS: Final = 3.0
LEASE_SECONDS_HERE: Final = LEASE_SECONDS * 1.05
GATEWAYS_MAX: Final = 10_000
GATEWAY_ID_CHARACTERS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class HandedLease:
    gateway_id: str
    version: int
    """The version of the tokens that the gateway has confirmed."""
    seconds_left: float
    """Until it is over, from when this is told."""
    newest: int = FIRST
    """The newest active version that the gateway speaks, as far as that is known."""


@dataclass(frozen=True, slots=True)
class HandedLeases:
    """Every lease that a leader has given, of its predecessors too, once it gives none any more."""

    earlier_seconds_left: float
    """Until leases are over of which that leader itself was not told; 0: there are none."""
    leases: tuple[HandedLease, ...]


@dataclass(slots=True)
class _Lease:
    until: float
    version: int
    newest: int = FIRST


class LeaseTable:
    """The leases that this leader has given in its term, and what it was told of earlier ones."""

    def __init__(self) -> None:
        self._term = -1
        self._earlier_until = 0.0
        self._is_told = False
        self.is_handed_on = False
        """The leader of the next term has them."""
        self._leases: dict[str, _Lease] = {}

    def in_term(self, term: int, now: float) -> None:
        """What follows happens in `term`, whose leader was elected at `now` or before."""
        if term != self._term:
            self._term = term
            self._earlier_until = now + LEASE_SECONDS_HERE
            self._is_told = self.is_handed_on = False
            self._leases.clear()

    def hand_on(self, term: int, own_term: int, now: float) -> HandedLeases | None:
        """All leases, for the leader of `term`; None: others than this one may have given some, or
        this one still may. `own_term`: the newest that is known here."""
        if self._term != term - 1 or own_term < term:
            return None
        self._drop_ended(now)
        return HandedLeases(
            max(0.0, self._earlier_until - now),
            tuple(
                HandedLease(gateway_id, lease.version, lease.until - now, lease.newest)
                for gateway_id, lease in self._leases.items()
            ),
        )

    def handed_on(self, term: int) -> bool:
        """The leader of `term` has taken the leases over. Whether they were this one's."""
        is_next = self._term == term - 1
        self.is_handed_on |= is_next
        return is_next

    def wants_told(self, term: int, now: float) -> bool:
        """Whether it would help the leader of `term` to know its predecessor's leases."""
        return self._term == term and not self._is_told and now < self._earlier_until

    def take_over(self, term: int, handed: HandedLeases, now: float) -> bool:
        """What the leader of the term before `term` has handed on. `now` is when it came, behind
        when it was told: nothing is over here before it is over there. Whether it was of use."""
        if not self.wants_told(term, now):
            return False
        if len(self._leases.keys() | {one.gateway_id for one in handed.leases}) > GATEWAYS_MAX:
            return False
        for one in handed.leases:
            lease = self._leases.setdefault(one.gateway_id, _Lease(0.0, one.version))
            lease.until = max(lease.until, now + one.seconds_left)
            # what a gateway has said once is true from then on
            lease.version = max(lease.version, one.version)
            lease.newest = max(lease.newest, one.newest)
        self._earlier_until = min(self._earlier_until, now + handed.earlier_seconds_left)
        self._is_told = True
        return True

    def confirm(self, gateway_id: str, version: int) -> bool:
        """A gateway says which version it has taken over. Whether that is news."""
        lease = self._leases.get(gateway_id)
        if lease is None or version <= lease.version:
            return False
        lease.version = version
        return True

    def grant(self, gateway_id: str, version: int, now: float, newest: int = FIRST) -> bool:
        """Begin or go on with a lease. `version` is what the gateway had when it asked, `newest`
        the active version of a cluster that it speaks at most. False: too many gateways."""
        if gateway_id not in self._leases and len(self._leases) >= GATEWAYS_MAX:
            self._drop_ended(now)
            if len(self._leases) >= GATEWAYS_MAX:
                return False
        lease = self._leases.setdefault(gateway_id, _Lease(0.0, version))
        lease.until = now + LEASE_SECONDS_HERE
        lease.newest = newest
        return True

    def seconds_until(self, version: int, now: float) -> float:
        """How long some gateway may still go by what was before `version`, if none says more; 0:
        none does."""
        self._drop_ended(now)
        ends = [lease.until for lease in self._leases.values() if lease.version < version]
        return max(0.0, max(ends, default=now) - now, self._earlier_until - now)

    def spoken(self, now: float) -> tuple[dict[str, int], float]:
        """The newest active version that each gateway with a lease speaks. Second: for how many
        seconds there may be others of which nothing is known here."""
        self._drop_ended(now)
        known = {gateway_id: lease.newest for gateway_id, lease in self._leases.items()}
        return known, max(0.0, self._earlier_until - now)

    def count(self, now: float) -> int:
        """Gateways with a lease; 0 while an earlier leader's leases may not be over, of which
        nothing is known here."""
        self._drop_ended(now)
        return 0 if now < self._earlier_until else len(self._leases)

    def _drop_ended(self, now: float) -> None:
        for gateway_id in [g for g, lease in self._leases.items() if lease.until <= now]:
            del self._leases[gateway_id]

    def __len__(self) -> int:
        return len(self._leases)
