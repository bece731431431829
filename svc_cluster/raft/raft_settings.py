"""The timing and the sizes of a group. Must be alike on every node of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svc_cluster.raft.group import ENTRY_BYTES_MAX

APPEND_ENTRIES_MAX: Final = 512
IN_FLIGHT_ENTRIES_MAX: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftSettings:
    """Times in seconds, sizes in bytes."""

    heartbeat: float = 0.1
    election_min: float = 0.5
    """A follower that hears nothing waits a random time in `[election_min, election_max)`, and
    for the grace of its ticks (`Tick.grace`)."""

    election_max: float = 1.0
    leader_fallback: float = 1.5
    """A leader that no quorum answers for this long, and the grace, steps down."""

    append_batch_bytes: int = 4 * 1024 * 1024
    """Entries of one message: as many as reach this. One entry is always shorter, so that the
    engine never splits an entry over messages."""

    append_entries_max: int = APPEND_ENTRIES_MAX
    """Entries of one message, however small: each costs whoever makes the message and takes it. At
    least 2, so that a follower sees what stands behind the entry that a message follows."""

    entry_bytes_max: int = ENTRY_BYTES_MAX
    in_flight_bytes_max: int = 8 * 1024 * 1024
    """Entries sent to a peer and not yet acknowledged; behind it only heartbeats are sent."""

    in_flight_entries_max: int = IN_FLIGHT_ENTRIES_MAX
    """The same as a number of entries, however small: a peer that lacks very many is sent so many,
    and those of one message more, in one turn of the leader."""

    committed_bytes_max: int = 4 * 1024 * 1024
    """Entries handed out by one `Ready`: as many as reach this."""

    def __post_init__(self) -> None:
        if not 0 < self.heartbeat * 3 < self.election_min < self.election_max:
            raise ValueError("wanted: 3 heartbeats < election_min < election_max")
        if self.leader_fallback < self.election_max:
            raise ValueError("leader_fallback must be at least election_max")
        if self.entry_bytes_max >= self.append_batch_bytes:
            raise ValueError("entry_bytes_max must be below append_batch_bytes")
        if self.in_flight_bytes_max < 1 or self.committed_bytes_max < 1:
            raise ValueError("byte limits must be positive")
        if self.append_entries_max < 2 or self.in_flight_entries_max < 1:
            raise ValueError("append_entries_max must be above 1, in_flight_entries_max positive")
