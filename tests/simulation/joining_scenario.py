"""Nodes come to a simulated cluster with join tokens, and leave it, while something happens on the
way. A run without trouble counts the steps of one node's disk and store; the other runs have the
power fail behind a chosen one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import CATALOG_GROUP, NodeId
from svc_cluster.catalog.catalog_state import CatalogState
from svc_cluster.catalog.node_rows import NodeState
from svc_cluster.model.join_token import SECRET_BYTES, JoinToken, hash_of
from svc_cluster.raft.learner_group import LearnerGroup
from svc_cluster.replica.catalog import CatalogReplica
from tests.simulation.adapters import addresses_of
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.clock import SimClock
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.configs import node_config
from tests.simulation.disk import SimDisk
from tests.simulation.node import Luck, SimNode, World
from tests.simulation.options import Options
from tests.simulation.store import StallingStore

OPTIONS = Options(gateways=1, http=False, basins=1, streams=1, tick_seconds=0.05, flush_seconds=0.5)
COMES = 4
JOIN_S = 30.0


@dataclass(slots=True)
class Steps:
    """What was seen in a run."""

    effects: list[str] = field(default_factory=list)
    hit: bool = False


class Joining:
    """A cluster of three to which others come."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.rng = random.Random(f"{cluster.seed}/joining")
        for node in cluster.nodes:
            node.nodes_come = True
        for gateway in cluster.gateways:
            gateway.crash()
            gateway.nodes_come = True
            gateway.start()

    def token(self, number: int = COMES) -> JoinToken:
        return JoinToken(number, self.rng.randbytes(SECRET_BYTES))

    def newcomer(self, token: JoinToken, seeds: tuple[int, ...] = (1, 2, 3)) -> SimNode:
        """A node with an empty disk, not started; the first of its id is one of the cluster's."""
        cluster, number = self.cluster, NodeId(token.node_id)
        config = node_config(cluster.options, number)
        known = {NodeId(node): f"node{node}" for node in (*seeds, number)}
        config = replace(
            config,
            addresses=known,
            host=replace(config.host, nodes=tuple(sorted(known))),
            join_token=token,
        )
        rng = random.Random(f"{cluster.seed}/node {number}/{self.rng.random()}")
        node = SimNode(
            World(cluster.loop, cluster.network),
            config,
            SimClock(cluster.loop, drift=0.0, offset_s=0.0, wall_offset_ms=0),
            SimDisk(cluster.loop, rng),
            StallingStore(cluster.loop, rng),
            rng,
            datagrams=False,
            on_fatal=cluster.nemesis.died,
            on_sent=cluster.votes.sent,
            on_destroyed=cluster.checker.forget_replica,
        )
        node.nodes_come = True
        if all(one.node_id != number for one in cluster.nodes):
            cluster.nodes.append(node)
        return node

    # -- what is asked

    async def ask(self, fill: Callable[[pb.Request], None]) -> pb.Response:
        """The answer of the catalog's leader to whichever node asks it."""
        deadline = self.cluster.loop.time() + LIVENESS_S
        while True:
            for node in self.cluster.nodes:
                if node.node is None or node.out is not None:
                    continue
                response = await node.node.ask_catalog(fill)
                if response is None:
                    continue
                kind = response.WhichOneof("result")
                if kind != "refusal" or response.refusal.code == "invalid":
                    return response
            if self.cluster.loop.time() > deadline:
                raise InvariantError("liveness: the catalog's leader does not answer")
            await asyncio.sleep(0.1)

    async def add(self, token: JoinToken, ttl_seconds: int = 600) -> pb.Response:
        def fill(request: pb.Request) -> None:
            request.add_member.node_id = token.node_id
            request.add_member.secret_hash = hash_of(token.secret)
            request.add_member.ttl_seconds = ttl_seconds

        return await self.ask(fill)

    async def replace(self, number: int) -> pb.Response:
        def fill(request: pb.Request) -> None:
            request.replace_node.node_id = number

        return await self.ask(fill)

    async def gone(self) -> None:
        """A node came and was removed."""
        token = self.token()
        await self.add(token)
        node = self.newcomer(token)
        node.start()
        await self.until("it has joined", lambda: self.has_joined(node))
        assert (await self.remove()).WhichOneof("result") == "done"
        await self.until("it hears that", lambda: node.out is not None)
        self.bury(node)
        self.cluster.nodes.remove(node)

    async def remove(self, number: int = COMES) -> pb.Response:
        def fill(request: pb.Request) -> None:
            request.remove_member.node_id = number

        return await self.ask(fill)

    # -- what is so

    @staticmethod
    def catalog(node: SimNode) -> CatalogReplica | None:
        return None if node.node is None else node.node.host.catalog

    def state(self) -> CatalogState:
        """The newest that any node has applied."""
        found = [one.state for node in self.cluster.nodes if (one := self.catalog(node))]
        return max(found, key=lambda one: one.applied_index)

    def at_catalog(self) -> SimNode:
        for node in self.cluster.nodes:
            catalog = self.catalog(node)
            if catalog is not None and catalog.group.is_serving:
                return node
        raise AssertionError("somebody leads it")

    def has_joined(self, node: SimNode) -> bool:
        """It follows the catalog without a vote, is registered, and everybody talks to it."""
        catalog = self.catalog(node)
        if node.node is None or catalog is None or not node.node.registration.is_done:
            return False
        assert isinstance(catalog.group.engine, LearnerGroup), "it votes in the catalog"
        return node.node_id in catalog.state.nodes and all(
            other.node is not None and other.node.host.is_peer_up(node.node_id)
            for other in self.cluster.nodes
            if other is not node and other.out is None
        )

    async def until(self, what: str, holds: Callable[[], bool], seconds: float = JOIN_S) -> None:
        deadline = self.cluster.loop.time() + seconds
        while not holds():
            if self.cluster.loop.time() > deadline:
                raise InvariantError(f"liveness: not within {seconds} s: {what}")
            await asyncio.sleep(0.02)

    async def begin(self) -> None:
        """The cluster stands, at the newest version."""
        cluster = self.cluster
        self.watch = cluster.start()
        await cluster.set_up()

        def is_raised() -> bool:
            catalogs = [self.catalog(node) for node in cluster.nodes]
            return all(one is not None and one.version.active >= 3 for one in catalogs)

        await self.until("the version is raised", is_raised)

    async def basin_on(self, node: SimNode, name: str) -> None:
        """A new basin has a replica there, and takes records."""
        await self.cluster.insist(lambda api: api.create_basin(name))

        def is_there() -> bool:
            row = self.state().basins.get(name)
            return row is not None and node.node_id in row.replicas

        await self.until("the basin is placed there", is_there)

        def is_held() -> bool:
            row = self.state().basins[name]
            return node.node is not None and row.group_id in node.node.host.basins

        await self.until("its replica is made", is_held)

    async def drain(self, number: int, verb: int) -> pb.Response:
        def fill(request: pb.Request) -> None:
            request.drain_node.node_id = number
            request.drain_node.verb = verb

        return await self.ask(fill)

    async def vote(self, *nodes: int) -> pb.Response:
        """These are to vote in the catalog."""

        def fill(request: pb.Request) -> None:
            request.change_members.catalog = True
            request.change_members.replicas.extend(nodes)

        return await self.ask(fill)

    async def lead(self, number: int) -> None:
        """The catalog is led by this node."""

        def fill(request: pb.Request) -> None:
            request.give_lead.to = number

        while self.at_catalog_now() != number:
            for node in self.cluster.nodes:
                if node.node is not None and node.node_id == self.at_catalog_now():
                    ask = node.node._calls.ask_any
                    await node.within(ask(NodeId(node.node_id), fill, CATALOG_GROUP))
            await asyncio.sleep(0.2)

    def at_catalog_now(self) -> int:
        """Who leads the catalog; 0: nobody just now."""
        found = [
            int(node.node_id)
            for node in self.cluster.nodes
            if (one := self.catalog(node)) is not None and one.group.is_serving
        ]
        return found[0] if len(found) == 1 else 0

    def voters(self) -> set[tuple[int, ...]]:
        """Who votes in the catalog, as each node that runs knows it."""
        running = [node for node in self.cluster.nodes if node.out is None and node.node]
        catalogs = map(self.catalog, running)
        return {() if one is None else tuple(one.group.engine.members) for one in catalogs}

    async def finish(self, voters: tuple[int, ...] = (1, 2, 3)) -> None:
        """All is whole, what replicas hold is equal, and these vote in the catalog."""
        cluster = self.cluster
        cluster.nodes[:] = [node for node in cluster.nodes if node.out is None]
        await self.until("the cluster is whole", lambda: cluster.not_whole() is None)
        cluster.look()
        cluster.compare_stores()
        removed = {n for n, row in self.state().nodes.items() if row.state is NodeState.REMOVED}
        for node in cluster.nodes:
            assert node.node is not None
            assert removed.isdisjoint(node.node.roster.nodes), "it knocks, and others are asked"
            catalog = self.catalog(node)
            assert catalog is not None
            assert catalog.group.engine.members == voters, "nobody else votes in the catalog"
            assert catalog.group.group_id == CATALOG_GROUP

    def bury(self, node: SimNode) -> None:
        """Its process ends, and nothing of it is reached any more."""
        node.crash(self.rng)
        for address in addresses_of(node.node_id):
            self.cluster.network.crash(address)


