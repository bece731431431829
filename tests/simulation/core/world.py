"""The nodes, the links between them and what goes wrong: one seed, one history."""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

from svc_cluster.base.ids import LogIndex, NodeId
from svc_cluster.raft.group import EngineFault, Message, PeerDown, PeerUp
from svc_cluster.raft.messages import PeerMessage
from tests.simulation.core.checkers import Checkers, ViolationError
from tests.simulation.core.node import SimNode
from tests.simulation.core.options import Options

QUIET_RATE = 10.0
"""Proposals a second at least, once all is healed: whether any is acknowledged is looked at."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one seed."""

    seed: int
    violation: str | None
    acked: int
    reads: int
    crashes: int
    terms: int
    lost_disks: int
    repairs: int
    trace: str
    """Digest of everything that was sent, and when."""


class World:
    """All nodes of one run in virtual time."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.rng = random.Random(f"world {options.seed}")
        self._disks = random.Random(f"disks {options.seed}")
        self.now = 10.0
        self.checkers = Checkers()
        self.crashes = 0
        self.lost_disks = 0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._scheduled = 0
        self._trace = hashlib.blake2b(digest_size=16)
        members = [NodeId(number) for number in range(1, options.node_count + 1)]
        self.nodes = {
            member: SimNode(
                member,
                members,
                options,
                self.checkers,
                self.schedule,
                random.Random(self.rng.getrandbits(64)),
                self.send,
                self.install_snapshot,
            )
            for member in members
        }
        self._pairs = [(a, b) for a in members for b in members if a < b]
        self._blocked: set[tuple[NodeId, NodeId]] = set()
        self._connection = dict.fromkeys(self._pairs, 0)
        self._last_arrival: dict[tuple[NodeId, NodeId], float] = {}
        self._proposed = 0
        self._chaos = True

    # Running

    def schedule(self, delay: float, action: Callable[[], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._queue, (self.now + delay, self._scheduled, action))

    def run(self) -> Outcome:
        violation = None
        try:
            self._run()
        except ViolationError as error:
            violation = f"{error} at {self.now:.3f}"
        except EngineFault as fault:
            violation = f"ENGINE_FAULT {fault} at {self.now:.3f}"
        return Outcome(
            self.options.seed,
            violation,
            self.checkers.acked_count,
            self.checkers.read_count,
            self.crashes,
            max(self.checkers.terms_sent.values(), default=0),
            self.lost_disks,
            sum(node.repairs for node in self.nodes.values()),
            self._trace.hexdigest(),
        )

    def _run(self) -> None:
        for node in self.nodes.values():
            node.start()
            self._tick_later(node)
            self._flush_later(node)
        for pair in self._pairs:
            self._connect(pair)
        self._workload_later()
        self.schedule(1.0, self._fault)
        if self.options.loses_disks:
            self.schedule(self._disks.uniform(1.0, 4.0), self._lose_disk)
        self._run_until(self.now + self.options.chaos_seconds)
        self._heal()
        quiet = self.options.quiet_seconds
        self._run_until(self.now + quiet / 2)
        acked = self.checkers.acked_count
        self._run_until(self.now + quiet / 4)
        if self.checkers.acked_count == acked:
            raise ViolationError("NOT_LIVE nothing is acknowledged after the cluster healed")
        self._proposed = -1
        # a replica far behind under a heavy load takes its time: entries of 50 bytes an answer
        for _ in range(4):
            self._run_until(self.now + quiet / 4)
            if self._converged():
                break
        else:
            raise ViolationError("NOT_CONVERGED the replicas differ after the cluster healed")
        for node in self.nodes.values():
            assert node.life is not None
            self.checkers.on_log(node.life.group)

    def _converged(self) -> bool:
        """Every replica has applied the same, and all that was acknowledged."""
        applied = {node.store.applied_index for node in self.nodes.values()}
        return len(applied) == 1 and applied.pop() >= self.checkers.acked_index

    def _run_until(self, end: float) -> None:
        while self._queue and self._queue[0][0] <= end:
            self.now, _, action = heapq.heappop(self._queue)
            action()
        self.now = end

    def _tick_later(self, node: SimNode) -> None:
        def tick() -> None:
            node.tick(self.now)
            self._tick_later(node)

        self.schedule(self.rng.uniform(*self.options.tick_seconds), tick)

    def _flush_later(self, node: SimNode) -> None:
        def flush() -> None:
            node.flush_and_trim()
            self._flush_later(node)

        self.schedule(self.rng.uniform(0.1, 2.0), flush)

    def _workload_later(self) -> None:
        chaos = self._chaos

        def work() -> None:
            if self._proposed < 0 or self._chaos != chaos:
                return
            for node in self.nodes.values():
                self._work_on(node)
            self._workload_later()

        rate = self.options.proposals_per_second
        self.schedule(self.rng.expovariate(rate if chaos else max(rate, QUIET_RATE)), work)

    def _work_on(self, node: SimNode) -> None:
        for _ in range(self.rng.choice([1, 1, 1, 5])):
            self._proposed += 1
            padding = b"." * self.rng.choice([0, 0, 5, 30])
            node.propose(b"\x09%d" % self._proposed + padding)
        if self.rng.random() < 0.3:
            node.read()

    # Links

    def send(self, sender: NodeId, to: NodeId, body: PeerMessage) -> None:
        self._trace.update(repr((round(self.now, 6), sender, to, body)).encode())
        if (sender, to) in self._blocked:
            return
        connection = self._connection[_pair(sender, to)]
        delay = self.rng.uniform(0.0002, 0.003)
        if self.rng.random() < 0.01:
            delay = self.rng.uniform(0.003, 0.1)
        arrival = max(self.now + delay, self._last_arrival.get((sender, to), 0.0))
        if self.options.adversarial and self._chaos:
            roll = self.rng.random()
            if roll < 0.02:
                return
            if roll < 0.04:
                late = self.rng.uniform(0.0, 2.5)
                self.schedule(late, lambda: self._deliver(sender, to, body, None))
        self._last_arrival[sender, to] = arrival
        self.schedule(arrival - self.now, lambda: self._deliver(sender, to, body, connection))

    def _deliver(
        self, sender: NodeId, to: NodeId, body: PeerMessage, connection: int | None
    ) -> None:
        """A message of a connection that was reset is lost, or late when links are adversarial."""
        node = self.nodes[to]
        if connection is not None and connection != self._connection[_pair(sender, to)]:
            if self.options.adversarial and self._chaos and self.rng.random() < 0.5:
                late = self.rng.uniform(0.0, 2.5)
                self.schedule(late, lambda: self._deliver(sender, to, body, None))
            return
        if node.life is not None and (sender, to) not in self._blocked:
            node.life.group.step(Message(sender, body))
            node.drain()

    def _reset(self, pair: tuple[NodeId, NodeId]) -> None:
        self._connection[pair] += 1
        for one, other in (pair, pair[::-1]):
            self._last_arrival.pop((one, other), None)
            node = self.nodes[one]
            if node.life is not None and other in node.up:
                node.up.discard(other)
                node.life.group.step(PeerDown(other))
                node.drain()
        self.schedule(self.rng.uniform(0.005, 0.2), lambda: self._connect(pair))

    def _connect(self, pair: tuple[NodeId, NodeId]) -> None:
        for one, other in (pair, pair[::-1]):
            node = self.nodes[one]
            if node.life is not None and self.nodes[other].life and other not in node.up:
                node.up.add(other)
                node.life.group.step(PeerUp(other))
                node.drain()

    def install_snapshot(self, sender: NodeId, to: NodeId) -> None:
        """The host sends its state over another channel; here it arrives whole, a little later."""
        if (sender, to) in self._blocked or (to, sender) in self._blocked:
            return
        source = self.nodes[sender]
        life = source.life
        assert life is not None
        log_index = LogIndex(source.store.applied_index)
        term = life.group.term_at(log_index)
        if term is None:
            return
        digest = source.store.digest
        target = self.nodes[to]
        repair, sender_term = life.group.repair_of(to), life.group.term
        if repair is not None:
            if repair.confirmed and log_index >= repair.least_index:
                self.schedule(
                    self.rng.uniform(0.001, 0.3),
                    lambda: target.repair_on_snapshot(
                        repair.recovery, sender_term, log_index, term, digest
                    ),
                )
            return
        self.schedule(
            self.rng.uniform(0.001, 0.3),
            lambda: target.rebuild_on_snapshot(log_index, term, digest),
        )

    # Faults

    def _fault(self) -> None:
        if not self._chaos:
            return
        members = list(self.nodes)
        node = self.nodes[self.rng.choice(members)]
        match self.rng.randrange(8):
            case 0 | 1:
                self._crash(node)
            case 2:
                if self.rng.random() < 0.3:
                    for each in self.nodes.values():
                        self._crash(each)
            case 3:
                self._blocked = set()
                if self.rng.random() < 0.7:
                    others = [member for member in members if member != node.node_id]
                    self._blocked = {(node.node_id, other) for other in others}
                    self._blocked |= {(other, node.node_id) for other in others}
            case 4:
                if len(members) > 1:
                    one, other = self.rng.sample(members, 2)
                    self._blocked.add((one, other))
            case 5:
                self._blocked.clear()
            case 6:
                if self._pairs:
                    self._reset(self.rng.choice(self._pairs))
            case _:
                if node.life is not None and node.life.group.can_propose and self._pairs:
                    other = self.rng.choice([m for m in members if m != node.node_id])
                    node.life.group.transfer_leadership(other)
                    node.drain()
        self.schedule(self.rng.expovariate(1 / self.options.fault_seconds), self._fault)

    def _crash(self, node: SimNode) -> None:
        if node.life is None:
            return
        self.crashes += 1
        node.crash()
        for pair in self._pairs:
            if node.node_id in pair:
                self._connection[pair] += 1
                other = pair[0] if pair[1] == node.node_id else pair[1]
                self._peer_died(self.nodes[other], node.node_id)
        self.schedule(self.rng.uniform(0.02, 1.5), lambda: self._restart(node))

    def _lose_disk(self) -> None:
        """At most one disk is missing, and its loss strikes at any moment."""
        if not self._chaos:
            return
        lost = self._disks.choice(list(self.nodes.values()))
        others = [node for node in self.nodes.values() if node is not lost]
        if others and all(not node.disk.damaged for node in others):
            self._crash(lost)
            lost.lose_disk()
            self.lost_disks += 1
        self.schedule(self._disks.expovariate(0.5), self._lose_disk)

    def _peer_died(self, node: SimNode, peer: NodeId) -> None:
        if node.life is not None and peer in node.up:
            node.up.discard(peer)
            node.life.group.step(PeerDown(peer))
            node.drain()

    def _restart(self, node: SimNode) -> None:
        if node.life is None:
            node.start()
            for pair in self._pairs:
                if node.node_id in pair:
                    self._connect(pair)

    def _heal(self) -> None:
        self._chaos = False
        self._workload_later()
        self._blocked.clear()
        for node in self.nodes.values():
            node.slow_disk = False
            self._restart(node)
        for pair in self._pairs:
            self._connect(pair)


def _pair(one: NodeId, other: NodeId) -> tuple[NodeId, NodeId]:
    return (one, other) if one < other else (other, one)


def run(options: Options) -> Outcome:
    return World(options).run()
