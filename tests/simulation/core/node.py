"""One simulated replica: a real group on a disk that forgets and a state store that lags."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, Term
from svc_cluster.base.log_ops import AppendEntries, LogEntry, LogOp, RecoveredLog, SetCommit
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.group import Durable, NotLeaderError, PeerUp, ReadTicket, Role, Tick, Trim
from svc_cluster.raft.messages import PeerMessage
from tests.simulation.core.checkers import Checkers, ViolationError, extend_digest
from tests.simulation.core.options import Options
from tests.unit.raft.harness import copy_of, replay

UNDECIDED_MAX = 60
"""Entries of a leader's log that are not committed, from which on nothing more is proposed."""

Schedule = Callable[[float, Callable[[], None]], None]
"""Run a function after that many virtual seconds."""


@dataclass(slots=True)
class Store:
    """The state store: what is applied, and what of it a crash leaves."""

    applied_index: int = 0
    digest: bytes = b""
    flushed_index: int = 0
    flushed_digest: bytes = b""


@dataclass(slots=True)
class _Life:
    """What a crash takes away."""

    group: EngineGroup
    unsynced: deque[tuple[int, list[LogOp]]] = field(default_factory=deque)
    syncing: bool = False
    committed: deque[LogEntry] = field(default_factory=deque)
    applying: bool = False
    proposals: dict[int, Term] = field(default_factory=dict)
    reads: dict[ReadTicket, int] = field(default_factory=dict)
    waiting_reads: list[tuple[int, int]] = field(default_factory=list)
    led_term: Term = Term(0)


