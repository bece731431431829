"""A replica node of the simulation across its lives: its disk and store outlive the process."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from svc_cluster.base.ids import GroupId, LogIndex, NodeId
from svc_cluster.catalog.node_facts import AnnouncedFacts
from svc_cluster.codec.entry_version import Known
from svc_cluster.model.versions import FIRST
from svc_cluster.raft.group import Role
from svc_cluster.raft.messages import PeerMessage
from svc_cluster.replica.host import Host
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.replica.node_parts import NodeConfig, Seams
from svc_cluster.replica.prefixed import PREFIX_BYTES, generation_end, generation_prefix
from svc_cluster.storage.payload import references
from svc_cluster.storage.state_store import StateStore
from tests.simulation.adapters import SimPeers, SimServer, addresses_of
from tests.simulation.checkers.raft import Probe
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.loop import Incarnation, SimLoop
from tests.simulation.network import SimNetwork
from tests.simulation.store import StallingStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class World:
    """What all processes of a simulation share."""

    loop: SimLoop
    network: SimNetwork


@dataclass(frozen=True, slots=True)
class Luck:
    """What survives of what was not durable when the power failed; None is drawn."""

    log: bool | None = None
    store: float | None = None


class SimNode:
    """One node. `start` and `crash` alternate."""

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        clock: SimClock,
        disk: SimDisk,
        store: StallingStore,
        rng: random.Random,
        *,
        datagrams: bool,
        on_fatal: Callable[[SimNode, str], None],
        on_sent: Callable[[NodeId, NodeId, GroupId, PeerMessage], None] | None = None,
        on_destroyed: Callable[[NodeId, GroupId], None] = lambda *_: None,
    ) -> None:
        """`on_sent` is told of each message to a peer, with sender and receiver before it, and
        `on_destroyed` of each replica that this node destroys."""
        self.node_id = config.node_id
        self.clock = clock
        self.disk = disk
        self.store = store
        self.incarnation = 0
        self.installs: Counter[GroupId] = Counter()
        """Snapshots that became a group's state here, over all its lives."""

        self.snapshots_before = 0
        self.repaired_before = 0
        self.tells_its_clock = True
        """Not in the versions before peers did."""
        self.begins_at_first = False
        """It forms a cluster as the releases did of before a new one began at a later version."""
        self.nodes_come = False
        """It takes up links to nodes that come, and ends those to nodes that go."""
        self.out: str | None = None
        """Why its cluster never takes it, as it has heard in one of its lives."""
        self.node: ReplicaNode | None = None
        self._world = world
        self._config = config
        self._rng = rng
        self._datagrams = datagrams
        self._on_fatal = on_fatal
        self._on_sent = on_sent
        self._on_destroyed = on_destroyed
        self._owner: Incarnation | None = None

    @property
    def config(self) -> NodeConfig:
        return self._config

    async def within(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it as a part of this process; while that is dead it never ends."""
        assert self._owner is not None, "it runs"
        return await self._owner.spawn(coroutine, "within")

    @property
    def alive(self) -> bool:
        return self.node is not None

    @property
    def state(self) -> StateStore:
        """The store as the running node sees it."""
        assert self.node is not None, "it runs"
        return self.node.services.store

    def knows(self, known: Known) -> None:
        """From its next start on it runs a release that knows this much."""
        host = replace(self._config.host, known=known)
        self._config = replace(self._config, host=host)

    def says(self, facts: AnnouncedFacts) -> None:
        """From its next start on it says this of itself."""
        self._config = replace(self._config, facts=facts)

    def start(self) -> None:
        assert self._owner is None, "it runs already"
        self.incarnation += 1
        self.disk.on_fatal = lambda why: self._on_fatal(self, why)
        self._owner = self._world.loop.incarnation(f"node{self.node_id}")
        self._owner.run(self._build)

    def _build(self) -> None:
        loop, network = self._world.loop, self._world.network
        others = [node for node in sorted(self._config.addresses) if node != self.node_id]
        clock = self.clock if self.tells_its_clock else None
        peers = SimPeers(loop, network, self.node_id, others, clock, datagrams=self._datagrams)
        peers.on_sent = self._on_sent
        links = peers if self.nodes_come else None
        node = ReplicaNode(
            self._config,
            Seams(
                loop, self.clock, self._rng, self.disk, self.store, peers, peers, peers, None, links
            ),
            on_fatal=lambda fault: self._on_fatal(self, repr(fault)),
        )
        if self.begins_at_first:
            node.former.formation.newest = FIRST
        node.on_out = self._stays_out
        SimServer(loop, network, node, datagrams=self._datagrams)
        node.sessions.update(peers.sessions)
        peers.start(node)
        self.node = node
        self._count_installs(node.host)
        node.start(lambda: peers.connect(node))

    def _stays_out(self, why: str) -> None:
        self.out = why

    def _count_installs(self, host: Host) -> None:
        told = host.on_copied

        def copied(group_id: GroupId, source: NodeId) -> None:
            self.installs[group_id] += 1
            told(group_id, source)

        host.on_copied = copied
        destroy = host._destroy

        def destroyed(group_id: GroupId) -> None:
            self._on_destroyed(self.node_id, group_id)
            destroy(group_id)

        host._destroy = destroyed  # type: ignore[method-assign]

    def crash(self, rng: random.Random, luck: Luck = Luck()) -> None:
        """Power loss: the process ends, its disk and store keep what was durable, and some of the
        rest."""
        if self._owner is None:
            return
        self.snapshots_before = self.snapshots_installed
        self.repaired_before = self.repaired
        self._owner.kill()
        self._owner = None
        self.node = None
        for address in addresses_of(self.node_id):
            self._world.network.crash(address)
        self.disk = self.disk.crash(rng, keeps=luck.log)
        self.store = self.store.crash(luck.store)

    def wipe(self, rng: random.Random, keeps: Iterable[str] = ()) -> None:
        """The power fails and the disk is replaced by one with nothing but the files `keeps`."""
        self.crash(rng)
        kept = {name: self.disk.files[name] for name in keeps}
        self.disk = SimDisk(self._world.loop, self._rng, self.disk.profile)
        self.disk.files.update(kept)
        self.store = StallingStore(self._world.loop, self._rng)

    @property
    def snapshots_installed(self) -> int:
        """Of all groups, the catalog's too, over all its lives."""
        return self.installs.total()

    @property
    def repaired(self) -> int:
        """Replicas that were made whole from their peers, over all its lives."""
        return self.repaired_before + (0 if self.node is None else self.node.host.installs.repaired)

    def on_effect(self, told: Callable[[str], None] | None) -> None:
        """Tell of every step of this life's disk and store that lasts."""
        self.disk.on_effect = told
        self.store.on_effect = told

    def contents(self) -> list[tuple[GroupId, LogIndex, dict[bytes, bytes]]]:
        """(group, applied index, pairs without their generation) of each replica."""
        if self.node is None:
            return []
        return [
            (
                group.group_id,
                group.applied_index,
                {
                    key[PREFIX_BYTES:]: value
                    for key, value in self.state.scan(
                        generation_prefix(group.generation), generation_end(group.generation)
                    )
                },
            )
            for group in (replica.group for replica in self.node.host.replicas())
        ]

    def stray_generations(self) -> set[int]:
        """Generations in the store that belong to no replica and to no transfer under way."""
        if self.node is None:
            return set()
        host = self.node.host
        known = {int(replica.group.generation) for replica in host.replicas()}
        known |= {int(transfer.generation) for transfer in host.receiver._incoming.values()}
        keys = (key for key in self.store.pairs() if key < references.FIRST_KEY)
        return {int.from_bytes(key[:PREFIX_BYTES], "big") for key in keys} - known

    def leads_something(self) -> bool:
        return self.node is not None and any(
            replica.group.engine.role is Role.LEADER for replica in self.node.host.replicas()
        )

    def probe(self) -> list[Probe]:
        """What each of its replicas says of itself."""
        if self.node is None:
            return []
        out = []
        for replica in self.node.host.replicas():
            group = replica.group
            if group.stopped or group.engine.recovery:
                continue  # it claims nothing
            engine = group.engine
            term_at: Any = engine.term_at
            out.append(
                Probe(
                    group.group_id,
                    engine.role is Role.LEADER,
                    engine.term,
                    engine.commit_index,
                    group.applied_index,
                    engine.base_index,
                    engine.last_index,
                    group.machine.digest,
                    term_at,
                )
            )
        return out
