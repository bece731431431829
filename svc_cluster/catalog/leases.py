"""How long gateways may still trust the access tokens that they have. Pure: `now` is the leader's
monotonic seconds.

A gateway's lease runs from when it *asked*; here it is counted from when it is answered, which is
later, and a little longer, for clocks that run at different speeds. So it is over there before it
is over here. Leases that an earlier leader gave were asked for before this one was elected: one
whole lease after that they are over too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LEASE_SECONDS: Final = 3.0
LEASE_SECONDS_HERE: Final = LEASE_SECONDS * 1.05
GATEWAYS_MAX: Final = 10_000


@dataclass(slots=True)
class _Lease:
    until: float
    version: int


class LeaseTable:
    """The leases that this leader has given in its term."""

    def __init__(self) -> None:
        self._term = -1
        self._earlier_until = 0.0
        self._leases: dict[str, _Lease] = {}

    def in_term(self, term: int, now: float) -> None:
        """What follows happens in `term`, whose leader was elected at `now` or before."""
        if term != self._term:
            self._term = term
            self._earlier_until = now + LEASE_SECONDS_HERE
            self._leases.clear()

    def confirm(self, gateway_id: str, version: int) -> bool:
        """A gateway says which version it has taken over. Whether that is news."""
        lease = self._leases.get(gateway_id)
        if lease is None or version <= lease.version:
            return False
        lease.version = version
        return True

    def grant(self, gateway_id: str, version: int, now: float) -> bool:
        """Begin or go on with a lease; `version` is what the gateway had when it asked. False: too
        many gateways."""
        if gateway_id not in self._leases and len(self._leases) >= GATEWAYS_MAX:
            self._drop_ended(now)
            if len(self._leases) >= GATEWAYS_MAX:
                return False
        lease = self._leases.setdefault(gateway_id, _Lease(0.0, version))
        lease.until = now + LEASE_SECONDS_HERE
        return True

    def seconds_until(self, version: int, now: float) -> float:
        """How long some gateway may still go by what was before `version`, if none says more; 0:
        none does."""
        self._drop_ended(now)
        ends = [lease.until for lease in self._leases.values() if lease.version < version]
        return max(0.0, max(ends, default=now) - now, self._earlier_until - now)

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