class SimNode:
    """Everything of one node but the links to the others."""

    def __init__(
        self,
        node_id: NodeId,
        members: list[NodeId],
        options: Options,
        checkers: Checkers,
        schedule: Schedule,
        rng: random.Random,
        send: Callable[[NodeId, NodeId, PeerMessage], None],
        install_snapshot: Callable[[NodeId, NodeId], None],
    ) -> None:
        self.node_id = node_id
        self.members = members
        self.options = options
        self.checkers = checkers
        self.schedule = schedule
        self.rng = rng
        self.send = send
        self.install_snapshot = install_snapshot
        self.disk = RecoveredLog(GroupId(1), Generation(1))
        self.store = Store()
        self.life: _Life | None = None
        self.starts = 0
        self.repairs = 0
        self.slow_disk = True
        self.up: set[NodeId] = set()

    # Life and death

    def start(self) -> None:
        """Begin a new life from the disk and the flushed store."""
        self.starts += 1
        self.store.applied_index = self.store.flushed_index
        self.store.digest = self.store.flushed_digest
        group = EngineGroup(
            group_id=GroupId(1),
            node_id=self.node_id,
            members=self.members,
            recovered=copy_of(self.disk),
            applied_index=LogIndex(self.store.applied_index),
            rng=random.Random(self.rng.getrandbits(64)),
            settings=self.options.settings,
        )
        self.life = _Life(group)
        for peer in sorted(self.up):
            group.step(PeerUp(peer))

    def crash(self) -> None:
        """Lose memory; of the operations that were not synced, a random prefix survives."""
        if self.life is None:
            return
        ops = [piece for _, batch in self.life.unsynced for op in batch for piece in split_op(op)]
        replay(self.disk, ops[: self.rng.randint(0, len(ops))])
        self.disk.commit_index = max(self.disk.commit_index, self.disk.base_index)
        self.life = None
        self.up.clear()

    @property
    def is_whole(self) -> bool:
        return self.life is not None and not self.life.group.recovery

    def lose_disk(self) -> None:
        """Another, empty disk is there at the next start, and known to be another one."""
        self.crash()
        self.disk = RecoveredLog(GroupId(1), Generation(1), damaged=True)
        self.store = Store()
        self.checkers.on_disk_lost(self.node_id)

    def repair_on_snapshot(
        self, recovery: int, sender_term: Term, log_index: LogIndex, term: Term, digest: bytes
    ) -> None:
        """What was forgotten is in the state of the leader that was asked."""
        life = self.life
        if life is None or (life.group.recovery, life.group.term) != (recovery, sender_term):
            return
        for _, ops in life.unsynced:
            replay(self.disk, ops)
        group, voted_for = life.group, self.disk.voted_for or life.group.leader
        self.disk = RecoveredLog(
            GroupId(1), Generation(1), log_index, term, group.term, voted_for, log_index
        )
        self.store = Store(int(log_index), digest, int(log_index), digest)
        self.repairs += 1
        self.start()

    def rebuild_on_snapshot(self, log_index: LogIndex, term: Term, digest: bytes) -> None:
        """Replace the state by that of another node at `log_index`, where it helps."""
        life = self.life
        if life is None:
            return
        group = life.group
        helps = log_index > max(group.commit_index, self.store.applied_index)
        if not helps or group.term_at(log_index) == term:
            return
        for _, ops in life.unsynced:
            replay(self.disk, ops)
        self.disk = replace(
            self.disk, base_index=log_index, base_term=term, commit_index=log_index, entries=[]
        )
        self.store = Store(int(log_index), digest, int(log_index), digest)
        self.start()

    # Steps

    def tick(self, now: float) -> None:
        if self.life is not None:
            self.life.group.step(Tick(now))
            self.drain()

    def drain(self) -> None:
        """Carry out what the group wants done."""
        life = self.life
        assert life is not None
        group = life.group
        has_more = True
        while has_more and (ready := group.ready()) is not None:
            has_more = ready.has_more
            if ready.log_ops:
                self.checkers.on_log_ops(ready.log_ops)
                life.unsynced.append((ready.number, ready.log_ops))
                self._begin_sync(life)
            for to, body in ready.messages:
                self.checkers.on_sent(self.node_id, to, body)
                self.checkers.on_ack_sent(body, group.durable_index)
                self.send(self.node_id, to, body)
            life.committed.extend(ready.committed)
            for state in ready.read_states:
                acked_before = life.reads.pop(state.ticket)
                if state.read_index is not None:
                    self.checkers.on_read(state.read_index, acked_before)
            for peer in ready.snapshot_wanted:
                self.install_snapshot(self.node_id, peer)
            self._begin_apply(life)
        if not has_more and group.ready() is not None:
            raise ViolationError("LEFT_OVER what was said to be nothing")
        if group.role is Role.LEADER and group.term != life.led_term:
            life.led_term = group.term
            self.checkers.on_leader(self.node_id, group)
            self.checkers.on_log(group)

    def propose(self, payload: bytes) -> None:
        """As a client that stops when too much of what it asked for is undecided."""
        if self.life is None:
            return
        group = self.life.group
        if group.can_propose and group.last_index - group.commit_index < UNDECIDED_MAX:
            position = group.propose(payload)
            self.life.proposals[position.log_index] = position.term
            self.checkers.on_proposed(position)
            self.drain()

    def read(self) -> None:
        if self.life is None:
            return
        try:
            ticket = self.life.group.read_index()
        except NotLeaderError:
            return
        self.life.reads[ticket] = self.checkers.acked_index
        self.drain()

    def flush_and_trim(self) -> None:
        """Make the store durable, and sometimes let go of the log that it replaces."""
        if self.life is None:
            return
        self.store.flushed_index = self.store.applied_index
        self.store.flushed_digest = self.store.digest
        keep = self.rng.choice([0, 0, 3, 30, 300])
        trim_to = self.store.flushed_index - keep
        if self.options.compacts and trim_to > self.life.group.base_index:
            self.life.group.step(Trim(LogIndex(trim_to)))
            self.drain()

    # Disk and store

    def _begin_sync(self, life: _Life) -> None:
        worth_it = any(not isinstance(op, SetCommit) for _, ops in life.unsynced for op in ops)
        if life.syncing or not worth_it:
            return
        life.syncing = True
        number = life.unsynced[-1][0]
        slow = self.slow_disk and self.rng.random() < 0.05
        delay = self.rng.uniform(0.02, 0.8) if slow else self.rng.uniform(0.001, 0.02)
        self.schedule(delay, lambda: self._end_sync(life, number))

    def _end_sync(self, life: _Life, number: int) -> None:
        if self.life is not life:
            return
        life.syncing = False
        while life.unsynced and life.unsynced[0][0] <= number:
            replay(self.disk, life.unsynced.popleft()[1])
        life.group.step(Durable(number))
        self.drain()
        self._begin_sync(life)

    def _begin_apply(self, life: _Life) -> None:
        if life.applying or not life.committed:
            return
        life.applying = True
        slow = self.rng.random() < 0.05
        delay = self.rng.uniform(0.05, 0.4) if slow else self.rng.uniform(0.0, 0.01)
        self.schedule(delay, lambda: self._end_apply(life))

    def _end_apply(self, life: _Life) -> None:
        if self.life is not life:
            return
        life.applying = False
        for _ in range(self.rng.randint(1, len(life.committed))):
            entry = life.committed.popleft()
            store = self.store
            store.applied_index += 1
            store.digest = extend_digest(store.digest, entry)
            self.checkers.on_applied(store.applied_index, entry, store.digest, life.group.term)
            if life.proposals.pop(store.applied_index, None) == entry.term:
                self.checkers.on_acked(store.applied_index)
        self._begin_apply(life)


def split_op(op: LogOp) -> list[LogOp]:
    """An append may reach the disk in part."""
    if isinstance(op, AppendEntries):
        return [AppendEntries((entry,)) for entry in op.entries]
    return [op]
