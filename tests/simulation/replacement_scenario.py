"""Disks are lost for good and their nodes replaced, while nodes crash, and old disks come back
where peers have forgotten what was not on their disks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.link.handshake import Identity
from svc_cluster.model.places import place_of
from svc_cluster.model.versions import NEWEST
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.node import ReplicaNode
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.disk import SimDisk
from tests.simulation.node import SimNode
from tests.simulation.options import Options
from tests.simulation.store import StallingStore
from tests.simulation.workload import Client, WorkloadOptions

OPTIONS = Options(
    gateways=2,
    http=False,
    basins=1,
    streams=2,
    faults=(),
    workload=WorkloadOptions(clients=3),
)
PATIENCE_S = 60.0
EXPECTED = ("node_refused",)


class DiskOfThen:
    """What a node had when its disk was taken away, to be put back later."""

    def __init__(self, cluster: SimCluster, node: SimNode, rng: random.Random) -> None:
        """The node loses its power now."""
        cluster.look()
        cluster.nemesis.forget_restart(node)
        node.crash(rng)
        self.disk: SimDisk = node.disk
        self.store: StallingStore = node.store

    def put_into(self, cluster: SimCluster, node: SimNode) -> None:
        """It is the node's from now on, which is started."""
        cluster.trace.fact("disk", node.node_id)
        cluster.checker.forget_disk(node.node_id)
        node.disk, node.store = self.disk, self.store
        node.start()


@dataclass(slots=True)
class Replaced:
    """What came of it."""

    replacements: int = 0
    returns: int = 0
    """Times at which an old disk was put back."""
    crashes: int = 0
    acked: int = 0
    heard: dict[tuple[int, int], int] = field(default_factory=dict)
    """The highest ordinal of a node (second) that another one (first) has heard."""


