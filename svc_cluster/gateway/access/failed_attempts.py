"""Attempts without a valid token, counted by client address. Pure: `now` is monotonic seconds.

Only what has failed is counted, and asked for after it failed: whoever shows a valid token never
gets here, be it from an address that guesses all day.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from typing import Final

BURST_SECONDS: Final = 30.0
"""How many seconds of its rate an address may use at once after a pause."""
ADDRESSES_MAX: Final = 10_000
"""Addresses remembered; beyond that the one that has failed least recently is forgotten."""
_V6_BITS: Final = 64
"""What one customer is given of IPv6."""


class FailedAttempts:
    """How much each address has failed of late."""

    def __init__(self, per_second: float | None) -> None:
        """`per_second`: of one address, in the long run; None: no limit."""
        self._per_second = per_second
        self._paid_at: OrderedDict[str, float] = OrderedDict()

    def change(self, per_second: float | None) -> None:
        """Another limit from now on; what was counted so far stays counted."""
        self._per_second = per_second

    def __len__(self) -> int:
        return len(self._paid_at)

    def note(self, address: str, now: float) -> int:
        """One more has failed. Returns in how many milliseconds the next one will be answered as
        such again; 0: this one may be."""
        if self._per_second is None:
            return 0
        key = network_of(address)
        paid_at = max(self._paid_at.pop(key, now), now)
        ahead = paid_at - BURST_SECONDS - now
        if ahead <= 0:
            paid_at += 1 / self._per_second
        self._paid_at[key] = paid_at
        if len(self._paid_at) > ADDRESSES_MAX:
            self._paid_at.popitem(last=False)
        return 0 if ahead <= 0 else max(1, math.ceil(ahead * 1000))


def network_of(address: str) -> str:
    """What is counted together: an IPv4 address, the first 64 bits of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, _V6_BITS), strict=False))
    return address
