"""Wire form of the leases that one leader of the catalog hands on to the next.

Times are rounded up: what is told may end later than it does, never earlier.
"""

from __future__ import annotations

import math
from typing import Any, Final

from svc_cluster.catalog.leases import (
    GATEWAY_ID_CHARACTERS_MAX,
    GATEWAYS_MAX,
    LEASE_SECONDS_HERE,
    HandedLease,
    HandedLeases,
)
from svc_cluster.model.versions import FIRST

_MS_MAX: Final = math.ceil(LEASE_SECONDS_HERE * 1000)


class LeaseFormatError(Exception):
    """The message holds what no leader hands on."""


def put(out: Any, handed: HandedLeases) -> None:
    """`out` is a HandedLeases of replica.proto."""
    out.known = True
    out.earlier_ms_left = _ms(handed.earlier_seconds_left)
    for lease in handed.leases:
        out.leases.add(
            gateway_id=lease.gateway_id,
            version=lease.version,
            ms_left=_ms(lease.seconds_left),
            version_newest=lease.newest,
        )


def get(message: Any) -> HandedLeases | None:
    """None: the sender knows nothing. Raises LeaseFormatError."""
    if not message.known:
        return None
    if len(message.leases) > GATEWAYS_MAX:
        raise LeaseFormatError(f"{len(message.leases)} leases")
    leases = []
    for lease in message.leases:
        if len(lease.gateway_id) > GATEWAY_ID_CHARACTERS_MAX:
            raise LeaseFormatError("a gateway's id is shorter")
        newest = lease.version_newest or FIRST
        left = _seconds(lease.ms_left)
        leases.append(HandedLease(lease.gateway_id, lease.version, left, newest))
    return HandedLeases(_seconds(message.earlier_ms_left), tuple(leases))


def _ms(seconds: float) -> int:
    return min(math.ceil(seconds * 1000), _MS_MAX)


def _seconds(ms: int) -> float:
    if ms > _MS_MAX:
        raise LeaseFormatError(f"a lease of {ms} ms")
    return ms / 1000