def play_join(seed: int, role: str, number: int | None = None, luck: Luck = Luck()) -> Steps:
    """A node comes, and the power of one fails behind a step of it: of the `new` node, of one that
    comes `again` under the id of one that was removed, or of the `leader` of the catalog. Without a
    number the steps are counted."""
    steps = Steps()

    async def run(cluster: SimCluster) -> None:
        joining = Joining(cluster)
        await joining.begin()
        if role == "again":
            await joining.gone()
        token = joining.token()
        assert (await joining.add(token)).WhichOneof("result") == "member_ticket"
        node = joining.newcomer(token)
        watched = joining.at_catalog() if role == "leader" else node

        def effect(what: str) -> None:
            steps.effects.append(what)
            if number is not None and len(steps.effects) == number + 1:
                steps.hit = True
                watched.on_effect(None)
                cluster.nemesis.crash(watched, joining.rng, 1.0, luck=luck, look=False)

        watched.on_effect(effect)
        node.start()
        await joining.until("it has joined", lambda: joining.has_joined(node))
        watched.on_effect(None)
        await joining.until("all are back", lambda: all(n.node for n in cluster.nodes))
        assert joining.state().tickets.open == {}, "the token is spent"
        for place in range(2):
            await joining.basin_on(node, f"later-{place}")
        await joining.finish()

    in_simulation(seed, OPTIONS, run, expected=["node_refused"] if role == "again" else [])
    return steps
