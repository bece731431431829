"""One simulated copy of the group: an engine or a learner, on a disk that forgets."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import Protocol

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.feed import Feed
from svc_cluster.raft.group import (
    Message,
    NotLeaderError,
    PeerUp,
    Ready,
    Role,
    Tick,
)
from svc_cluster.raft.learner import Learner
from svc_cluster.raft.messages import PeerMessage
from svc_cluster.replica.openings import decided
from tests.simulation.core.node import UNDECIDED_MAX, Store
from tests.simulation.seals.durable_copy import GROUP, Batch, DurableCopy, Ground, Life
from tests.unit.raft.harness import copy_of, replay


class Surroundings(Ground, Protocol):
    """What a copy needs of its world beside that."""

    def send(self, sender: NodeId, to: NodeId, body: PeerMessage) -> None: ...
    def pull(self, asking: Copy, to: NodeId) -> None: ...
    def install_snapshot(self, source: Copy, to: NodeId) -> None: ...
    def reachable(self, node_id: NodeId) -> list[NodeId]: ...
    def is_first_over(self) -> bool: ...


class Copy(DurableCopy):
    """One replica id on one node."""

    world: Surroundings

    # Life and death

    def start(self) -> None:
        """Begin a new life from the disk and the flushed store."""
        self.store.applied_index = self.store.flushed_index
        self.store.digest = self.store.flushed_digest
        self.life = Life(self._part(copy_of(self.disk)))
        self._greet()
        self.drain()

    def _part(self, recovered: RecoveredLog) -> EngineGroup | Learner:
        known = recovered.configuration
        applied_index = LogIndex(self.store.applied_index)
        settings = self.world.options.settings
        if known is None and self.world.options.forgets_first and self.world.is_first_over():
            self.world.checkers.counts["forgot_first"] += 1
            log = decided(recovered, applied_index)
            return Learner(recovered=log, applied_index=applied_index, settings=settings)
        known = known or self.world.first
        if not known.includes(self.replica_id):
            is_told = recovered.configuration is not None or not recovered.damaged
            log = recovered if is_told else decided(recovered, applied_index)
            return Learner(recovered=log, applied_index=applied_index, settings=settings)
        return EngineGroup(
            group_id=GROUP,
            node_id=self.node_id,
            members=known.nodes,
            recovered=recovered,
            applied_index=applied_index,
            rng=random.Random(self.world.rng.getrandbits(64)),
            settings=settings,
        )

    def _greet(self) -> None:
        engine = self.engine
        if engine is not None:
            for peer in self.world.reachable(self.node_id):
                engine.step(PeerUp(peer))

    # The seam

    def look_for_end(self) -> None:
        """Begin the next configuration where this one has ended, and ask who knows of a later."""
        life = self.life
        if life is None or life.switching:
            return
        behind = _take_behind(life.part)
        next_one = self._next_one(life.part)
        if next_one is not None:
            self._switch(life, next_one)
        elif behind is not None:
            self.world.pull(self, behind)

    def _next_one(self, part: EngineGroup | Learner) -> Configuration | None:
        applied_index = LogIndex(self.store.applied_index)
        if isinstance(part, EngineGroup):
            return part.seam.next_at(applied_index)
        return part.next_at(applied_index)

    def _switch(self, life: Life, next_one: Configuration) -> None:
        """Nothing of the configuration before follows the operation that ends it."""
        self.world.checkers.on_told(next_one)
        part = life.part
        led = isinstance(part, EngineGroup) and part.role is Role.LEADER
        for log_index, (_, payload) in list(life.proposals.items()):
            if log_index > next_one.seal_index:
                del life.proposals[log_index]
                self.world.checkers.on_failed(payload)
        ending = part.end(next_one)
        life.switching = True
        life.committed.clear()
        life.reads.clear()
        first = led or next_one.nodes[0] == self.node_id
        begin = partial(self._begin, life, ending.recovered, stands=first)
        life.unsynced.append(Batch(None, 0, [ending.op], begin))
        self._begin_sync(life)

    def _begin(self, life: Life, recovered: RecoveredLog, *, stands: bool) -> None:
        life.switching = False
        life.part = self._part(recovered)
        self.world.checkers.counts["begun"] += 1
        self._greet()
        engine = self.engine
        if engine is not None:
            engine.step(Tick(self.world.now))
            if stands:
                engine.campaign()
        self.drain()

    # What comes in

    def hear(self, sender: NodeId, body: PeerMessage) -> None:
        life = self.life
        if life is None or life.switching:
            return
        if isinstance(life.part, EngineGroup):
            life.part.step(Message(sender, body))
        else:
            life.part.hear(sender, body)
        self.drain()

    def tick(self) -> None:
        engine = self.engine
        if engine is not None:
            engine.step(Tick(self.world.now))
            self.drain()

    @property
    def wants_feed(self) -> bool:
        """Whether it asks around: no member, or one that lacks its beginning or hears no leader."""
        life = self.life
        if life is None or life.switching:
            return False
        part = life.part
        if isinstance(part, Learner):
            return True
        return not part.seam.holds_beginning or part.seam.is_lost or part.leader is None

    @property
    def last_index(self) -> LogIndex:
        assert self.life is not None
        return self.life.part.last_index

    def feed(self, asked: LogIndex) -> Feed | None:
        """What this copy tells who asks; None: nothing, or a snapshot has it."""
        life = self.life
        if life is None or life.switching:
            return None
        applied_index = LogIndex(self.store.applied_index)
        if isinstance(life.part, Learner):
            return life.part.feed(asked, applied_index)
        if life.part.recovery:
            return None
        return life.part.seam.feed(asked, applied_index)

    def told_with_state(self) -> Configuration | None:
        """The configuration that this copy's state is told with; None: it is not to be told now. A
        state with a seal in it belongs to the configuration that the seal begins."""
        part = None if self.life is None else self.life.part
        if isinstance(part, Learner):
            ends = part.next_at(LogIndex(self.store.applied_index)) is not None
            return None if part.recovers or ends else part.configuration
        if part is None or part.recovery:
            return None
        if part.seam.next_at(LogIndex(self.store.applied_index)) is not None:
            return None
        return part.seam.configuration

    def take(self, feed: Feed) -> None:
        life = self.life
        if life is None or life.switching:
            return
        self.world.checkers.on_told(feed.configuration)
        if isinstance(life.part, Learner):
            life.part.take(feed)
        elif life.part.recovery:
            life.part.seam.learn(feed.configuration)
        else:
            life.part.seam.take(feed)
        self.world.checkers.counts["fed"] += 1
        self.drain()

    def take_snapshot(
        self,
        told: Configuration,
        log_index: LogIndex,
        term: Term,
        digest: bytes,
        repair: tuple[int, Term] | None = None,
    ) -> None:
        """Replace the state by another copy's, where it helps. `repair`: the number under which
        this one asked, and the term of the leader that answers."""
        life = self.life
        if life is None or life.switching:
            return
        part = life.part
        if isinstance(part, EngineGroup):
            helps = log_index > max(part.commit_index, self.store.applied_index)
            helps = helps and part.term_at(log_index) != term and not part.recovery
            if told.number > part.seam.configuration.number:
                part.seam.learn(told)
                self.drain()
                return
            if told.number < part.seam.configuration.number or part.seam.is_lost:
                return
            if repair is not None:
                helps = repair == (part.recovery, part.term)
        else:
            part.learn(told)
            known = part.configuration
            is_current = known is not None and told.number == known.number
            helps = is_current and log_index > part.last_index and not part.recovers
        if helps:
            self._install(life, log_index, term, digest, repairs=repair is not None)
        else:
            self.drain()

    def _install(
        self, life: Life, log_index: LogIndex, term: Term, digest: bytes, *, repairs: bool
    ) -> None:
        for batch in life.unsynced:
            replay(self.disk, batch.ops)
        if repairs:
            assert isinstance(life.part, EngineGroup)
            voted_for = self.disk.voted_for or life.part.leader
            self.disk = replace(self.disk, damaged=False, term=life.part.term, voted_for=voted_for)
            self.world.checkers.counts["repairs"] += 1
        self.disk = replace(
            self.disk, base_index=log_index, base_term=term, commit_index=log_index, entries=[]
        )
        self.store = Store(int(log_index), digest, int(log_index), digest)
        self.start()

    # What goes out

    def drain(self) -> None:
        """Carry out what is to be done."""
        life = self.life
        if life is None or life.switching:
            return
        part, has_more = life.part, True
        while has_more and (ready := part.ready()) is not None:
            has_more = ready.has_more
            self._perform(life, part, ready)
        if isinstance(part, EngineGroup):
            self._look_at_leader(life, part)
        self.look_for_end()

    def _perform(self, life: Life, part: EngineGroup | Learner, ready: Ready) -> None:
        world = self.world
        if ready.log_ops:
            world.checkers.on_log_ops(ready.log_ops)
            if isinstance(part, Learner):
                world.checkers.on_learnt(ready.log_ops)
            life.unsynced.append(Batch(part, ready.number, ready.log_ops))
            self._begin_sync(life)
        for to, body in ready.messages:
            world.checkers.on_said(self.replica_id, to, body)
            if isinstance(part, EngineGroup):
                world.checkers.on_ack_sent(body, part.durable_index)
            world.send(self.node_id, to, body)
        life.committed.extend(ready.committed)
        for state in ready.read_states:
            acked_before = life.reads.pop(state.ticket, None)
            if state.read_index is not None and acked_before is not None:
                world.checkers.on_read(state.read_index, acked_before)
        for peer in ready.snapshot_wanted:
            world.install_snapshot(self, peer)
        self._begin_apply(life)

    def _look_at_leader(self, life: Life, group: EngineGroup) -> None:
        checkers = self.world.checkers
        if group.role is not Role.LEADER:
            return
        if group.term != life.led_term:
            life.led_term = group.term
            checkers.on_leader(self.node_id, group)
            checkers.on_log(group)
        if group.term_at(group.commit_index) == group.term:
            checkers.established.add(group.seam.configuration.number)

    def propose(self, payload: bytes) -> None:
        engine = self.engine
        if engine is None or not engine.can_propose:
            return
        if engine.last_index - engine.commit_index < UNDECIDED_MAX:
            position = engine.propose(payload)
            assert self.life is not None
            self.life.proposals[position.log_index] = (position.term, payload)
            self.world.checkers.on_proposed(position)
            self.drain()

    def read(self) -> None:
        engine = self.engine
        if engine is None:
            return
        try:
            ticket = engine.read_index()
        except NotLeaderError:
            return
        assert self.life is not None
        self.life.reads[ticket] = self.world.checkers.acked_index
        self.drain()


def _take_behind(part: EngineGroup | Learner) -> NodeId | None:
    teller = part.seam if isinstance(part, EngineGroup) else part
    behind, teller.behind = teller.behind, None
    return behind
