"""A leader keeps this beside the engine: flow control, held acknowledgements, read rounds. It also
keeps which peers need a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.raft.core import Core, CoreMessage, next_node_idx
from svc_cluster.raft.flow import Flow
from svc_cluster.raft.gate import LeaderAcks
from svc_cluster.raft.group import ReadTicket
from svc_cluster.raft.log_view import LogView
from svc_cluster.raft.messages import AppendRequest, AppendResponse
from svc_cluster.raft.raft_settings import RaftSettings
from svc_cluster.raft.read_index import ReadRounds
from svc_cluster.raft.repair import Repair, Repairs


class LeaderSide:
    """State of one leadership at a time; `on_lost` ends it."""

    def __init__(
        self,
        core: Core,
        log: LogView,
        peers: Sequence[NodeId],
        quorum: int,
        settings: RaftSettings,
        has_room: Callable[[NodeId], bool],
    ) -> None:
        """`has_room`: whether the way to a peer takes more entries at present, of any group."""
        self._core = core
        self._log = log
        self._peers = peers
        self._others_needed = quorum - 1
        self._settings = settings
        self._has_room = has_room
        self.reads = ReadRounds(quorum - 1, settings.leader_fallback)
        self.flush_due = False
        """Send to every peer at the next `flush`."""

        self._acks = LeaderAcks()
        self._flow = Flow(settings.in_flight_bytes_max, settings.in_flight_entries_max)
        self._sequence = 0
        self._rewound: dict[NodeId, int] = {}
        self._sent_at: dict[NodeId, float] = {}
        self._full: set[NodeId] = set()
        self._snapshot_wanted: set[NodeId] = set()
        self._repairs = Repairs(peers, quorum)

    def on_lost(self) -> None:
        self.reads.fail_all()
        self._acks.clear()
        self._flow.clear()
        self._rewound.clear()
        self._full.clear()
        self._snapshot_wanted.clear()
        self._repairs.clear()
        self.flush_due = False

    def match_index(self, peer: NodeId) -> LogIndex:
        return LogIndex(0) if peer in self._repairs else self._acks.acked(peer)

    def repair_of(self, peer: NodeId) -> Repair | None:
        return self._repairs.of(peer)

    def start_read(self, commit_index: LogIndex, now: float) -> ReadTicket:
        return self.reads.start(commit_index, self._sequence, now)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is due: no answer to a read, no snapshot, and of who leads no message."""
        if self.reads.has_answers or self._snapshot_wanted:
            return False
        if not self._core.is_leader:
            return True
        due = self.flush_due or self._commit_can_move or self.reads.wants_round()
        return not (due or self._full or self._repairs)

    def take_snapshot_wanted(self) -> list[NodeId]:
        wanted = sorted(self._snapshot_wanted)
        self._snapshot_wanted.clear()
        return wanted

    def on_peer_up(self, peer: NodeId) -> None:
        self._flow.forget(peer)
        self._full.discard(peer)
        self._repairs.forget(peer)
        self.flush_due = True

    def on_peer_down(self, peer: NodeId) -> None:
        self._flow.forget(peer)
        self._full.discard(peer)
        self._repairs.forget(peer)

    def on_installed(self, peer: NodeId, log_index: LogIndex) -> None:
        """The peer's state is the snapshot that it was sent. A refusal that is still on its way
        here speaks of the log before that, and is no reason to send another one."""
        self._rewound[peer] = self._sequence
        self._snapshot_wanted.discard(peer)
        self._core.raise_next_index(peer, LogIndex(log_index + 1))
        self.flush_due = True

    def tick(self, now: float, up: set[NodeId], grace: float) -> None:
        """Time passed while leading. `grace`: see `Tick`."""
        self._core.fall_back_after(self._settings.leader_fallback + grace)
        self.reads.expire(now)
        self.look_for_room()
        self._tick_core(up, flush=False)

    def flush(self, now: float, up: set[NodeId]) -> list[tuple[NodeId, AppendRequest]]:
        """Bring the commit index up to date and let the engine send what is due. Returns the
        heartbeats for peers that are full or recovering, which the engine believes disconnected.

        A round of the engine is dear, and an entry has several acknowledgements: none is made for
        one that can move nothing. What goes by time is looked at with each tick."""
        if not self._core.is_leader:
            return []
        for_reads = self.reads.wants_round()
        heartbeats = self._heartbeats(now, at_once=for_reads)
        if self.flush_due or for_reads or self._commit_can_move:
            flush = self.flush_due or for_reads
            self.flush_due = False
            self._tick_core(up, flush=flush)
            if for_reads:
                self.reads.round_sent()
        if not self._peers:
            self.reads.settle()
        return heartbeats

    @property
    def _commit_can_move(self) -> bool:
        """A quorum, with this node, is known to have more than is committed."""
        needed, committed = self._others_needed, self._core.commit_index
        quorum_index = self._acks.shown_by(needed) if needed else self._log.last_index
        return quorum_index > committed

    def _tick_core(self, up: set[NodeId], *, flush: bool) -> None:
        for peer in up:
            if peer in self._full or peer in self._repairs:
                continue
            if self._has_room(peer):
                self._core.connect(peer)
            else:
                self._full.add(peer)
                self._core.disconnect(peer)
        self._core.tick(flush=flush)

    def on_durable(self) -> None:
        """The own log is durable further than before."""
        for peer, log_index in self._acks.newly_durable(self._log.durable_index):
            before = self._core.next_index(peer)
            self._core.show_ack(peer, log_index)
            self._core.raise_next_index(peer, before)

    def on_response(self, peer: NodeId, response: AppendResponse) -> None:
        if response.recovery:
            self._on_recovering(peer, response.recovery)
            return
        if self._repairs.forget(peer):
            self.flush_due = True
        self._repairs.answered(peer, response.read_sequence)
        next_index = max(1, min(response.next_index, self._log.last_index + 1))
        if response.success:
            self._on_ack(peer, LogIndex(next_index - 1))
        else:
            self._on_refusal(peer, LogIndex(next_index), response)
        self.reads.answer(peer, response.read_sequence)
        if peer in self._full:
            self.look_for_room()

    def look_for_room(self) -> None:
        """Send entries again to the peers that were full and are not any more."""
        for peer in list(self._full):
            if not self._flow.is_full(peer) and self._has_room(peer):
                self._full.discard(peer)
                self.flush_due = True

    def _on_recovering(self, peer: NodeId, recovery: int) -> None:
        """The peer cannot be believed: its answer counts for nothing, not even as a sign of life.
        It is sent only heartbeats, as the engine takes it for disconnected, and a snapshot."""
        if self._repairs.ask(peer, recovery, self._log.last_index, self._sequence):
            self._flow.forget(peer)
            self._full.discard(peer)
            self._core.disconnect(peer)
        repair = self._repairs.of(peer)
        if repair is not None and repair.confirmed:
            self._snapshot_wanted.add(peer)

    def _on_ack(self, peer: NodeId, log_index: LogIndex) -> None:
        self._flow.acked(peer, log_index)
        shown = self._acks.on_ack(peer, log_index, self._log.durable_index)
        before = self._core.next_index(peer)
        message = next_node_idx(LogIndex(shown + 1), success=True, reset=False)
        self._core.receive(peer, message)
        self._core.raise_next_index(peer, before)

    def _on_refusal(self, peer: NodeId, next_index: LogIndex, response: AppendResponse) -> None:
        reset = response.reset
        if response.read_sequence <= self._rewound.get(peer, 0):
            reset = False
        if reset:
            self._flow.forget(peer)
            self._rewound[peer] = self._sequence
            # Whom only a snapshot can help is not asked again before the next heartbeat.
            self.flush_due |= next_index > self._log.base_index
        self._core.receive(peer, next_node_idx(next_index, success=False, reset=reset))

    def append_request(self, to: NodeId, message: CoreMessage, now: float) -> AppendRequest:
        """The engine's message as one of ours. It stops sending to a peer that is full, and to
        one that needs a snapshot instead, by treating it as disconnected."""
        self._sent_at[to] = now
        if "prevLogIdx" not in message:
            self._snapshot_wanted.add(to)
            self._core.disconnect(to)
            return self._request(self._log.base_index, ())
        entries: tuple[LogEntry, ...] = ()
        if message["entries"]:
            entries = message["entries"].log_entries()
            byte_count = sum(len(entry.payload) for entry in entries)
            self._flow.sent(to, entries[-1].log_index, byte_count, len(entries))
            if self._flow.is_full(to) or not self._has_room(to):
                self._full.add(to)
                self._core.disconnect(to)
        return self._request(LogIndex(message["prevLogIdx"]), entries)

    def _request(self, previous_index: LogIndex, entries: tuple[LogEntry, ...]) -> AppendRequest:
        self._sequence += 1
        previous_term = self._log.term_at(previous_index)
        assert previous_term is not None, "a leader only refers to entries it has"
        return AppendRequest(
            Term(self._core.term),
            previous_index,
            previous_term,
            self._log.capped(self._core.commit_index),
            entries,
            self._sequence,
        )

    def _heartbeats(self, now: float, *, at_once: bool) -> list[tuple[NodeId, AppendRequest]]:
        heartbeats: list[tuple[NodeId, AppendRequest]] = []
        if not (self._full or self._repairs):
            return heartbeats
        for peer in sorted({*self._full, *self._repairs}):
            if at_once or now - self._sent_at.get(peer, 0.0) >= self._settings.heartbeat:
                self._sent_at[peer] = now
                # behind all that was sent: where some of it was lost, the peer says so
                previous = max(self._core.next_index(peer) - 1, self._log.base_index)
                heartbeats.append((peer, self._request(LogIndex(previous), ())))
        return heartbeats
