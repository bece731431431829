"""When this node campaigns, whose votes it counts, and when it consents to others' campaigns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from svc_cluster.base.ids import NodeId, Term
from svc_cluster.raft.core import Core
from svc_cluster.raft.log_view import LogView
from svc_cluster.raft.messages import (
    PreVoteRequest,
    PreVoteResponse,
    TimeoutNow,
    VoteGranted,
    VoteRequest,
)
from svc_cluster.raft.prevote import PreVoteRound, VoterView, would_grant
from svc_cluster.raft.seam import Seam
from svc_cluster.raft.votes import VoteLedger

ElectionMessage = PreVoteRequest | PreVoteResponse


class Elections:
    """One replica's elections. `submit` sends once the hard state is durable."""

    def __init__(
        self,
        core: Core,
        log: LogView,
        node_id: NodeId,
        peers: Sequence[NodeId],
        quorum: int,
        submit: Callable[[NodeId, ElectionMessage], None],
        seam: Seam,
    ) -> None:
        self._core = core
        self._log = log
        self._node_id = node_id
        self._peers = peers
        self._submit = submit
        self._seam = seam
        self._votes = VoteLedger(frozenset(peers))
        self._prevote = PreVoteRound(frozenset(peers), quorum)
        self._ticked = False

    def on_new_term(self) -> None:
        """Whatever was asked about the term before is void."""
        self._prevote.cancel()

    def on_tick(self, now: float, up: Collection[NodeId], grace: float) -> None:
        """Time passed while not leading; begins an election when the timeout is over by more than
        the grace. The first tick shows where the clock stands, and begins the timeout."""
        if not self._ticked:
            self._ticked = True
            self._core.postpone_election(now)
            if not self._peers and self._seam.holds_beginning:
                self._core.campaign()
        elif self._core.election_due(now - grace):
            self.stand(now, up)

    def stand(self, now: float, up: Collection[NodeId]) -> None:
        """Ask the others, then campaign. Nothing happens before the first tick, while nobody can
        be asked, or to who lacks the seal with which its configuration began."""
        if not self._ticked or not self._seam.holds_beginning:
            return
        if not self._peers:
            self._core.tick(flush=False)
            return
        if not up:
            return
        self._core.postpone_election(now)
        term = self._core.term
        next_term = Term(term + 1)
        self._prevote.start(next_term, self._node_id)
        request = PreVoteRequest(term, next_term, self._log.last_index, self._log.last_term)
        for peer in self._peers:
            self._submit(peer, request)

    def on_prevote_request(
        self, sender: NodeId, request: PreVoteRequest, *, leader_is_alive: bool
    ) -> None:
        term = self._core.term
        view = VoterView(term, self._log.last_index, self._log.last_term, leader_is_alive)
        granted = would_grant(
            view,
            next_term=request.next_term,
            last_index=request.last_index,
            last_term=request.last_term,
        )
        granted = granted and self._seam.reaches(request.last_term, request.last_index)
        self._submit(sender, PreVoteResponse(term, request.next_term, granted))

    def on_prevote_response(self, sender: NodeId, response: PreVoteResponse) -> None:
        wins = response.granted and self._prevote.won_by(sender, response.next_term)
        if wins and not self._core.is_leader and response.next_term == self._core.term + 1:
            self._core.campaign()

    def on_vote_request(self, sender: NodeId, request: VoteRequest) -> None:
        reaches = self._seam.reaches(request.last_term, request.last_index)
        message = {
            "type": "request_vote",
            "term": request.sender_term,
            "last_log_index": request.last_index,
            "last_log_term": request.last_term if reaches else -1,
        }
        self._core.receive(sender, message)

    def on_vote(self, sender: NodeId, vote: VoteGranted) -> None:
        """A vote given in this term."""
        if self._votes.count(vote.sender_term, sender):
            self._core.receive(sender, {"type": "response_vote", "term": vote.sender_term})

    def on_timeout_now(self, sender: NodeId, wish: TimeoutNow) -> None:
        """The leader of this term hands over; anyone else's wish is ignored."""
        if not self._seam.holds_beginning:
            return
        self._core.receive(sender, {"type": "timeout_now", "term": wish.sender_term})
        if self._core.handover_pending and not self._core.is_leader:
            self._core.campaign()
