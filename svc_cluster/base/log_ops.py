"""What a Raft group asks of stable storage, in the order in which it must reach the disk.

Shared by `raft` (which decides them) and `storage/wal` (which writes them); neither knows the
other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, Term


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a Raft log. `payload` is opaque here; its first byte is the engine's type."""

    log_index: LogIndex
    term: Term
    payload: bytes


@dataclass(frozen=True, slots=True)
class AppendEntries:
    """Entries that directly follow the log's last one; consecutive, never empty."""

    entries: tuple[LogEntry, ...]


@dataclass(frozen=True, slots=True)
class TruncateSuffix:
    """Remove every entry with an index at or above `first_removed`."""

    first_removed: LogIndex


@dataclass(frozen=True, slots=True)
class SetHardState:
    """Term and vote. Must be durable before a vote or a vote request leaves the node."""

    term: Term
    voted_for: NodeId | None


@dataclass(frozen=True, slots=True)
class SetCommit:
    """A commit index, only ordered behind the operations before it; never worth a sync alone."""

    commit_index: LogIndex


@dataclass(frozen=True, slots=True)
class TrimPrefix:
    """The log now begins behind `(log_index, term)`; entries up to there are in the state store."""

    log_index: LogIndex
    term: Term


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """The log is empty behind `(log_index, term)`; the state lives under `generation` from now."""

    log_index: LogIndex
    term: Term
    generation: Generation


@dataclass(frozen=True, slots=True)
class CreateReplica:
    """First frame of a replica: an empty log whose state lives under `generation`."""

    generation: Generation


@dataclass(frozen=True, slots=True)
class DestroyReplica:
    """Last frame of a replica. The group may get another one here, of a later placement."""


@dataclass(frozen=True, slots=True)
class Configure:
    """The replica leaves its configuration for `configuration`. Nothing above `last_index` is left
    of its log, it is in that one's first term, and has voted for nobody in it."""

    configuration: Configuration
    last_index: LogIndex
    known_term: Term = Term(0)
    """A later term, in which a damaged replica was already: it has forgotten by what."""

    @property
    def term(self) -> Term:
        """Terms never go back."""
        return max(self.configuration.first_term, self.known_term)


LogOp = (
    AppendEntries
    | TruncateSuffix
    | SetHardState
    | SetCommit
    | TrimPrefix
    | InstallSnapshot
    | CreateReplica
    | DestroyReplica
    | Configure
)


@dataclass(slots=True)
class RecoveredLog:
    """One group's log as the disk holds it after a restart: everything in it is durable.

    `commit_index` was ordered in the WAL behind what it depends on, so it is at most the last
    index. `entries` are consecutive and start at `base_index + 1`.
    """

    group_id: GroupId
    generation: Generation
    base_index: LogIndex = LogIndex(0)
    base_term: Term = Term(0)
    term: Term = Term(0)
    voted_for: NodeId | None = None
    commit_index: LogIndex = LogIndex(0)
    entries: list[LogEntry] = field(default_factory=list)
    damaged: bool = False
    """Corruption (not a torn tail) was found in this group's frames: it may not vote or lead."""
    configuration: Configuration | None = None
    """The newest that this replica has begun; None: the one that the group was created with."""

    @property
    def last_index(self) -> LogIndex:
        return LogIndex(self.base_index + len(self.entries))


def installed_log(
    group_id: GroupId,
    installed: InstallSnapshot,
    state: SetHardState,
    configuration: Configuration | None,
) -> RecoveredLog:
    """Return what a restart finds behind a durable InstallSnapshot. It stands behind `state`, in a
    log that has begun `configuration`."""
    return RecoveredLog(
        group_id,
        installed.generation,
        base_index=installed.log_index,
        base_term=installed.term,
        term=state.term,
        voted_for=state.voted_for,
        commit_index=installed.log_index,
        configuration=configuration,
    )
