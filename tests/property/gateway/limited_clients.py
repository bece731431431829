"""Clients at a limit, in virtual time: who sends when, and how often each was told to wait."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass, field
from enum import Enum

from svc_cluster.gateway.rate_limit import Asker, Connection, Cost, RateLimit


class Manners(Enum):
    """What a client does when it is told to wait."""

    WAITS = "waits"
    EARLY = "comes back too early"
    AT_ONCE = "comes back at once"
    NEVER = "never comes back"


class Wiring(Enum):
    """Over which connection a request goes."""

    OWN = "each client has its own"
    POOLED = "any of those that are shared"
    ONE = "all share one"
    NEW = "a new one for each attempt"


@dataclass
class Report:
    """What became of those that wait as they are told."""

    served: float = 0.0
    """What all clients were served in the measured time, by the limit's own measure."""
    waits: list[int] = field(default_factory=list)
    """Of each request that was let through: how often it was told to wait."""


@dataclass
class Client:
    manners: Manners
    connection: Connection
    rng: random.Random
    period: float
    """Between the beginnings of its requests, as far as it is let; 0: at once behind the last."""
    body: int = 0
    waits: int = 0
    due: float = 0.0


@dataclass
class Scene:
    limit: RateLimit
    cost: Cost
    """Of each request."""
    clients: int
    unfair: int = 0
    wiring: Wiring = Wiring.OWN
    unique: bool = False
    """Requests differ, and arrive whole."""
    period: float = 0.0
    seconds: float = 30.0
    latency: float = 0.003
    jitter: float = 0.005
    """How late a client is at most when it has waited."""

    def play(self, seed: int) -> Report:
        rng = random.Random(seed)
        report = Report()
        manners = [Manners.WAITS] * self.clients
        rude = (Manners.EARLY, Manners.AT_ONCE, Manners.NEVER)
        manners += [rude[n % 3] for n in range(self.unfair)]
        clients = [
            Client(m, Connection("10.0.0.1"), random.Random(f"{seed}/{n}"), self.period)
            for n, m in enumerate(manners)
        ]
        pool = [client.connection for client in clients[: self.clients]]
        heap = [(rng.random() * 0.2, n, client) for n, client in enumerate(clients)]
        heapq.heapify(heap)
        steps = len(heap)
        while heap and heap[0][0] < self.seconds:
            now, _, client = heapq.heappop(heap)
            again_at = self._attempt(client, pool, rng, now, report)
            heapq.heappush(heap, (again_at, steps, client))
            steps += 1
        return report

    def _attempt(
        self,
        client: Client,
        pool: list[Connection],
        rng: random.Random,
        now: float,
        report: Report,
    ) -> float:
        """When the client comes again."""
        connection = client.connection
        if client.manners is Manners.WAITS:
            match self.wiring:
                case Wiring.POOLED:
                    connection = rng.choice(pool)
                case Wiring.ONE:
                    connection = pool[0]
                case Wiring.NEW:
                    connection = Connection("10.0.0.1")
                case Wiring.OWN:
                    pass
        if self.unique and client.waits == 0:
            client.body = rng.getrandbits(63)
        asker = Asker(connection, 7, content=client.body)
        wait = self.limit.ask(asker, self.cost, now)
        if self.wiring is Wiring.NEW and connection is not client.connection:
            connection.close()
        if wait is None:
            report.served += max(self.cost[1:]) or self.cost.requests
            if client.manners is Manners.WAITS:
                report.waits.append(client.waits)
            client.waits = 0
            client.due = max(client.due + client.period, now + self.latency)
            return client.due
        client.waits += 1
        # as it is told, in milliseconds
        told = math.ceil(wait.seconds * 1000) / 1000
        match client.manners:
            case Manners.WAITS:
                return now + told + client.rng.random() * self.jitter
            case Manners.EARLY:
                return now + told * client.rng.random()
            case Manners.AT_ONCE:
                return now + 0.01
            case Manners.NEVER:
                client.connection.close()
                client.connection = Connection("10.0.0.1")
                client.waits = 0
                return now + client.rng.random()
