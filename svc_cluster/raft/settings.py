"""The timing and the sizes of a group. Must be alike on every node of a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from svc_cluster.raft.group import ENTRY_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftSettings:
    """Times in seconds, sizes in bytes."""

    heartbeat: float = 0.1
    election_min: float = 0.5
    """A follower that hears nothing waits a random time in `[election_min, election_max)`."""

    election_max: float = 1.0
    leader_fallback: float = 1.5
    """A leader that no quorum answers for this long steps down."""

    append_batch_bytes: int = 4 * 1024 * 1024
    """Entries of one message: as many as reach this. One entry is always shorter, so that the
    engine never splits an entry over messages."""

    entry_bytes_max: int = ENTRY_BYTES_MAX
    in_flight_bytes_max: int = 8 * 1024 * 1024
    """Entries sent to a peer and not yet acknowledged; behind it only heartbeats are sent."""

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