class Replacing:
    """One cluster, whose disks are lost one after the other."""

    def __init__(self, cluster: SimCluster, rounds: int) -> None:
        self._cluster = cluster
        self._rounds = rounds
        self._rng = random.Random(f"{cluster.seed}/replacements")
        self._ordinals: dict[str, int] = {}
        """Of each incarnation that ever had a place."""
        self.told = Replaced()

    async def begin(self) -> asyncio.Task[None]:
        """The cluster serves, and its version lets nodes be replaced; returns who watches it."""
        cluster = self._cluster
        cluster.expected = EXPECTED
        cluster.network.on_heard = self._heard
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        await cluster.guarded(self._raise_version(), watch)
        for node in cluster.nodes:
            assert node.node is not None
            self._ordinals[node.node.identity.incarnation] = 0
        return watch

    async def run(self) -> Replaced:
        cluster = self._cluster
        watch = await self.begin()
        clients = [
            Client(cluster.recorder, cluster.apis, cluster.options.workload, random.Random(number))
            for number in range(cluster.options.workload.clients)
        ]
        working = [cluster.loop.create_task(client.run()) for client in clients]
        for _ in range(self._rounds):
            await cluster.guarded(self._round(), watch, *working)
        for client in clients:
            client.stopping = True
        cluster.nemesis.heal()
        await cluster.guarded(cluster.settle(working), watch)
        finals = [
            await cluster.guarded(cluster.read_all(h), watch) for h in cluster.recorder.streams
        ]
        watch.cancel()
        for history, final in zip(cluster.recorder.streams, finals, strict=True):
            cluster.judge(history, final)
        self.told.crashes = cluster.nemesis.crashes
        self.told.acked = cluster.recorder.counts.acked
        return self.told

    def _heard(self, receiver: int, identity: Identity) -> None:
        """Of a node, nobody hears a directory behind the one that took its place."""
        ordinal = self._ordinals.get(identity.incarnation)
        if ordinal is None:
            return
        pair = receiver, int(identity.node_id)
        if ordinal < self.told.heard.get(pair, 0):
            self._cluster.errors.append(
                f"TWO_INCARNATIONS: node {receiver} hears both of {pair[1]}"
            )
        self.told.heard[pair] = max(ordinal, self.told.heard.get(pair, 0))

    async def _round(self) -> None:
        rng, cluster = self._rng, self._cluster
        await asyncio.sleep(rng.uniform(0.5, 3.0))
        victim = rng.choice(cluster.nodes)
        others = [node for node in cluster.nodes if node is not victim]
        old = self.lose(victim)
        if rng.random() < 0.5:
            self._crash_later(rng.choice(cluster.nodes), rng.uniform(0.0, 6.0))
        await self.replace(victim)
        self.told.replacements += 1
        if rng.random() < 0.5:
            await self._return(victim, rng.choice(others), old)
        if rng.random() < 0.5:
            self._crash_later(rng.choice(cluster.nodes), rng.uniform(0.0, 2.0))
        await self.until(lambda: self.is_whole(victim), f"node {victim.node_id} is whole")
        if rng.random() < 0.7:
            await self._return(victim, rng.choice(others), old)

    def power_off(self, node: SimNode) -> DiskOfThen:
        return DiskOfThen(self._cluster, node, self._rng)

    def lose(self, victim: SimNode) -> DiskOfThen:
        """The node runs with an empty disk; returns the one that it had."""
        cluster, rng = self._cluster, self._rng
        old = self.power_off(victim)
        cluster.checker.forget_disk(victim.node_id)
        victim.disk = SimDisk(cluster.loop, rng, old.disk.profile)
        victim.store = StallingStore(cluster.loop, rng)
        victim.start()
        assert victim.node is not None
        self._ordinals[victim.node.identity.incarnation] = self._ordinal_of(victim) + 1
        return old

    def _crash_later(self, node: SimNode, seconds: float) -> None:
        self._cluster.loop.call_later(
            seconds,
            lambda: self._cluster.nemesis.crash(node, self._rng, self._rng.uniform(0.05, 2.0)),
        )

    def _ordinal_of(self, node: SimNode) -> int:
        """The ordinal of the node's place, as far as anybody knows."""
        found = [
            place_of(node.config.node_id, other.node.former.formation.record.places)
            for other in self._cluster.nodes
            if other.node is not None
        ]
        return max((place.ordinal for place in found if place is not None), default=0)

    async def _return(self, victim: SimNode, peer: SimNode, old: DiskOfThen) -> None:
        """The old disk is back for a while, with one peer that has lost its memory: the third node
        is without power."""
        cluster, rng = self._cluster, self._rng
        away = next(node for node in cluster.nodes if node not in (victim, peer))
        self.told.returns += 1
        new = DiskOfThen(cluster, victim, rng)
        held = [DiskOfThen(cluster, node, rng) for node in (peer, away)]
        old.put_into(cluster, victim)
        held[0].put_into(cluster, peer)
        await asyncio.sleep(rng.uniform(1.0, 6.0))
        seen = DiskOfThen(cluster, victim, rng)
        old.disk, old.store = seen.disk, seen.store
        held[1].put_into(cluster, away)
        new.put_into(cluster, victim)

    async def _raise_version(self) -> None:
        def fill(request: pb.Request) -> None:
            request.raise_version.version = NEWEST

        await self._insist(fill, "version")

    async def replace(self, victim: SimNode) -> None:
        """Give the place of the node to the directory that it has."""
        assert victim.node is not None
        incarnation = victim.node.identity.incarnation

        def fill(request: pb.Request) -> None:
            request.replace_node.node_id = victim.node_id

        response = await self._insist(fill, "replacement")
        if response.replacement.incarnation != incarnation:
            raise InvariantError(f"replaced by another one: {response}")

    async def _insist(self, fill: Callable[[pb.Request], None], result: str) -> pb.Response:
        end = self._cluster.loop.time() + PATIENCE_S
        last: pb.Response | None = None
        while self._cluster.loop.time() < end:
            for node in self._cluster.nodes:
                if (running := node.node) is None or not running.former.formation.is_open:
                    continue
                response = await self._ask(node, running, fill)
                if response is not None and response.WhichOneof("result") == result:
                    return response
                last = response or last
            await asyncio.sleep(0.2)
        raise InvariantError(f"liveness: no {result}: {last}")

    @staticmethod
    async def _ask(
        node: SimNode, running: ReplicaNode, fill: Callable[[pb.Request], None]
    ) -> pb.Response | None:
        try:
            async with asyncio.timeout(2.0):
                return await node.within(running.ask_catalog(fill))
        except TimeoutError:
            return None

    async def given_away(self, victim: SimNode, *, also_lost: bool = False) -> pb.Replacement:
        """What an operator hears who gives the place of a node to the directory that asks."""

        def fill(request: pb.Request) -> None:
            request.replace_node.node_id = victim.config.node_id
            request.replace_node.also_lost = also_lost

        return (await self._insist(fill, "replacement")).replacement

    def catalog_leader(self) -> SimNode:
        for node in self._cluster.nodes:
            catalog = None if node.node is None else node.node.host.catalog
            if catalog is not None and catalog.group.is_serving:
                return node
        raise AssertionError("somebody leads it")

    @staticmethod
    def catalog_of(node: SimNode) -> CatalogReplica:
        assert node.node is not None
        assert node.node.host.catalog is not None
        return node.node.host.catalog

    def is_whole(self, victim: SimNode) -> bool:
        for node in self._cluster.nodes:
            if node.node is None or (catalog := node.node.host.catalog) is None:
                continue
            if catalog.group.is_serving:
                row = catalog.state.nodes[victim.config.node_id]
                return not row.is_replacing and row.ordinal > 0
        return False

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        end = self._cluster.loop.time() + PATIENCE_S
        while not condition():
            if self._cluster.loop.time() > end:
                raise InvariantError(f"liveness: never: {what}")
            await asyncio.sleep(0.1)


def replace_disks(seed: int, rounds: int = 2, nodes: int = 3) -> Replaced:
    """Raises SimulationFailedError."""
    options = replace(OPTIONS, nodes=nodes)
    return in_simulation(
        seed, options, lambda cluster: Replacing(cluster, rounds).run(), expected=EXPECTED
    )
