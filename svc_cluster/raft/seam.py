"""The seam between two configurations, as one replica sees it.

Which messages are of its own configuration, and what is said to others; who may stand in it; and
with what a replica begins the next one. The argument why two never both decide: README.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from svc_cluster.base.configuration import Configuration, configuration_of, first_configuration
from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.base.log_ops import Configure, LogOp, RecoveredLog
from svc_cluster.raft.feed import Feed, feed_behind, take_feed
from svc_cluster.raft.group import EngineFault
from svc_cluster.raft.log_view import LogView
from svc_cluster.raft.messages import Ended, PeerMessage
from svc_cluster.raft.seal import successor


@dataclass(frozen=True, slots=True)
class Ending:
    """How a replica leaves its configuration: once `op` is durable, `recovered` is what it begins
    the next one with. Nothing of the engine before may follow the operation."""

    op: LogOp
    recovered: RecoveredLog


class Seam:
    """What one replica knows of its configuration's beginning and end."""

    def __init__(
        self,
        recovered: RecoveredLog,
        nodes: tuple[NodeId, ...],
        log: LogView,
        reply: Callable[[NodeId, Ended], None],
    ) -> None:
        """`nodes`: the members that the group was created with. Raises EngineFault for a term of a
        configuration that was never begun here."""
        self.configuration = recovered.configuration or first_configuration(nodes)
        self._ended = replace(recovered, entries=[])
        self._log = log
        self._reply = reply
        self.told: Configuration | None = None
        """A later configuration, as a peer has told it."""
        self.behind: NodeId | None = None
        """A peer that speaks of a later configuration than is known here."""
        self.is_lost = configuration_of(log.term) != self.configuration.number
        """It has forgotten by what it came into its term: it waits for somebody to tell it."""
        if self.is_lost and not recovered.damaged:
            raise EngineFault(
                f"term {log.term} is not of configuration {self.configuration.number}"
            )

    @property
    def holds_beginning(self) -> bool:
        """Whether the seal that began this configuration is here, durably, with all before it. Who
        lacks it neither leads nor knows what was decided."""
        began, log = self.configuration, self._log
        if log.base_index >= began.seal_index:
            return True
        held = log.term_at(began.seal_index) == began.seal_term
        return held and log.durable_index >= began.seal_index

    @property
    def wants_feed(self) -> bool:
        """Whether it asks around: it lacks its beginning, or a peer speaks of a later one."""
        return self.is_lost or self.behind is not None or not self.holds_beginning

    @property
    def seal_index(self) -> LogIndex | None:
        """Where the seal stands that ends this configuration, committed or not; None: nowhere."""
        return self._log.seal_index

    def next_at(self, applied_index: LogIndex) -> Configuration | None:
        """The configuration to begin now: a peer has told it, or the seal is applied here."""
        seal = self._log.seal(applied_index)
        if self.told is not None or seal is None:
            return self.told
        return successor(self.configuration, seal)

    def reaches(self, last_term: Term, last_index: LogIndex) -> bool:
        """Whether a log that ends there has the seal that began this configuration."""
        began = self.configuration
        return (last_term, last_index) >= (began.seal_term, began.seal_index)

    def admits(self, sender: NodeId, body: PeerMessage) -> bool:
        """Whether a message is of this configuration. One of an ended configuration is answered
        with this one and nothing else, for ever."""
        number, own = configuration_of(body.sender_term), self.configuration
        if isinstance(body, Ended):
            if number == body.configuration.number:
                self.learn(body.configuration)
            return False
        if number == own.number:
            return not self.is_lost
        if number > own.number:
            self.behind = sender
        elif not self.is_lost:
            self._reply(sender, Ended(own.first_term, own))
        return False

    def learn(self, configuration: Configuration) -> None:
        """A peer tells a decided configuration, perhaps late."""
        known = self.told or self.configuration
        if configuration.number > known.number:
            self.told = configuration

    def feed(self, asked: LogIndex, applied_index: LogIndex) -> Feed | None:
        """What is decided behind `asked` and applied here; None: a snapshot has it, or whoever else
        is whole. The caller does not ask a replica that recovers."""
        decided_index = LogIndex(min(applied_index, self._log.capped(self._log.last_index)))
        return feed_behind(self._log, decided_index, self.configuration, asked)

    def take(self, feed: Feed) -> None:
        """Who lacks the beginning of its configuration takes it from anybody who is in it."""
        self.learn(feed.configuration)
        if feed.configuration.number == self.configuration.number and not self.holds_beginning:
            take_feed(self._log, feed)

    def end(self, commit_index: LogIndex, next_one: Configuration, *, damaged: bool) -> Ending:
        """Leave this configuration for a later one. `damaged`: the replica recovers."""
        assert next_one.number > self.configuration.number, "configurations follow one another"
        return conclude(self._log, commit_index, next_one, replace(self._ended, damaged=damaged))


def conclude(
    log: LogView, commit_index: LogIndex, next_one: Configuration, ended: RecoveredLog
) -> Ending:
    """The end of a configuration on a replica that learns of a later one. What is above the seal
    goes; where the log lacks the seal, all that is not known to be committed. `ended`: whose
    replica it is, and whether it is damaged, which it stays."""
    assert not log.has_ops(), "what was decided is written before the next configuration"
    seal_index = next_one.seal_index
    is_complete = log.base_index >= seal_index or log.term_at(seal_index) == next_one.seal_term
    if not is_complete and commit_index >= seal_index:
        raise EngineFault(f"another entry is decided at {seal_index} than the seal that is told")
    last_index = LogIndex(max(seal_index, commit_index) if is_complete else commit_index)
    # a damaged replica may have forgotten by which configuration it came into its term
    known_term = log.term if log.term > next_one.first_term else Term(0)
    op = Configure(next_one, last_index, known_term)
    recovered = RecoveredLog(
        ended.group_id,
        ended.generation,
        log.base_index,
        log.base_term,
        op.term,
        None,
        last_index,
        log.entries[: last_index - log.base_index],
        ended.damaged,
        next_one,
    )
    return Ending(op, recovered)
