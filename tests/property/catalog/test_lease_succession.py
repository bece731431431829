"""Whatever becomes of the catalog's leaders and of what they say to each other and to
gateways: once a revocation is answered, no gateway goes by what was before it.

The tables are the real ones, and so is the form in which leases are handed on. What stands for Raft
here is what it promises: one leader a term, and a quorum that confirms one has seen no later term.
A step may come at any later time: whoever answers late was stopped meanwhile, or its answer was on
its way.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.catalog.leases import LEASE_SECONDS, HandedLeases, LeaseTable
from svc_cluster.codec import lease_hand_over

NODES = range(3)
GATEWAYS = range(2)
RATES = (1.0, 1.05)
"""Of clocks: no two differ by more."""

SECONDS = (0.001, 0.001, 0.02, 0.02, 0.1, 0.1, 0.2, 0.2, 0.5, 0.5, 1.0, 2.9, 3.05)
HISTORIES = 3_000
LEADERS = 8
STEPS = 40


@dataclass
class Node:
    rate: float
    offset: float
    table: LeaseTable = field(default_factory=LeaseTable)
    term: int = 0
    """The newest that it has seen."""
    leads: int = -1
    """The term of which it was elected in this life of its process."""
    serves: int = -1
    version: int = 0
    """Of the tokens that it has applied."""
    life: int = 0

    @property
    def is_serving(self) -> bool:
        """What it believes, which may be long over."""
        return self.serves == self.term


@dataclass(frozen=True)
class Asked:
    gateway: int
    number: int
    version: int


@dataclass(frozen=True)
class Confirmed:
    """A quorum has confirmed that this node leads, for the sake of one gateway's question."""

    node: int
    life: int
    asked: Asked


@dataclass(frozen=True)
class Told:
    """A predecessor's leases on their way."""

    node: int
    life: int
    term: int
    handed: HandedLeases


@dataclass
class Gateway:
    rate: float
    version: int = 0
    asked_at: float = 0.0
    number: int = 0
    """Of its question; answers to earlier ones are dropped."""
    lease_until: float = -1.0


