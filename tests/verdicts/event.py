"""One thing that a client did to a stream by its name, as it stands in a history of this room."""

from __future__ import annotations

from dataclasses import dataclass, field

Record = tuple[int, int, str]
"""(sequence number, timestamp, body)"""


@dataclass(frozen=True, slots=True)
class Event:
    """`did` is append, tail, read, create or delete. `ret` is None where no answer came. Attempts
    of one write through several gateways have one `request`."""

    did: str
    client: int
    gateway: int
    inv: int
    ret: int | None = None
    outcome: str = "unknown"
    """ok, unknown, gone (no such stream), place (refused for its number), token (for its fencing
    token), behind (the start of a read lies behind the tail)."""
    request: str = ""
    bodies: tuple[str, ...] = ()
    wanted_tail: int | None = None
    wanted_token: str | None = None
    sets_token: str | None = None
    """By its first record."""
    trims_to: int | None = None
    """By its last record."""
    start: int = 0
    """Where an append was put; where a read was asked to begin."""
    actual: int = 0
    """The tail that was told."""
    actual_token: str = ""
    records: tuple[Record, ...] = ()
    limited: bool = False
    """A read that may have ended before the tail."""
    life: int = -1
    """Which of the streams of that name answered; -1: none did."""


@dataclass(frozen=True, slots=True)
class History:
    """`ends`: what the store held of each stream of the name at its end, all of them in order."""

    events: tuple[Event, ...]
    ends: tuple[tuple[Record, ...], ...]
    planted: str = ""
    notes: dict[str, int] = field(default_factory=dict)
