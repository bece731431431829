"""Clients at a limit, in virtual time: who sends when, and what each was served."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from svc_cluster.gateway.limits.rate_limit import Cost, RateLimit, Wait

TOKEN = 7


class Manners(Enum):
    """What a client does when it is told to wait."""

    WAITS = "waits"
    EARLY = "comes back too early"
    AT_ONCE = "comes back at once"
    NEVER = "never comes back"


class Route(Enum):
    """Through which of several gateways a request goes."""

    OWN = "each client has its own"
    ANY = "any of them, at each attempt"


@dataclass
class Report:
    """What became of those that wait as they are told."""

    served: float = 0.0
    """What all clients were served in the measured time, by the limit's own measure."""
    requests: list[int] = field(default_factory=list)
    """Of each that waits as it is told: how many were let through."""
    longest: float = 0.0
    """Seconds told to one of those."""


@dataclass
class Client:
    number: int
    manners: Manners
    rng: random.Random
    period: float
    """Between the beginnings of its requests, as far as it is let; 0: at once behind the last."""
    due: float = 0.0
    told: Wait | None = None
    """On its connection."""


@dataclass
class Scene:
    gateways: Sequence[RateLimit]
    cost: Cost
    """Of each request."""
    clients: int
    unfair: int = 0
    route: Route = Route.OWN
    period: float = 0.0
    seconds: float = 30.0
    latency: float = 0.003
    jitter: float = 0.005
    """How late a client is at most when it has waited."""

    def play(self, seed: int) -> Report:
        rng = random.Random(seed)
        report = Report(requests=[0] * self.clients)
        manners = [Manners.WAITS] * self.clients
        rude = (Manners.EARLY, Manners.AT_ONCE, Manners.NEVER)
        manners += [rude[n % 3] for n in range(self.unfair)]
        clients = [
            Client(n, m, random.Random(f"{seed}/{n}"), self.period) for n, m in enumerate(manners)
        ]
        heap = [(rng.random() * 0.2, n, client) for n, client in enumerate(clients)]
        heapq.heapify(heap)
        steps = len(heap)
        while heap and heap[0][0] < self.seconds:
            now, _, client = heapq.heappop(heap)
            heapq.heappush(heap, (self._attempt(client, now, report), steps, client))
            steps += 1
        return report

    def _attempt(self, client: Client, now: float, report: Report) -> float:
        """When the client comes again."""
        number = client.number if self.route is Route.OWN else client.rng.getrandbits(30)
        limit = self.gateways[number % len(self.gateways)]
        wait = limit.ask(TOKEN, self.cost, now, client.told)
        client.told = wait
        if wait is None:
            report.served += max(self.cost[1:]) or self.cost.requests
            if client.manners is Manners.WAITS:
                report.requests[client.number] += 1
            client.due = max(client.due + client.period, now + self.latency)
            return client.due
        # as it is told, in milliseconds
        told = math.ceil((wait.at - now) * 1000) / 1000
        match client.manners:
            case Manners.WAITS:
                report.longest = max(report.longest, told)
                return now + told + client.rng.random() * self.jitter
            case Manners.EARLY:
                return now + told * client.rng.random()
            case Manners.AT_ONCE:
                return now + 0.01
            case Manners.NEVER:
                client.told = None  # and has a new connection
                return now + client.rng.random()
