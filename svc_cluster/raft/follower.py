"""What a follower does with its leader's messages, and what it answers when."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.raft.core import Core, CoreMessage
from svc_cluster.raft.gate import FollowerAcks
from svc_cluster.raft.log_view import LogView
from svc_cluster.raft.messages import AppendRequest, AppendResponse
from svc_cluster.raft.normalise import Backtrack, NormalisedMessage, normalise
from svc_cluster.raft.raft_settings import RaftSettings


@dataclass(slots=True)
class _Answering:
    """The leader's message that the engine is working on."""

    request: AppendRequest
    plan: NormalisedMessage


class FollowerSide:
    """The follower's part of one replica. `submit` sends once the hard state is durable."""

    def __init__(
        self,
        core: Core,
        log: LogView,
        settings: RaftSettings,
        submit: Callable[[NodeId, AppendResponse], None],
    ) -> None:
        self.recovery = 0
        """Not 0: nothing is taken or acknowledged but a snapshot under this number."""

        self._core = core
        self._log = log
        self._settings = settings
        self._submit = submit
        self._acks = FollowerAcks()
        self._backtrack = Backtrack()
        self._answering: _Answering | None = None
        self._echo = (Term(0), 0)
        self._leader_heard: float | None = None
        self._patience = 0.0
        """Seconds for which a leader counts as heard beyond the usual."""
        self._responded = 0.0
        self._now = 0.0

    def forget_leader(self) -> None:
        """This node led until now: there is no leader to be in touch with."""
        self._leader_heard = None

    def count_as_heard(self, now: float | None) -> None:
        """The leader is there at `now`, as far as others know; None: it is gone."""
        self._leader_heard = now

    def on_tick(self, up: Collection[NodeId], grace: float) -> float:
        """Returns the seconds by which silence says nothing yet of the leader. It is the grace
        where its connection stands: what it has sent may wait here. See `Tick.grace`."""
        self._patience = grace if self._core.leader in up else 0.0
        return self._patience

    def hears_leader(self, now: float, *, asks: NodeId | None = None) -> bool:
        """Tells whether a leader spoke within almost an election timeout. It is a heartbeat less,
        so that voters who lost the same leader at about the same time agree that it is gone. A
        leader that `asks` for their votes leads no more, whatever was heard of it."""
        if asks is not None and asks == self._core.leader:
            return False
        silence = self._settings.election_min - self._settings.heartbeat + self._patience
        return self._leader_heard is not None and now - self._leader_heard < silence

    def on_append(self, sender: NodeId, request: AppendRequest, now: float) -> None:
        """A well-formed message of this term or a newer one. Raises PeerLieError when it
        contradicts what is committed."""
        self._now = now
        self._leader_heard = now
        if self.recovery:
            plan = self._nothing()
        else:
            plan = normalise(self._log, self._core.commit_index, request)
        if plan.verified is not None:
            self._backtrack.matched()
        term, sequence = self._echo
        if term != request.sender_term:
            sequence = 0
        self._echo = (request.sender_term, max(sequence, request.read_sequence))
        self._answering = _Answering(request, plan)
        message: CoreMessage = {
            "type": "append_entries",
            "term": request.sender_term,
            "commit_index": plan.commit_index,
            "prevLogIdx": plan.previous_index,
            "prevLogTerm": plan.previous_term,
            "entries": [(e.payload, e.log_index, e.term) for e in plan.entries],
        }
        self._core.receive(sender, message)
        self._answering = None

    def _nothing(self) -> NormalisedMessage:
        """Hear the leader, and leave the log as it is."""
        log = self._log
        return NormalisedMessage(
            log.last_index, log.last_term, (), self._core.commit_index, verified=None
        )

    def on_send_answer(self, to: NodeId, message: CoreMessage) -> None:
        """The engine's answer to the message it is working on."""
        answering = self._answering
        assert answering is not None, "answers are sent while a request is being worked on"
        term = self._core.term
        request, plan = answering.request, answering.plan
        if self.recovery:
            sequence = request.read_sequence
            refusal = AppendResponse(term, LogIndex(0), False, False, sequence, self.recovery)
            self._submit(to, refusal)
            return
        if message["reset"]:
            retry_from = LogIndex(message["next_node_idx"])
            if plan.retry_from is not None:
                retry_from = self._backtrack.retry_from(term, plan.retry_from)
            sequence = request.read_sequence
            self._submit(to, AppendResponse(term, retry_from, False, True, sequence))
            return
        verified = LogIndex(message["next_node_idx"] - 1)
        if plan.verified is not None:
            verified = plan.verified
        self._acks.verified(term, to, verified)
        durable = LogIndex(min(verified, self._log.durable_index))
        overdue = self._now - self._responded >= self._settings.heartbeat / 2
        if durable == verified or not request.entries or overdue:
            self._acks.told(durable)
            self._acknowledge(to, durable, request.read_sequence)

    def on_durable(self, now: float) -> None:
        """The own log is durable further than before: acknowledge what that makes true."""
        self._now = now
        news = self._acks.newly_durable(self._core.term, self._log.durable_index)
        if news is not None:
            leader, log_index = news
            self._acknowledge(leader, log_index, self._echo[1])

    def _acknowledge(self, leader: NodeId, log_index: LogIndex, sequence: int) -> None:
        self._responded = self._now
        next_index = LogIndex(log_index + 1)
        self._submit(leader, AppendResponse(self._core.term, next_index, True, False, sequence))
