"""A cluster is formed, and disks are replaced by empty ones at a chosen moment of that, or when it
is done and one peer lags behind."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.simulation.adapters import addresses_of
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.options import Options
from tests.simulation.workload import NoEffectError, UnknownOutcomeError

OPTIONS = Options(gateways=1, http=False, basins=1, streams=1, faults=())
BASIN = "basin-000"
COMMIT_S = 8.0
"""Virtual seconds in which two of three nodes make a basin, if they ever do."""
TOGETHER_S = 6.0
"""Virtual seconds that the lagging peer and the emptied node have for themselves."""
SETTLE_S = 15.0
"""Virtual seconds from the start to a cluster that is formed, or says why not."""
DOWN_S = 0.3
REPLICAS = 3
"""Of a basin: with fewer nodes none can be made."""
GONE = "most data directories"
"""Of a reason that only people can do something about."""


def wipe(
    cluster: SimCluster, node: SimNode, rng: random.Random, keeps: tuple[str, ...] = ()
) -> None:
    """Another disk in the node's place, with `keeps` of the old one's files; it is not started."""
    cluster.look()
    cluster.trace.fact("wipe", node.node_id)
    node.wipe(rng, keeps)
    cluster.checker.forget_disk(node.node_id)


def part(cluster: SimCluster, node: SimNode) -> None:
    """Nothing reaches the node, and nothing comes from it, from this moment on."""
    for other in cluster.nodes:
        if other is not node:
            cluster.nemesis.cut(node.node_id, other.node_id, both=True)
            for a in addresses_of(node.node_id):
                for b in addresses_of(other.node_id):
                    cluster.network.reset(a, b)


def is_settled(node: SimNode) -> bool:
    """Whether it takes part, or says for good why it does not."""
    if node.node is None:
        return False
    return node.node.former.formation.is_open or node.node.refusal() is not None


async def make_basin(cluster: SimCluster, name: str) -> bool:
    """Whether it was acknowledged."""
    try:
        async with asyncio.timeout(COMMIT_S):
            while True:
                try:
                    await cluster.apis[0].create_basin(name)
                except (NoEffectError, UnknownOutcomeError):
                    await asyncio.sleep(0.1)
                else:
                    return True
    except TimeoutError:
        return False


def has_basin(node: SimNode, name: str) -> bool:
    catalog = None if node.node is None else node.node.host.catalog
    return catalog is not None and name in catalog.state.basins


async def behind_a_lagging_peer(
    cluster: SimCluster, cut_at: float, rng: random.Random, keeps: tuple[str, ...] = ()
) -> bool:
    """Node 2 is cut off at `cut_at` seconds after the start; what the others then commit it lacks.
    One of these gets an empty disk, the other is down: node 2 and the empty one are two of three.
    Returns whether anything was committed without node 2. `keeps` names files that are left on the
    disk: a node that still knows who it is, and nothing of what it promised."""
    cluster.expected = ("node_refused",)
    watch = cluster.start()
    await cluster.guarded(asyncio.sleep(cut_at), watch)
    lagging = cluster.nodes[1]
    part(cluster, lagging)
    if not await cluster.guarded(make_basin(cluster, BASIN), watch):
        watch.cancel()
        return False
    others = [node for node in cluster.nodes if node is not lagging]
    rng.shuffle(others)
    emptied, away = others
    wipe(cluster, emptied, rng, keeps=keeps)
    away.crash(rng)
    emptied.start()
    cluster.network.heal_all()
    await cluster.guarded(asyncio.sleep(TOGETHER_S), watch)
    assert not has_basin(emptied, BASIN) and not has_basin(lagging, BASIN)
    away.start()
    assert await cluster.guarded(make_basin(cluster, "basin-001"), watch), "two whole nodes serve"
    for node in (lagging, away):
        assert has_basin(node, BASIN), f"node {node.node_id} has lost it"
    if keeps:
        await cluster.guarded(asyncio.sleep(TOGETHER_S), watch)
        assert has_basin(emptied, BASIN), "it is made whole from the others"
        watch.cancel()
        return True
    assert emptied.node is not None and emptied.node.host.catalog is None
    assert "another data directory" in (emptied.node.refusal() or "")
    watch.cancel()
    return True


def lag(seed: int, cut_at: float, keeps: tuple[str, ...] = ()) -> bool:
    """See `behind_a_lagging_peer`. Raises SimulationFailedError."""
    rng = random.Random(f"{seed}/lag")
    return in_simulation(
        seed, OPTIONS, lambda cluster: behind_a_lagging_peer(cluster, cut_at, rng, keeps)
    )


@dataclass(frozen=True, slots=True)
class Trouble:
    """What happens right behind a step: the node's power fails, and its disk is an empty one when
    it comes back, or the same."""

    step: int
    node: int
    emptied: bool


@dataclass(slots=True)
class Ended:
    """How a formation came out."""

    steps: int = 0
    reached: int = 0
    """Troubles whose step there was."""
    opened: set[int] = field(default_factory=set)
    refused: dict[int, str] = field(default_factory=dict)


class Forming:
    """A cluster is started and formed; its steps are counted: whatever a node's disk or store does
    that lasts, each question of one node to another that arrives, and each answer that leaves."""

    def __init__(self, cluster: SimCluster, troubles: Sequence[Trouble]) -> None:
        self._cluster = cluster
        self._troubles = {trouble.step: trouble for trouble in troubles}
        self._context = contextvars.copy_context()
        self._rng = random.Random(f"{cluster.seed}/{troubles}")
        self._over = False
        self.ended = Ended()

    async def run(self) -> Ended:
        cluster = self._cluster
        cluster.expected = ("node_refused",)
        cluster.network.on_call = lambda *_: self._step()
        for node in cluster.nodes:
            node.on_effect(lambda _: self._step())
        watch = cluster.start()
        await cluster.guarded(self._settle(), watch)
        ended = self.ended
        for node in cluster.nodes:
            assert node.node is not None, "it was started again"
            if (reason := node.node.refusal()) is not None:
                ended.refused[node.node_id] = reason
            if node.node.former.formation.is_open:
                ended.opened.add(node.node_id)
        if len(ended.opened) * 2 > len(cluster.nodes):
            await cluster.guarded(self._serves(), watch)
        watch.cancel()
        cluster.look()
        return ended

    async def _serves(self) -> None:
        """A majority of formed nodes takes entries into the catalog."""
        cluster = self._cluster
        if len(cluster.nodes) >= REPLICAS:
            assert await make_basin(cluster, BASIN), f"a majority is formed: {self.ended}"
            return
        async with asyncio.timeout(COMMIT_S):
            while not any(node.leads_something() for node in cluster.nodes):
                await asyncio.sleep(0.1)

    async def _settle(self) -> None:
        """Nobody waits for ever; and long enough for votes that must not be given."""
        cluster = self._cluster
        end = cluster.loop.time() + SETTLE_S
        while not all(is_settled(node) for node in cluster.nodes) or self._pending():
            if cluster.loop.time() > end:
                waiting = {
                    node.node_id: node.node and node.node.why_not_formed() for node in cluster.nodes
                }
                if any(GONE in (text or "") for text in waiting.values()):
                    break
                raise InvariantError(f"formation-ends: {waiting}")
            await asyncio.sleep(0.1)
        self._over = True
        await asyncio.sleep(2.0)

    def _pending(self) -> bool:
        return any(not node.alive for node in self._cluster.nodes)

    def _step(self) -> None:
        if self._over:
            return
        number, self.ended.steps = self.ended.steps, self.ended.steps + 1
        trouble = self._troubles.get(number)
        if trouble is not None:
            # behind the turn in which it happens: that may be the start of a node
            self._cluster.loop.call_soon(self._hit, trouble, context=self._context)

    def _hit(self, trouble: Trouble) -> None:
        node = self._cluster.nodes[trouble.node - 1]
        if not node.alive:
            return
        self.ended.reached += 1
        if trouble.emptied:
            wipe(self._cluster, node, self._rng)
        else:
            node.crash(self._rng)
        node.on_effect(lambda _: self._step())
        self._cluster.loop.call_later(DOWN_S, node.start, context=self._context)


def form(seed: int, troubles: Sequence[Trouble] = (), *, nodes: int = 3) -> Ended:
    """Raises SimulationFailedError."""
    options = replace(OPTIONS, nodes=nodes)
    return in_simulation(seed, options, lambda cluster: Forming(cluster, troubles).run())