class Succession:
    """One history. Each step is done where it can be, and does nothing elsewhere."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.nodes = [Node(rng.choice(RATES), rng.choice((0.0, 1000.0))) for _ in NODES]
        self.gateways = [Gateway(rng.choice(RATES)) for _ in GATEWAYS]
        self.term = self.committed = self.answered = 0
        self.asked: list[Asked] = []
        self.confirmed: list[Confirmed] = []
        self.granted: list[tuple[Asked, int]] = []
        self.inquiries: list[tuple[int, int, int, int]] = []
        """Of the successor: node, its life, its term, and whom it asks."""
        self.told: list[Told] = []
        self.settling: list[tuple[int, int, int]] = []
        """Revocations that are committed: node, its life, the version to wait for."""
        self.settled = self.taken_over = self.live_behind = 0

    def run(self) -> None:
        """One leader after the other; each has its time, of much that goes on at once."""
        steps = {
            self.pass_time: 2,
            self.hear: 1,
            self.restart: 0.05,
            self.ask: 3,
            self.linearize: 4,
            self.grant: 4,
            self.renew: 4,
            self.serve: 2,
            self.inquire: 2,
            self.tell: 4,
            self.take_over: 4,
            self.revoke: 1,
            self.settle: 4,
        }
        for _ in range(LEADERS):
            self.elect()
            if self.rng.random() < 0.8:
                self.serve()
            for step in self.rng.choices(list(steps), list(steps.values()), k=STEPS):
                step()
                self.check()

    def check(self) -> None:
        """Nobody accepts what was revoked."""
        for gateway in self.gateways:
            if gateway.lease_until - self.now * gateway.rate > 1e-6:
                assert gateway.version >= self.answered
                self.live_behind += gateway.version < self.committed

    def some_node(self) -> int:
        """Mostly whoever was elected last."""
        leader = max(NODES, key=lambda node: self.nodes[node].leads)
        return leader if self.rng.random() < 0.7 else self.rng.choice(NODES)

    def late(self, kept: int) -> slice:
        """Of what is on its way, mostly what is new."""
        return slice(-self.rng.choice((1, 1, 2, kept)), None)

    def clock(self, node: Node) -> float:
        return node.offset + self.now * node.rate

    def quorum_follows(self, node: Node) -> bool:
        """Whether a quorum can still confirm it in its term."""
        return sum(other.term <= node.term for other in self.nodes) * 2 > len(self.nodes)

    def elect(self) -> None:
        """By two votes; the third node may hear of it later."""
        node, voter = self.rng.sample(NODES, 2)
        self.term += 1
        chosen = self.nodes[node]
        chosen.term = self.nodes[voter].term = chosen.leads = self.term

    def serve(self) -> None:
        """What is of earlier terms is applied."""
        one = self.nodes[self.some_node()]
        if one.leads == one.term != one.serves and self.quorum_follows(one):
            one.serves = one.term
            one.version = self.committed
            one.table.in_term(one.term, self.clock(one))

    def hear(self) -> None:
        """Of the newest term."""
        self.rng.choice(self.nodes).term = self.term

    def restart(self) -> None:
        node = self.rng.choice(NODES)
        one = self.nodes[node]
        self.nodes[node] = Node(
            one.rate, one.offset, term=one.term, version=one.version, life=one.life + 1
        )

    def pass_time(self) -> None:
        self.now += self.rng.choice(SECONDS)

    # -- gateways

    def ask(self) -> None:
        gateway = self.rng.choice(GATEWAYS)
        one = self.gateways[gateway]
        one.number += 1
        one.asked_at = self.now * one.rate
        self.asked.append(Asked(gateway, one.number, one.version))

    def linearize(self) -> None:
        """A question arrives, perhaps at several nodes; some quorum confirms who has it."""
        node = self.some_node()
        one = self.nodes[node]
        if self.asked and one.is_serving and self.quorum_follows(one):
            asked = self.rng.choice(self.asked[self.late(4)])
            self.confirmed.append(Confirmed(node, one.life, asked))

    def grant(self) -> None:
        """What the node does then: see TokenOperations."""
        if not self.confirmed:
            return
        given = self.rng.choice(self.confirmed[self.late(6)])
        self.confirmed.remove(given)
        one, asked = self.nodes[given.node], given.asked
        if not one.is_serving or one.life != given.life:
            return
        now = self.clock(one)
        one.table.in_term(one.term, now)
        one.table.confirm(str(asked.gateway), asked.version)
        if one.table.grant(str(asked.gateway), asked.version, now):
            self.granted.append((asked, one.version))

    def renew(self) -> None:
        """See TokenDirectory."""
        if not self.granted:
            return
        asked, version = self.rng.choice(self.granted[self.late(6)])
        self.granted.remove((asked, version))
        one = self.gateways[asked.gateway]
        if asked.number == one.number and version >= one.version:
            one.number += 1
            one.version = version
            one.lease_until = max(one.lease_until, one.asked_at + LEASE_SECONDS)

    # -- succession

    def inquire(self) -> None:
        node = self.some_node()
        one = self.nodes[node]
        if one.is_serving and one.table.wants_told(one.term, self.clock(one)):
            others = [other for other in NODES if other != node]
            self.inquiries += [(node, one.life, one.term, other) for other in others]

    def tell(self) -> None:
        """The question may arrive twice."""
        if not self.inquiries:
            return
        node, life, term, other = self.rng.choice(self.inquiries[self.late(6)])
        one = self.nodes[other]
        handed = one.table.hand_on(term, one.term, self.clock(one))
        if handed is not None:
            message = pb.HandedLeases()
            lease_hand_over.put(message, handed)
            taken = lease_hand_over.get(message)
            assert taken is not None
            self.told.append(Told(node, life, term, taken))

    def take_over(self) -> None:
        if not self.told:
            return
        told = self.rng.choice(self.told[self.late(4)])
        self.told.remove(told)
        one = self.nodes[told.node]
        if one.life == told.life:
            self.taken_over += one.table.take_over(told.term, told.handed, self.clock(one))

    # -- revocations

    def revoke(self) -> None:
        node = self.some_node()
        one = self.nodes[node]
        if one.is_serving and one.term == self.term:
            self.committed += 1
            one.version = self.committed
            self.settling.append((node, one.life, self.committed))

    def settle(self) -> None:
        """It is answered once the leader believes that nobody goes by what was before."""
        if not self.settling:
            return
        waiting = self.rng.choice(self.settling[self.late(4)])
        node, life, version = waiting
        one = self.nodes[node]
        if one.life != life or not one.is_serving:
            self.settling.remove(waiting)
            return
        now = self.clock(one)
        one.table.in_term(one.term, now)
        if one.table.seconds_until(version, now) <= 0:
            self.settling.remove(waiting)
            self.settled += 1
            self.answered = max(self.answered, version)


@pytest.mark.parametrize("part", range(4))
def test_no_order_of_events_lets_a_revoked_token_in(part: int) -> None:
    """Of HISTORIES histories. That they are ones in which something could go wrong is shown too."""
    settled = taken_over = live_behind = 0
    for seed in range(part, HISTORIES, 4):
        history = Succession(random.Random(seed))
        try:
            history.run()
        except AssertionError as fault:
            raise AssertionError(f"history {seed}") from fault
        settled += history.settled
        taken_over += history.taken_over
        live_behind += history.live_behind
    assert settled > 100 and taken_over > 50 and live_behind > 1_000
