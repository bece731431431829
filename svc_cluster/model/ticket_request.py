"""A read ticket as it is asked for. Source: contract 12.9."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svc_cluster.model.access import NameSet

TICKET_SECONDS_MAX: Final = 3600
"""A ticket holds for no longer; and for this long where nobody says."""


@dataclass(frozen=True, slots=True)
class TicketRequest:
    """`streams` are the names as the caller says them."""

    basin: str
    streams: NameSet
    seconds: int = TICKET_SECONDS_MAX
    """For how long it is to hold, 1 to TICKET_SECONDS_MAX."""
