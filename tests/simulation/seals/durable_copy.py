"""The disk and the state store of a simulated copy of a group, and what of them a crash leaves."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, ReplicaId, Term
from svc_cluster.base.log_ops import LogEntry, LogOp, RecoveredLog, SetCommit
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.group import (
    Durable,
    ReadTicket,
    Trim,
)
from svc_cluster.raft.learner import Learner
from svc_cluster.raft.seal import SEAL_TYPE
from tests.simulation.core.checkers import ViolationError, extend_digest
from tests.simulation.core.node import Store, split_op
from tests.simulation.seals.checks import SealCheckers
from tests.simulation.seals.options import SealOptions
from tests.unit.raft.harness import copy_of, replay

GROUP = GroupId(1)
HISTORY_MAX = 8
"""Older states of its disk to which damage may throw a copy back."""


class Ground(Protocol):
    """What a disk and a store need of their world."""

    options: SealOptions
    checkers: SealCheckers
    rng: random.Random
    now: float
    first: Configuration
    calm: bool

    def schedule(self, delay: float, action: Callable[[], None]) -> None: ...


@dataclass(slots=True)
class Batch:
    """What was handed out to be synced: by which engine, and what comes of it."""

    by: EngineGroup | Learner | None
    number: int
    ops: list[LogOp]
    then: Callable[[], None] | None = None


@dataclass(slots=True)
class Life:
    """What a crash takes away."""

    part: EngineGroup | Learner
    unsynced: deque[Batch] = field(default_factory=deque)
    syncing: bool = False
    committed: deque[LogEntry] = field(default_factory=deque)
    applying: bool = False
    proposals: dict[int, tuple[Term, bytes]] = field(default_factory=dict)
    reads: dict[ReadTicket, int] = field(default_factory=dict)
    led_term: Term = Term(0)
    switching: bool = False


class DurableCopy:
    """One replica id on one node: all but what it says to others."""

    def __init__(self, world: Ground, node_id: NodeId, replica_id: ReplicaId) -> None:
        self.world = world
        self.node_id = node_id
        self.replica_id = replica_id
        self.disk = RecoveredLog(GROUP, Generation(1))
        self.store = Store()
        self.life: Life | None = None
        self.gone = False
        self.history: list[RecoveredLog] = []
        self.apply_seconds = world.rng.choice(world.options.apply_seconds)

    @property
    def engine(self) -> EngineGroup | None:
        """The engine, while it works."""
        life = self.life
        if life is None or life.switching or not isinstance(life.part, EngineGroup):
            return None
        return life.part

    @property
    def configuration(self) -> Configuration:
        """On its disk."""
        return self.disk.configuration or self.world.first

    @property
    def is_whole(self) -> bool:
        """Whether its disk has the beginning of its configuration, and lacks nothing of it."""
        began, disk = self.configuration, self.disk
        if disk.damaged or not began.includes(self.replica_id):
            return False
        if disk.base_index >= began.seal_index:
            return True
        slot = began.seal_index - disk.base_index - 1
        return slot < len(disk.entries) and disk.entries[slot].term == began.seal_term

    def drain(self) -> None:
        """Carry out what is to be done; see `Copy`."""
        raise NotImplementedError

    def crash(self) -> None:
        """Lose memory; of the operations that were not synced, a random prefix survives."""
        if self.life is None:
            return
        ops = [piece for batch in self.life.unsynced for op in batch.ops for piece in split_op(op)]
        replay(self.disk, ops[: self.world.rng.randint(0, len(ops))])
        self.disk.commit_index = max(self.disk.commit_index, self.disk.base_index)
        self.life = None

    def damage(self) -> None:
        """Some of what was synced is lost, and known to be: perhaps what says in which
        configuration it was, while its term is still there."""
        self.crash()
        rng = self.world.rng
        if self.history:
            term = self.disk.term
            self.disk = copy_of(rng.choice(self.history))
            if rng.random() < 0.3:
                self.disk.term, self.disk.voted_for = max(term, self.disk.term), None
        self.disk.damaged = True
        self.world.checkers.on_forgotten(self.replica_id)

    def lose_disk(self) -> None:
        """An empty one is there at the next start, and nobody knows."""
        self.disk, self.store = RecoveredLog(GROUP, Generation(1)), Store()
        self.world.checkers.on_forgotten(self.replica_id)

    def flush_and_trim(self) -> None:
        """Make the store durable, and sometimes let go of the log that it replaces."""
        life = self.life
        if life is None or life.switching:
            return
        store, rng = self.store, self.world.rng
        store.flushed_index, store.flushed_digest = store.applied_index, store.digest
        keep = rng.choice([0, 0, 3, 30, 300])
        if not self.world.options.compacts:
            return
        event = Trim(LogIndex(store.flushed_index - keep))
        if event.log_index <= self.disk.base_index:
            return
        if isinstance(life.part, EngineGroup):
            if not life.part.recovery:
                life.part.step(event)
        elif not life.part.recovers:
            life.part.trim(event.log_index)
        self.drain()

    # Disk and store

    def _begin_sync(self, life: Life) -> None:
        worth_it = any(not isinstance(op, SetCommit) for batch in life.unsynced for op in batch.ops)
        if life.syncing or not worth_it:
            return
        life.syncing = True
        newest, rng = life.unsynced[-1], self.world.rng
        slow = not self.world.calm and rng.random() < 0.05
        delay = rng.uniform(0.02, 0.8) if slow else rng.uniform(0.001, 0.02)
        self.world.schedule(delay, lambda: self._end_sync(life, newest))

    def _end_sync(self, life: Life, newest: Batch) -> None:
        if self.life is not life:
            return
        life.syncing = False
        while True:
            batch = life.unsynced.popleft()
            replay(self.disk, batch.ops)
            if self.world.rng.random() < 0.2 or batch.by is None:
                self._remember()
            if batch is newest:
                break
        if newest.by is life.part and not life.switching:
            if isinstance(life.part, EngineGroup):
                life.part.step(Durable(newest.number))
            else:
                life.part.durable(Durable(newest.number))
        if newest.then is not None:
            newest.then()
        self.drain()
        if self.life is life:
            self._begin_sync(life)

    def _remember(self) -> None:
        if not self.disk.damaged:
            self.history.append(copy_of(self.disk))
            del self.history[:-HISTORY_MAX]

    def _begin_apply(self, life: Life) -> None:
        if life.applying or not life.committed:
            return
        life.applying = True
        longest = 0.01 if self.world.calm else self.apply_seconds
        delay = self.world.rng.uniform(0.0, longest)
        self.world.schedule(delay, lambda: self._end_apply(life))

    def _end_apply(self, life: Life) -> None:
        if self.life is not life:
            return
        life.applying = False
        if life.switching or not life.committed:
            return
        for _ in range(self.world.rng.randint(1, len(life.committed))):
            self._apply(life, life.committed.popleft())
        self._begin_apply(life)
        self.drain()

    def _apply(self, life: Life, entry: LogEntry) -> None:
        store, checkers = self.store, self.world.checkers
        if entry.log_index != store.applied_index + 1:
            raise ViolationError(f"APPLY_GAP {entry.log_index} behind {store.applied_index}")
        store.applied_index += 1
        store.digest = extend_digest(store.digest, entry)
        term = life.part.term if isinstance(life.part, EngineGroup) else entry.term
        checkers.on_applied(store.applied_index, entry, store.digest, term)
        if entry.payload[0] == SEAL_TYPE and isinstance(life.part, EngineGroup):
            of = life.part.seam.configuration
            if entry.log_index > of.seal_index:
                checkers.on_decided(of, entry)
        waited = life.proposals.pop(store.applied_index, None)
        if waited is not None:
            if waited[0] == entry.term:
                checkers.on_acked(store.applied_index)
            else:
                checkers.on_failed(waited[1])
