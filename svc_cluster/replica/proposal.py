"""One request that waits for its command, and what it is told of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from svc_cluster.base.errors import InternalError, ServiceError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.base.log import get_logger
from svc_cluster.model.leader_stages import LeaderStages
from svc_cluster.replica.entry_draft import PlainAppend
from svc_cluster.replica.group_watch import EntryTimes

log = get_logger("proposer")

Command = TypeVar("Command")
Outcome = TypeVar("Outcome")

ResultCallback = Callable[[Outcome | None, ServiceError | None], None]
"""Called once with the command's outcome (None: nothing had to change), or with a refusal."""


@dataclass(slots=True)
class Proposal(Generic[Command, Outcome]):
    """One request in the queue. `sequence(now_ms)` returns a command, or None when nothing has to
    change, or raises a ServiceError."""

    sequence: Callable[[TimestampMs], Command | None]
    size: int
    deadline: float
    done: ResultCallback[Outcome]
    stages: LeaderStages | None = None
    """Told how long the request was where, before `done` is called; None: nobody asks."""
    queued_at: float = 0.0
    """Monotonic seconds, set by the proposer."""
    requests: int = 1
    """How many appends of clients it stands for."""
    append: PlainAppend | None = None
    """Not None: it may share its command with its neighbours."""


def undecided() -> InternalError:
    failed = InternalError("the write could not be decided")
    failed.may_have_taken_effect = False
    return failed


def take_time(
    taken: list[Proposal[Command, Outcome]], entry: EntryTimes, applied_at: float
) -> None:
    """Say how long an entry that is applied was where, to whoever asks."""
    for proposal in taken:
        if (stages := proposal.stages) is not None:
            # a leader's own disk is one of its majority, and time that nobody saw is nobody's
            durable = entry.durable or entry.proposed
            committed = entry.committed or durable
            stages.wal = durable - entry.proposed
            stages.quorum = committed - durable
            stages.apply = applied_at - committed


def tell(
    proposal: Proposal[Command, Outcome], outcome: Outcome | None, error: ServiceError | None
) -> None:
    """Let whoever asked hear of it; a fault in hearing is theirs alone."""
    try:
        proposal.done(outcome, error)
    except Exception as fault:
        log.error("outcome_not_told", exc_info=fault)
