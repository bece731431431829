"""What a replica knows of the seam between configurations, whichever kind of replica it is."""

from __future__ import annotations

from typing import Protocol

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.ids import LogIndex, NodeId
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.feed import Feed
from svc_cluster.raft.group import RaftGroup
from svc_cluster.raft.learner_group import LearnerGroup


class Seamed(Protocol):
    """See `Seam` and `Learner`: a member has the one, who is none is the other."""

    behind: NodeId | None

    @property
    def configuration(self) -> Configuration | None: ...

    @property
    def seal_index(self) -> LogIndex | None: ...

    @property
    def wants_feed(self) -> bool: ...

    def next_at(self, applied_index: LogIndex) -> Configuration | None: ...

    def learn(self, configuration: Configuration) -> None: ...

    def feed(self, asked: LogIndex, applied_index: LogIndex) -> Feed | None: ...

    def take(self, feed: Feed) -> None: ...


def seam_of(engine: RaftGroup) -> Seamed | None:
    """The engine's seam; None: it has none, as a test's."""
    if isinstance(engine, LearnerGroup):
        return engine.learner
    return engine.seam if isinstance(engine, EngineGroup) else None


def number_of(engine: RaftGroup) -> int:
    """The number of the configuration that the replica is in; -1: it knows none yet."""
    seam = seam_of(engine)
    known = None if seam is None else seam.configuration
    return -1 if known is None else known.number


def number_here(engine: RaftGroup | None, log: RecoveredLog | None) -> int | None:
    """The configuration of what is here of a group: a replica, or the log of one that is not open.
    None: nothing is here."""
    if engine is not None:
        return number_of(engine)
    if log is None:
        return None
    return 0 if log.configuration is None else log.configuration.number


def flushable(engine: RaftGroup, applied_index: LogIndex) -> LogIndex:
    """How much of what is applied may be told to the log as flushed. Below a seal that ends the
    replica's configuration, because the log may forget what it is told: a base at the seal would
    hide that there is an end."""
    seam = seam_of(engine)
    if seam is None or seam.seal_index is None:
        return applied_index
    return LogIndex(min(applied_index, seam.seal_index - 1))
