"""This is a replica that is no member, behind the port of those that are: it follows and never
votes, leads or stands. Whoever runs replicas runs it as any other."""

from __future__ import annotations

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.ids import GroupId, LogIndex, NodeId, Term
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.raft.group import (
    Durable,
    Event,
    LogPosition,
    Message,
    NotLeaderError,
    ReadTicket,
    Ready,
    Role,
    Trim,
)
from svc_cluster.raft.learner import Learner
from svc_cluster.raft.raft_settings import RaftSettings
from svc_cluster.raft.repair import Repair
from svc_cluster.raft.seam import Ending


class _Awake:
    """A learner asks others for what is decided, and so never goes without time."""

    def is_possible(self, commit_index: LogIndex) -> bool:
        return False

    def is_over(self, now: float, *, leader_lives: bool) -> None: ...


class LearnerGroup:
    """See `RaftGroup`. All that is in its log is decided."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        recovered: RecoveredLog,
        applied_index: LogIndex,
        settings: RaftSettings,
    ) -> None:
        self.group_id: GroupId = recovered.group_id
        self.node_id = node_id
        known = recovered.configuration
        self.members: tuple[NodeId, ...] = () if known is None else known.nodes
        self.learner = Learner(recovered=recovered, applied_index=applied_index, settings=settings)
        self.standstill = _Awake()
        self.leader: NodeId | None = None
        """The leader that whoever it asked has told last."""

    @property
    def role(self) -> Role:
        return Role.FOLLOWER

    @property
    def term(self) -> Term:
        """The newest that it knows of: it takes entries of later ones than it began with."""
        log = self.learner.log
        return Term(max(log.term, log.last_term))

    @property
    def can_propose(self) -> bool:
        return False

    def is_idle(self, seen: tuple[Role, Term]) -> bool:
        return self.learner.is_idle and seen == (self.role, self.term)

    @property
    def commit_index(self) -> LogIndex:
        return self.learner.log.last_index

    @property
    def last_index(self) -> LogIndex:
        return self.learner.log.last_index

    @property
    def durable_index(self) -> LogIndex:
        return self.learner.log.durable_index

    @property
    def base_index(self) -> LogIndex:
        return self.learner.log.base_index

    @property
    def configuration(self) -> Configuration | None:
        known = self.learner.configuration
        return known if known is not None and known.number else None

    def term_at(self, log_index: LogIndex) -> Term | None:
        return self.learner.term_at(log_index)

    def match_index(self, peer: NodeId) -> LogIndex:
        return LogIndex(0)

    @property
    def recovery(self) -> int:
        """A learner that is damaged takes no snapshot that its leader sends unasked."""
        return int(self.learner.recovers)

    def repair_of(self, peer: NodeId) -> Repair | None:
        return None

    def distrust(self) -> None:
        self.learner.recovers = True

    def abstain(self) -> None: ...

    def propose(self, payload: bytes) -> LogPosition:
        raise NotLeaderError(self.leader)

    def step(self, event: Event) -> None:
        match event:
            case Message():
                self.learner.hear(event.sender, event.body)
            case Durable():
                self.learner.durable(event)
            case Trim():
                self.learner.trim(event.log_index)
            case _:
                pass

    def ready(self) -> Ready | None:
        return self.learner.ready()

    def read_index(self) -> ReadTicket:
        raise NotLeaderError(self.leader)

    def transfer_leadership(self, to: NodeId) -> None: ...

    def campaign(self) -> None: ...

    def end(self, next_one: Configuration) -> Ending:
        """Begin `next_one`; see `EngineGroup.end`."""
        ending = self.learner.end(next_one)
        self.release()
        return ending

    def release(self) -> None:
        self.learner.log.release()

    @property
    def log_bytes(self) -> int:
        return self.learner.log.byte_count

    def index_keeping_bytes(self, size: int) -> LogIndex:
        return self.learner.log.index_keeping_bytes(size)
