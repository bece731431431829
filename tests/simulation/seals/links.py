"""What the copies of one group hear of each other: links that lose, repeat and delay."""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable

from svc_cluster.base.configuration import first_configuration
from svc_cluster.base.ids import LogIndex, NodeId, ReplicaId
from svc_cluster.raft.feed import Feed
from svc_cluster.raft.group import PeerDown, PeerUp
from svc_cluster.raft.messages import PeerMessage
from tests.simulation.seals.checks import SealCheckers
from tests.simulation.seals.copy_of_group import Copy
from tests.simulation.seals.options import SealOptions

FIRST_NODES = (NodeId(1), NodeId(2), NodeId(3))

REPLICA_IDS_FROM = 100
"""Placements behind the first are numbered from here on."""


class Links:
    """Virtual time, the nodes with their copies, and the ways between them."""

    def __init__(self, options: SealOptions) -> None:
        self.options = options
        self.rng = random.Random(f"seal world {options.seed}")
        self.now = 10.0
        self.calm = False
        self.first = first_configuration(FIRST_NODES)
        self.checkers = SealCheckers(self.first)
        self.nodes = [NodeId(number) for number in range(1, options.node_count + 1)]
        self.places: dict[NodeId, Copy] = {}
        self.copies: dict[ReplicaId, Copy] = {}
        self.hurt: set[ReplicaId] = set()
        """Whose disk is damaged or lost, until it is repaired."""
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.scheduled = 0
        self.trace = hashlib.blake2b(digest_size=16)
        self.blocked: set[tuple[NodeId, NodeId]] = set()
        self._arrivals: dict[tuple[NodeId, NodeId], float] = {}
        self.next_replica_id = REPLICA_IDS_FROM
        self.proposed = 0

    def schedule(self, delay: float, action: Callable[[], None]) -> None:
        self.scheduled += 1
        heapq.heappush(self.queue, (self.now + delay, self.scheduled, action))

    def reachable(self, node_id: NodeId) -> list[NodeId]:
        return sorted(n for n, copy in self.places.items() if copy.life and n != node_id)

    def send(self, sender: NodeId, to: NodeId, body: PeerMessage) -> None:
        self.trace.update(repr((round(self.now, 6), sender, to, body)).encode())
        if (sender, to) in self.blocked:
            return
        delay = self.rng.uniform(0.0002, 0.003)
        if not self.calm:
            roll = self.rng.random()
            if roll < 0.02:
                return
            if roll < 0.05:
                late = self.rng.uniform(0.0, 3.0)
                self.schedule(late, lambda: self._deliver(sender, to, body))
        arrival = max(self.now + delay, self._arrivals.get((sender, to), 0.0))
        self._arrivals[sender, to] = arrival
        self.schedule(arrival - self.now, lambda: self._deliver(sender, to, body))

    def _deliver(self, sender: NodeId, to: NodeId, body: PeerMessage) -> None:
        copy = self.places.get(to)
        if copy is not None and (sender, to) not in self.blocked:
            copy.hear(sender, body)

    def connect_all(self) -> None:
        for node_id, copy in list(self.places.items()):
            engine = copy.engine
            if engine is None:
                continue
            for peer in self.reachable(node_id):
                engine.step(PeerUp(peer))
            copy.drain()

    def peers_see(self, node_id: NodeId, *, is_up: bool) -> None:
        for other, copy in list(self.places.items()):
            engine = copy.engine
            if other != node_id and engine is not None:
                engine.step(PeerUp(node_id) if is_up else PeerDown(node_id))
                copy.drain()

    def pull(self, asking: Copy, to: NodeId) -> None:
        """Ask a node for what is decided; the answer may be lost, late or twice."""
        asked = asking.last_index
        if (asking.node_id, to) not in self.blocked:
            self.schedule(self.rng.uniform(0.001, 0.01), lambda: self._answer(asking, to, asked))

    def _answer(self, asking: Copy, to: NodeId, asked: LogIndex) -> None:
        teller = self.places.get(to)
        if teller is None or teller.life is None or (to, asking.node_id) in self.blocked:
            return
        feed = teller.feed(asked)
        times = 1 if self.calm else self.rng.choice([0, 1, 1, 1, 2])
        for _ in range(times):
            delay = 0.002 if self.calm else self.rng.choice([0.002, 0.05, 2.0])
            if feed is not None:
                self.schedule(delay, lambda told=feed: _take(asking, told))  # type: ignore[misc]
            else:
                self._send_snapshot(teller, asking, delay)

    def _send_snapshot(self, source: Copy, target: Copy, delay: float) -> None:
        """A state is told under the configuration that it is part of."""
        life = source.life
        assert life is not None
        if life.switching or source.disk.damaged:
            return
        configuration = source.told_with_state()
        log_index = LogIndex(source.store.applied_index)
        term = life.part.term_at(log_index)
        if configuration is None or term is None:
            return
        digest = source.store.digest
        self.schedule(delay, lambda: target.take_snapshot(configuration, log_index, term, digest))

    def install_snapshot(self, source: Copy, to: NodeId) -> None:
        """A leader's peer needs a state: because its log is too short, or because it recovers."""
        engine, target = source.engine, self.places.get(to)
        if engine is None or target is None:
            return
        if (source.node_id, to) in self.blocked or (to, source.node_id) in self.blocked:
            return
        delay = self.rng.uniform(0.001, 0.3)
        repair = engine.repair_of(to)
        if repair is None:
            self._send_snapshot(source, target, delay)
            return
        configuration = source.told_with_state()
        log_index = LogIndex(source.store.applied_index)
        term = engine.term_at(log_index)
        enough = repair.confirmed and log_index >= repair.least_index
        if configuration is None or term is None or not enough:
            return
        digest, asked = source.store.digest, (repair.recovery, engine.term)

        def arrive() -> None:
            target.take_snapshot(configuration, log_index, term, digest, asked)
            if not target.disk.damaged:
                self.hurt.discard(target.replica_id)

        self.schedule(delay, arrive)


def _take(asking: Copy, feed: Feed) -> None:
    asking.take(feed)
