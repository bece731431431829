"""This is one replica of one group. It puts PySyncObj behind the port, with the repairs it needs.

Events go in through `step`, effects come out through `ready`. Nothing here waits, reads a clock or
touches the disk. What each repair is for: docs/adr/0001; what waits for the disk: gate.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.ids import GroupId, LogIndex, NodeId, Term
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.raft.core import Core, CoreMessage
from svc_cluster.raft.delivery import Delivery
from svc_cluster.raft.elections import Elections
from svc_cluster.raft.follower import FollowerSide
from svc_cluster.raft.group import (
    PAYLOAD_TYPE,
    Durable,
    EngineFault,
    Event,
    LogPosition,
    Message,
    NotLeaderError,
    PeerDown,
    PeerInstalled,
    PeerLieError,
    PeerRoom,
    PeerUp,
    ReadTicket,
    Ready,
    Role,
    Tick,
    Trim,
    is_noop,
)
from svc_cluster.raft.group_outbox import GroupOutbox
from svc_cluster.raft.leader import LeaderSide
from svc_cluster.raft.log_view import LogView
from svc_cluster.raft.messages import (
    AppendRequest,
    AppendResponse,
    MessageAside,
    PeerMessage,
    PreVoteRequest,
    PreVoteResponse,
    StaleTerm,
    TimeoutNow,
    VoteGranted,
    VoteRequest,
)
from svc_cluster.raft.normalise import is_well_formed
from svc_cluster.raft.raft_settings import RaftSettings
from svc_cluster.raft.recovered import usable_commit_index
from svc_cluster.raft.repair import Repair
from svc_cluster.raft.seal import GroupSeal, encode_seal
from svc_cluster.raft.seam import Ending, Seam
from svc_cluster.raft.stillness import Stillness

__all__ = ["EngineGroup", "is_noop"]

TERM_JUMP_MAX: Final = 2**28
"""Nobody falls behind by more elections than this, which is four years of them: a message from
further ahead is a lie, and to follow it would use up the terms of the configuration."""


class EngineGroup:
    """The implementation of `RaftGroup`; see there for the contract of each method."""

    def __init__(
        self,
        *,
        group_id: GroupId,
        node_id: NodeId,
        members: Sequence[NodeId],
        recovered: RecoveredLog,
        applied_index: LogIndex,
        rng: random.Random,
        settings: RaftSettings,
        has_room: Callable[[NodeId], bool] = lambda _: True,
    ) -> None:
        """The call `has_room` tells whether the way to a peer takes more entries, of any group, at
        present. Where it has said no, `PeerRoom` tells when it does again. `members` are the
        voters, this node among them, unless the log has begun a later configuration, which has its
        own. `applied_index` is the state store's; `Ready.committed` starts behind it. Raises
        EngineFault for a log that cannot be used."""
        if recovered.configuration is not None:
            members = recovered.configuration.nodes
        assert node_id in members, "a replica is a member of its group"
        assert len(set(members)) == len(members), "members are distinct"
        self.group_id = group_id
        self.node_id = node_id
        self._settings = settings
        self.members = tuple(sorted(members))
        self._peers = tuple(sorted(member for member in members if member != node_id))
        commit_index = usable_commit_index(recovered, applied_index)
        self._log = LogView(recovered, commit_index)
        self._core = Core(
            node_id=node_id,
            members=members,
            log=self._log,
            rng=rng,
            settings=settings,
            send=self._on_send,
        )
        quorum = len(members) // 2 + 1
        self._outbox = GroupOutbox(self._log)
        self.seam = Seam(recovered, self.members, self._log, self._outbox.reply)
        self._elections = Elections(
            self._core, self._log, node_id, self._peers, quorum, self._outbox.submit, self.seam
        )
        self._following = FollowerSide(self._core, self._log, settings, self._outbox.submit)
        self._leading = LeaderSide(self._core, self._log, self._peers, quorum, settings, has_room)
        self.standstill = Stillness(self._core, self._log, self._leading, self._following)
        self._rng = rng
        if recovered.damaged:
            self._following.recovery = self._new_recovery()
        self._up: set[NodeId] = set()
        self._delivery = Delivery(self._log, applied_index, settings.committed_bytes_max)
        self._now = 0.0
        self._seen_term = self._core.term
        self._led = False
        self._abstains = False
        self._number = 0
        self._broken: BaseException | None = None

    @property
    def role(self) -> Role:
        core = self._core
        if core.is_leader:
            return Role.LEADER if self._log.hard_state_durable else Role.CANDIDATE
        return Role.CANDIDATE if core.is_candidate else Role.FOLLOWER

    @property
    def term(self) -> Term:
        return self._core.term

    @property
    def leader(self) -> NodeId | None:
        if self._core.is_leader and not self._log.hard_state_durable:
            return None
        if self._abstains and not self._core.is_leader:
            # nobody may ever stand after a leader that is gone
            return self._core.leader if self._following.hears_leader(self._now) else None
        return self._core.leader

    @property
    def can_propose(self) -> bool:
        leads = self._core.is_leader and self._log.hard_state_durable and self._broken is None
        return leads and self._log.seal_index is None

    @property
    def commit_index(self) -> LogIndex:
        commit_index = self._log.capped(self._core.commit_index)
        if not self._peers:
            return LogIndex(min(commit_index, self._log.durable_index))
        return commit_index

    @property
    def last_index(self) -> LogIndex:
        return self._log.last_index

    @property
    def durable_index(self) -> LogIndex:
        return self._log.durable_index

    @property
    def base_index(self) -> LogIndex:
        return self._log.base_index

    @property
    def configuration(self) -> Configuration | None:
        begun = self.seam.configuration
        return begun if begun.number else None

    def term_at(self, log_index: LogIndex) -> Term | None:
        return self._log.term_at(log_index)

    def match_index(self, peer: NodeId) -> LogIndex:
        return self._leading.match_index(peer)

    @property
    def recovery(self) -> int:
        return self._following.recovery

    def repair_of(self, peer: NodeId) -> Repair | None:
        return self._leading.repair_of(peer)

    def distrust(self) -> None:
        self._check_usable()
        if self._following.recovery:
            return
        self._core.enter(self._now)
        try:
            self._following.recovery = self._new_recovery()
            self._step_aside()
        except Exception as error:
            raise self._fault(error) from error

    def abstain(self) -> None:
        self._check_usable()
        self._core.enter(self._now)
        try:
            self._abstains = True
            self._step_aside()
        except Exception as error:
            raise self._fault(error) from error

    def _step_aside(self) -> None:
        if self._peers and not self._is_plain_follower:
            self._core.step_down(Term(self._core.term + 1), self._peers[0])
        self._settle()

    @property
    def _is_plain_follower(self) -> bool:
        return not (self._core.is_leader or self._core.is_candidate)

    def _new_recovery(self) -> int:
        return self._rng.getrandbits(62) | 1

    def step(self, event: Event) -> None:
        self._check_usable()
        self._core.enter(self._now)
        try:
            match event:
                case Message():
                    self._on_message(event.sender, event.body)
                case Durable():
                    self._on_durable(event.ready_number)
                case Tick():
                    self._on_tick(event.now, event.grace)
                case PeerUp():
                    self._on_peer_up(event.peer)
                case PeerDown():
                    self._on_peer_down(event.peer)
                case PeerRoom():
                    self._leading.look_for_room()
                case PeerInstalled():
                    if self._core.is_leader:
                        self._leading.on_installed(event.peer, event.log_index)
                case Trim():
                    self._on_trim(event.log_index)
            self._settle()
        except PeerLieError:
            raise
        except Exception as error:
            raise self._fault(error) from error

    def ready(self) -> Ready | None:
        self._check_usable()
        self._core.enter(self._now)
        try:
            self._outbox.add(self._leading.flush(self._now, self._up))
            self._settle()
            return self._take()
        except Exception as error:
            raise self._fault(error) from error

    def is_idle(self, seen: tuple[Role, Term]) -> bool:
        is_quiet = self._leading.is_idle and not (self._outbox or self._log.has_ops())
        is_behind = self._delivery.is_behind(self.commit_index)
        return is_quiet and not is_behind and seen == (self.role, self.term)

    def propose(self, payload: bytes) -> LogPosition:
        assert payload[0] == PAYLOAD_TYPE, "the first byte of a proposal is PAYLOAD_TYPE"
        return self._append(payload)

    def seal(self, seal: GroupSeal) -> LogPosition:
        """Append the entry that ends this configuration; nothing is proposed or read behind it. The
        caller has found the next members ready. Raises NotLeaderError, without effect."""
        return self._append(encode_seal(seal))

    def end(self, next_one: Configuration) -> Ending:
        """Leave this configuration, whose end is applied here or told by a peer; it is released.
        What it has handed out goes to the log before the ending."""
        self._check_usable()
        ending = self.seam.end(self.commit_index, next_one, damaged=bool(self.recovery))
        self.release()
        return ending

    def _append(self, payload: bytes) -> LogPosition:
        self._check_usable()
        assert len(payload) <= self._settings.entry_bytes_max, "a proposal has a greatest length"
        if not self.can_propose:
            raise NotLeaderError(self.leader)
        self._core.enter(self._now)
        position = LogPosition(LogIndex(self._log.last_index + 1), self._core.term)
        self._leading.flush_due = True
        try:
            assert self._core.queue_length == 0, "nothing is left over from before"
            self._core.propose(payload)
            assert self._core.queue_length == 0, "the proposal was taken"
            assert self._log.last_index == position.log_index, "one entry was added"
            last = self._log.entries[-1]
            assert last.payload is payload, "the entry is this proposal"
            assert last.term == position.term, "the entry has the leader's term"
        except Exception as error:
            raise self._fault(error) from error
        return position

    def read_index(self) -> ReadTicket:
        self._check_usable()
        commit_index = self.commit_index
        if not self.can_propose or self._log.term_at(commit_index) != self._core.term:
            raise NotLeaderError(self.leader)
        return self._leading.start_read(commit_index, self._now)

    def transfer_leadership(self, to: NodeId) -> None:
        self._check_usable()
        if not self.can_propose or to not in self._up:
            return
        self._core.enter(self._now)
        try:
            self._core.transfer_leadership(to)
        except Exception as error:
            raise self._fault(error) from error

    def campaign(self) -> None:
        self._check_usable()
        if self.recovery or self._abstains or self._core.is_leader:
            return
        self._core.enter(self._now)
        try:
            self._elections.stand(self._now, self._up)
            self._settle()
        except Exception as error:
            raise self._fault(error) from error

    @property
    def log_bytes(self) -> int:
        return self._log.byte_count

    def index_keeping_bytes(self, size: int) -> LogIndex:
        return self._log.index_keeping_bytes(size)

    # Events

    def _on_message(self, sender: NodeId, body: PeerMessage) -> None:
        if not self.seam.admits(sender, body) or sender not in self._peers:
            return
        term = self._core.term
        if body.sender_term > term + TERM_JUMP_MAX or isinstance(body, MessageAside):
            return
        match body:
            case AppendRequest():
                if body.sender_term < term:
                    self._outbox.submit(sender, StaleTerm(term))
                elif is_well_formed(body, self._settings.entry_bytes_max):
                    self._on_append(sender, body)
            case VoteRequest():
                if body.sender_term < term:
                    self._outbox.submit(sender, StaleTerm(term))
                elif not self.recovery:
                    self._elections.on_vote_request(sender, body)
            case PreVoteRequest():
                if not self.recovery:
                    hears = self._following.hears_leader(self._now, asks=sender)
                    alive = self._core.is_leader or hears
                    self._elections.on_prevote_request(sender, body, leader_is_alive=alive)
            case _:
                if body.sender_term > term:
                    self._core.step_down(body.sender_term, sender)
                else:
                    self._on_answer(sender, body, is_old=body.sender_term < term)

    def _on_answer(
        self,
        sender: NodeId,
        body: AppendResponse | VoteGranted | PreVoteResponse | StaleTerm | TimeoutNow,
        *,
        is_old: bool,
    ) -> None:
        """Answers, and a wish to hand over, of this term or an older one."""
        match body:
            case PreVoteResponse():
                if not self._abstains:
                    self._elections.on_prevote_response(sender, body)
            case AppendResponse():
                if self._core.is_leader and not is_old:
                    self._leading.on_response(sender, body)
            case VoteGranted():
                if not is_old:
                    self._elections.on_vote(sender, body)
            case TimeoutNow():
                if not is_old and not self.recovery and not self._abstains:
                    self._elections.on_timeout_now(sender, body)
            case StaleTerm():
                pass

    def _on_append(self, sender: NodeId, request: AppendRequest) -> None:
        if self._core.is_leader and request.sender_term == self._core.term:
            raise PeerLieError(f"node {sender} claims to lead term {self._core.term} as well")
        self._following.on_append(sender, request, self._now)

    def _on_durable(self, number: int) -> None:
        assert number <= self._number, "only what was handed out can be durable"
        if not self._log.mark_durable(number):
            return
        self._outbox.release(self._core.term)
        if self._core.is_leader:
            self._leading.on_durable()
        else:
            self._following.on_durable(self._now)

    def _on_tick(self, now: float, grace: float) -> None:
        assert now >= self._now, "time never goes back"
        self._now = now
        self._core.enter(now)
        if self.recovery:
            return
        if self._core.is_leader:
            self._leading.tick(now, self._up, grace)
        elif not self._abstains:
            self._elections.on_tick(now, self._up, self._following.on_tick(self._up, grace))

    def _on_peer_up(self, peer: NodeId) -> None:
        if peer in self._peers:
            self._up.add(peer)
            self._core.connect(peer)
            self._leading.on_peer_up(peer)

    def _on_peer_down(self, peer: NodeId) -> None:
        if peer in self._peers:
            self._up.discard(peer)
            self._core.disconnect(peer)
            self._leading.on_peer_down(peer)

    def _on_trim(self, log_index: LogIndex) -> None:
        assert log_index <= self._delivery.delivered, (
            "only what was handed out can be in the state store"
        )
        if self._log.seal_index is not None:
            # that there is an end here stays known until the next configuration has begun
            log_index = LogIndex(min(log_index, self._log.seal_index - 1))
        if log_index > self._log.base_index:
            self._log.trim_to(log_index)

    # Effects

    def _on_send(self, to: NodeId, message: CoreMessage) -> None:
        """What the engine wants to send, from inside a call into it."""
        term = self._core.term
        match message["type"]:
            case "append_entries":
                request = self._leading.append_request(to, message, self._now)
                self._outbox.add([(to, request)])
            case "next_node_idx":
                self._following.on_send_answer(to, message)
            case "request_vote":
                index, last_term = message["last_log_index"], message["last_log_term"]
                self._outbox.submit(to, VoteRequest(term, LogIndex(index), Term(last_term)))
            case "response_vote":
                self._outbox.submit(to, VoteGranted(term))
            case "timeout_now":
                self._outbox.submit(to, TimeoutNow(term))
            case other:
                raise AssertionError(f"the engine never sends {other} here")

    def _settle(self) -> None:
        """Follow what an event has changed: term, leadership, durability."""
        term, leads = self._core.term, self._core.is_leader
        if self._led and not leads:
            self._leading.on_lost()
            self._following.forget_leader()
            self._core.postpone_election(self._now)
            for peer in self._up:
                self._core.connect(peer)
        if term != self._seen_term:
            self._elections.on_new_term()
        self._seen_term, self._led = term, leads
        self._outbox.release(term)

    def _take(self) -> Ready | None:
        messages = self._outbox.take(self._up)
        committed = [] if self.recovery else self._delivery.take(self.commit_index)
        read_states = self._leading.reads.take_states()
        wanted = self._leading.take_snapshot_wanted()
        if not (messages or committed or read_states or wanted or self._log.has_ops()):
            return None
        self._number += 1
        ops = self._log.take(self._number)
        has_more = bool(committed) and self._delivery.is_behind(self.commit_index)
        return Ready(self._number, ops, messages, committed, read_states, wanted, has_more)

    def release(self) -> None:
        if self._broken is None:
            self._broken = EngineFault("the group was released")
        self._log.release()
        self._outbox.clear()

    def _check_usable(self) -> None:
        if self._broken is not None:
            raise EngineFault("the group has failed before") from self._broken

    def _fault(self, error: Exception) -> EngineFault:
        self._broken = error
        return EngineFault(f"group {self.group_id} on node {self.node_id}: {error}")
