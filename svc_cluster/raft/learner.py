"""This is a replica that is no member: of no configuration yet, or of none any more.

It has no engine and no vote. It takes what is decided from whoever feeds it, feeds others, and
answers who still speaks of an ended configuration. It begins each configuration that it learns of
as members do, so that its log too ends with the seal of the one it is in; one that names it makes
it a member. It goes when the catalog says so.
"""

from __future__ import annotations

from svc_cluster.base.configuration import Configuration, configuration_of
from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.raft.delivery import Delivery
from svc_cluster.raft.feed import Feed, feed_behind, take_feed
from svc_cluster.raft.group import Durable, Ready
from svc_cluster.raft.log_view import LogView
from svc_cluster.raft.messages import Ended, PeerMessage
from svc_cluster.raft.raft_settings import RaftSettings
from svc_cluster.raft.seal import successor
from svc_cluster.raft.seam import Ending, conclude


class Learner:
    """One copy of a group. As an engine it decides and never performs."""

    def __init__(
        self, *, recovered: RecoveredLog, applied_index: LogIndex, settings: RaftSettings
    ) -> None:
        """A log that is not damaged holds decided entries only. Of a damaged one nothing is told,
        and nothing is added to it, until a snapshot has replaced it."""
        self.recovers = recovered.damaged
        self.configuration = recovered.configuration
        """The one that it is in; None: none is known yet, and nothing is taken. It may have been a
        member of configuration 0 then, and has forgotten how it voted: it begins a later one."""
        self.told: Configuration | None = None
        """A later one, as a peer has told it."""
        self.behind: NodeId | None = None
        """A peer that speaks of a later configuration than is known here."""
        self._group_id, self._generation = recovered.group_id, recovered.generation
        self.log = LogView(recovered, recovered.last_index)
        self._delivery = Delivery(self.log, applied_index, settings.committed_bytes_max)
        self._replies: list[tuple[NodeId, PeerMessage]] = []
        self._number = 0

    @property
    def is_idle(self) -> bool:
        """Whether `ready` would bring nothing now."""
        is_behind = not self.recovers and self._delivery.is_behind(self.log.last_index)
        return not (self._replies or self.log.has_ops() or is_behind)

    @property
    def seal_index(self) -> LogIndex | None:
        """Where the seal stands that ends its configuration; None: nowhere."""
        return self.log.seal_index

    @property
    def wants_feed(self) -> bool:
        """It asks around for as long as it is one."""
        return True

    @property
    def last_index(self) -> LogIndex:
        return self.log.last_index

    def term_at(self, log_index: LogIndex) -> Term | None:
        """Term of the entry at `log_index`; None when it is not there (any more)."""
        return self.log.term_at(log_index)

    def hear(self, sender: NodeId, body: PeerMessage) -> None:
        """A message of one who takes this replica for a member."""
        known = self.configuration
        number = self._number_of(known)
        if isinstance(body, Ended):
            if configuration_of(body.sender_term) == body.configuration.number:
                self.learn(body.configuration)
        elif configuration_of(body.sender_term) > number:
            self.behind = sender
        elif known is not None and configuration_of(body.sender_term) < number:
            self._replies.append((sender, Ended(known.first_term, known)))

    def learn(self, configuration: Configuration) -> None:
        """A peer tells a decided configuration, perhaps late."""
        if configuration.number > self._number_of(self.told or self.configuration):
            self.told = configuration

    @staticmethod
    def _number_of(known: Configuration | None) -> int:
        """Configuration 0 is never begun by a frame: who does not know one is told of a later."""
        return 0 if known is None else known.number

    def next_at(self, applied_index: LogIndex) -> Configuration | None:
        """The configuration to begin now: a peer has told it, or the seal is applied here."""
        seal = self.log.seal(applied_index)
        if self.told is not None or seal is None or self.configuration is None:
            return self.told
        return successor(self.configuration, seal)

    def take(self, feed: Feed) -> None:
        """Entries of a later configuration are asked for again once that is begun. Raises
        PeerLieError when the feed contradicts what is decided."""
        self.learn(feed.configuration)
        known = self.configuration
        if known is not None and feed.configuration.number <= known.number and not self.recovers:
            take_feed(self.log, feed)

    def feed(self, asked: LogIndex, applied_index: LogIndex) -> Feed | None:
        """What is decided behind `asked`; None: nothing can be told, or a snapshot has it."""
        if self.recovers or self.configuration is None:
            return None
        decided_index = LogIndex(min(applied_index, self.log.last_index))
        return feed_behind(self.log, decided_index, self.configuration, asked)

    def durable(self, event: Durable) -> None:
        self.log.mark_durable(event.ready_number)

    def trim(self, log_index: LogIndex) -> None:
        """Everything up to here is in the flushed state store. The seal stays, as in an engine."""
        if self.log.seal_index is not None:
            log_index = LogIndex(min(log_index, self.log.seal_index - 1))
        if log_index > self.log.base_index:
            self.log.trim_to(log_index)

    def ready(self) -> Ready | None:
        """The next batch of effects, or None when there is nothing to do."""
        replies, self._replies = self._replies, []
        committed = [] if self.recovers else self._delivery.take(self.log.last_index)
        if not (replies or committed or self.log.has_ops()):
            return None
        self._number += 1
        has_more = bool(committed) and self._delivery.is_behind(self.log.last_index)
        ops = self.log.take(self._number)
        return Ready(self._number, ops, replies, committed, has_more=has_more)

    def end(self, next_one: Configuration) -> Ending:
        """Begin `next_one`, as a member or not. Everything was handed out before."""
        ended = RecoveredLog(self._group_id, self._generation, damaged=self.recovers)
        return conclude(self.log, self.log.last_index, next_one, ended)
