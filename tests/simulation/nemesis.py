"""The nemesis: what goes wrong in a simulated cluster, and how it is mended."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from svc_cluster.base.ids import GroupId
from svc_cluster.replica.prefixed import PrefixedReader
from svc_cluster.replica.scrub import ANSWER_SECONDS
from svc_cluster.replica.scrub_reader import content_of
from tests.at_once import whole
from tests.simulation.adapters import addresses_of, hears_address, peer_address
from tests.simulation.backend_client import SimGateway
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.decay import decay
from tests.simulation.disk import SimDisk
from tests.simulation.harm import harm_batches
from tests.simulation.loop import SimLoop
from tests.simulation.network import NetworkProfile, SimNetwork
from tests.simulation.node import Luck, SimNode
from tests.simulation.options import Options
from tests.simulation.releases import NEW
from tests.simulation.store import StallingStore
from tests.simulation.trace import Trace

ROT_SHARE = 0.4
HARM_SHARE = 0.3
LOSS_SHARE = 0.15

FOUND_S = 60.0
"""Virtual seconds in which harm is found and repaired: as long as it takes replicas to know of each
other that they take part in the scrub, and two rounds."""
ROUNDS = 2


@dataclass(frozen=True, slots=True)
class _Harmed:
    """What became of one replica behind its back, and until when it has to be whole."""

    node: SimNode
    group_id: GroupId
    generation: int
    what: str
    deadline: float


class Nemesis:
    """Breaks nodes, disks, connections and gateways, and brings them back.

    `errors` takes what no fault explains; `look` is called before a node loses its memory.
    """

    def __init__(
        self,
        loop: SimLoop,
        options: Options,
        trace: Trace,
        network: SimNetwork,
        rng: random.Random,
        errors: list[str],
    ) -> None:
        self.nodes: Sequence[SimNode] = ()
        self.gateways: Sequence[SimGateway] = ()
        self.faults: dict[str, int] = {}
        self.crashes = 0
        self.errors = errors
        self.loop = loop
        self.options = options
        self.trace = trace
        self.network = network
        self.look: Callable[[], None] = lambda: None
        self.not_whole: Callable[[], str | None] = lambda: None
        self.is_changing: Callable[[], bool] = lambda: False
        self.amid_changes = 0
        self.on_disk_lost: Callable[[int], None] = lambda _: None
        self._rotten: SimNode | None = None
        self._harmed: _Harmed | None = None
        self._older: set[int] = set()
        self._lost: SimNode | None = None
        self._whole_by = 0.0
        self._ever_harmed: dict[tuple[int, int], int] = {}
        self._rng = rng
        self._context = contextvars.copy_context()
        self._restarts: dict[int, asyncio.TimerHandle] = {}
        self._expected_fatal: set[int] = set()

    async def torment(self) -> None:
        """One fault after another for as long as the options say."""
        rng, options = self._rng, self.options
        end = self.loop.time() + options.safety_s
        while True:
            pause = rng.expovariate(1 / options.fault_pause_s)
            if self.loop.time() + pause >= end:
                await asyncio.sleep(max(0.0, end - self.loop.time()))
                return
            await asyncio.sleep(pause)
            if not self._is_mended():
                continue
            fault = rng.choice(options.faults)
            if options.rot and rng.random() < ROT_SHARE:
                fault = "rot"
            if options.harm and rng.random() < HARM_SHARE:
                fault = "harm"
            if options.loses_disks and rng.random() < LOSS_SHARE:
                fault = "loss"
            self.faults[fault] = self.faults.get(fault, 0) + 1
            self.amid_changes += self.is_changing()
            self.trace.fact("fault", fault)
            getattr(self, f"_fault_{fault}")(rng)

    def crash(
        self,
        node: SimNode,
        rng: random.Random,
        down_s: float,
        *,
        luck: Luck = Luck(),
        look: bool = True,
    ) -> None:
        """Power loss, and the restart after `down_s` seconds. Without `look` it may be called from
        inside the node, in the middle of a step."""
        if not node.alive:
            return
        self.trace.fact("crash", node.node_id, f"{down_s:.3f}")
        if look:
            self.look()
        node.crash(rng, luck)
        self.crashes += 1
        self._restart_after(node, down_s)

    def upgrade_later(self, nodes: Sequence[SimNode]) -> None:
        """These are of an older release, and each becomes a newer one at a moment of its own before
        the faults end: its process ends by a power cut as any other does."""
        for node in nodes:
            self._older.add(node.node_id)
            moment = self._rng.uniform(0.1, 0.9) * self.options.safety_s
            self.loop.call_later(moment, self._upgrade, node, context=self._context)

    def _upgrade(self, node: SimNode) -> None:
        self.trace.fact("upgrade", node.node_id)
        node.knows(NEW)
        self._older.discard(node.node_id)
        self.crash(node, self._rng, self._rng.choice((0.05, 0.5, 3.0)))

    def _restart_after(self, node: SimNode, down_s: float) -> None:
        self._restarts[node.node_id] = self.loop.call_later(
            down_s, self._restart, node, context=self._context
        )

    def forget_restart(self, node: SimNode) -> None:
        """Somebody else starts it again."""
        handle = self._restarts.pop(node.node_id, None)
        if handle is not None:
            handle.cancel()

    def _restart(self, node: SimNode) -> None:
        self._restarts.pop(node.node_id, None)
        if node.alive:
            return
        self.trace.fact("restart", node.node_id)
        try:
            node.start()
        except Exception as failure:
            logging.getLogger("svc_cluster.simulation").error(
                "node_did_not_start", exc_info=failure, extra={"fields": {"node": node.node_id}}
            )

    def died(self, node: SimNode, why: str) -> None:
        """The process ended itself: on a broken disk as it should, otherwise by a fault of ours."""
        self.trace.fact("died", node.node_id, why)
        if node.node_id in self._expected_fatal:
            self._expected_fatal.discard(node.node_id)
        else:
            self.errors.append(f"node {node.node_id} died: {why}")
        # in the simulator's own context: what the dying process schedules never runs
        self.loop.call_soon(self._bury, node, node.incarnation, context=self._context)

    def _bury(self, node: SimNode, incarnation: int) -> None:
        if node.alive and node.incarnation == incarnation:
            node.crash(self._rng)
            self.crashes += 1
            self._restart_after(node, 0.5)

    def _leader(self, rng: random.Random) -> SimNode:
        leaders = [node for node in self.nodes if node.leads_something()]
        return rng.choice(leaders or self.nodes)

    def _fault_crash_leader(self, rng: random.Random) -> None:
        self.crash(self._leader(rng), rng, rng.choice((0.05, 1.0, rng.uniform(0, 8))))

    def _fault_crash_any(self, rng: random.Random) -> None:
        self.crash(rng.choice(self.nodes), rng, rng.choice((0.05, 1.0, rng.uniform(0, 8))))

    def _fault_crash_all(self, rng: random.Random) -> None:
        for node in self.nodes:
            self.crash(node, rng, rng.uniform(0.05, 3))

    def _fault_crash_most(self, rng: random.Random) -> None:
        for node in rng.sample(self.nodes, len(self.nodes) // 2 + 1):
            self.crash(node, rng, rng.uniform(0.05, 3))

    def cut(self, a: int, b: int, *, both: bool) -> None:
        """Between two nodes every connection is cut, whichever side opened it."""
        for x in addresses_of(a):
            for y in addresses_of(b):
                self.network.cut(x, y, both=both)

    def _heal_after(self, seconds: float) -> None:
        self.loop.call_later(seconds, self.network.heal_all)

    def _fault_partition(self, rng: random.Random) -> None:
        numbers = [node.node_id for node in self.nodes]
        side = set(rng.sample(numbers, rng.randint(1, len(numbers) - 1)))
        for a in numbers:
            for b in numbers:
                if a in side and b not in side:
                    self.cut(a, b, both=True)
        for gateway in self.gateways:
            for node in numbers:
                if rng.random() < 0.2:
                    self.network.cut(gateway.name, f"rpc:{node}")
        self._heal_after(rng.uniform(0.2, 10))

    def _fault_isolate_leader(self, rng: random.Random) -> None:
        leader = self._leader(rng).node_id
        for node in self.nodes:
            if node.node_id != leader:
                self.cut(leader, node.node_id, both=True)
        self._heal_after(rng.uniform(0.2, 10))

    def _fault_one_way(self, rng: random.Random) -> None:
        victim = rng.choice((self._leader(rng), rng.choice(self.nodes))).node_id
        deaf = rng.random() < 0.5
        for node in self.nodes:
            if node.node_id != victim and rng.random() < 0.8:
                pair = (node.node_id, victim) if deaf else (victim, node.node_id)
                self.cut(*pair, both=False)
        self._heal_after(rng.uniform(0.2, 8))

    def _fault_clog(self, rng: random.Random) -> None:
        for _ in range(rng.randint(1, 4)):
            a, b = rng.sample(self.nodes, 2)
            seconds = rng.uniform(0.1, 4)
            self.network.clog(peer_address(a.node_id), hears_address(b.node_id), seconds)
            gateway = rng.choice(self.gateways)
            self.network.clog(f"rpc:{a.node_id}", gateway.name, rng.uniform(0.1, 4))

    def _fault_reset(self, rng: random.Random) -> None:
        a, b = rng.sample(self.nodes, 2)
        for x, y in product(addresses_of(a.node_id), addresses_of(b.node_id)):
            self.network.reset(x, y)
        self.network.reset(rng.choice(self.gateways).name, f"rpc:{a.node_id}")

    def _fault_slow_disk(self, rng: random.Random) -> None:
        node = rng.choice((self._leader(rng), rng.choice(self.nodes)))
        switches = node.disk.switches
        switches.extra_latency_s = rng.choice((0.05, 0.2, 0.5))

        def end() -> None:
            switches.extra_latency_s = 0.0

        self.loop.call_later(rng.uniform(1, 8), end)

    def _fault_disk_error(self, rng: random.Random) -> None:
        node = rng.choice(self.nodes)
        if node.alive:
            self._expected_fatal.add(node.node_id)
            node.disk.switches.fail_next_sync = True

    def _fault_disk_full(self, rng: random.Random) -> None:
        for node in rng.sample(self.nodes, rng.choice((1, len(self.nodes)))):
            node.disk.switches.full = True
        self.loop.call_later(rng.uniform(1, 6), self._free_disks)

    def _free_disks(self) -> None:
        for node in self.nodes:
            node.disk.switches.full = False

    def _fault_store_stall(self, rng: random.Random) -> None:
        node = rng.choice(self.nodes)
        node.store.stall_share = rng.choice((0.3, 1.0))
        self.loop.call_later(rng.uniform(0.2, 3), self._end_stall, node)

    def _end_stall(self, node: SimNode) -> None:
        node.store.stall_share = 0.0

    def _fault_wall_step(self, rng: random.Random) -> None:
        rng.choice(self.nodes).clock.step_wall(rng.choice((-3_600_000, -500, 500, 3_600_000)))

    def _fault_rot(self, rng: random.Random) -> None:
        """The log of a node that is down decays: bits change, and writes turn up elsewhere.

        Only when everything else is whole, so that a good copy of each committed entry is on the
        other nodes and stays there: no other fault until the node is repaired."""
        if self._older or self.is_changing() or self.not_whole() is not None:
            return  # what is of an older release may be no good copy to be repaired from
        node = rng.choice(self.nodes)
        down_s = rng.uniform(0.1, 2)
        self.crash(node, rng, down_s)
        for _ in range(rng.choice((1, 1, 3))):
            self.trace.fact("rot", node.node_id, decay(node.disk, rng))
        self._rotten = node

    def _fault_harm(self, rng: random.Random) -> None:
        """Records of one replica vanish from its store, or others are in their place, on a leader
        too. Only when all is whole, one replica at a time, and nothing else until it is repaired:
        a minority is damaged, and the scrub has time for its round."""
        if self._older or self.is_changing() or self.options.scrub_seconds == 0:
            return
        if self.not_whole() is not None:
            return
        node = rng.choice((self._leader(rng), rng.choice(self.nodes)))
        if node.node is None or not node.node.host.basins:
            return
        group_id = rng.choice(sorted(node.node.host.basins))
        what = harm_batches(node, group_id, rng)
        if what is not None:
            self.trace.fact("harm", what)
            generation = int(node.node.host.basins[group_id].group.generation)
            deadline = self.loop.time() + self._found_seconds()
            self._harmed = _Harmed(node, group_id, generation, what, deadline)
            self._ever_harmed[node.node_id, group_id] = generation

    def _found_seconds(self) -> float:
        """Datagrams are lost, which what a link has taken is not. A question or an answer that is
        lost is waited for once a round for each peer, in the basin and in the catalog, whose
        chunks wait for each other."""
        if not self.options.datagrams:
            return FOUND_S
        return FOUND_S + ROUNDS * 2 * (len(self.nodes) - 1) * ANSWER_SECONDS

    def _fault_loss(self, rng: random.Random) -> None:
        """The disk of a node is gone for good, and an empty one is in its place. Only when all is
        whole, one at a time, and nothing else until it has its place: what it had promised is
        forgotten, and the others are a quorum that is whole. A basin may be moving."""
        if self._older or self.not_whole() is not None:
            return
        node = rng.choice((self._leader(rng), rng.choice(self.nodes)))
        if not node.alive:
            return
        self.crash(node, rng, rng.uniform(0.05, 2))
        self.trace.fact("loss", node.node_id)
        self.on_disk_lost(node.node_id)
        node.disk = SimDisk(self.loop, random.Random(rng.getrandbits(64)), node.disk.profile)
        node.store = StallingStore(self.loop, random.Random(rng.getrandbits(64)))
        self._lost, self._whole_by = node, self.loop.time() + FOUND_S

    def is_harmed(self, node_id: int, group_id: int) -> bool:
        """Whether this replica was harmed and not made anew since. Its digest, which is taken over
        all that entries ever did there, stays another's even where what was harmed is trimmed."""
        generation = self._ever_harmed.get((node_id, group_id))
        node = next(node for node in self.nodes if node.node_id == node_id)
        replica = None if node.node is None else node.node.host.replica(GroupId(group_id))
        return replica is not None and int(replica.group.generation) == generation

    def explains(self, error: str) -> bool:
        """Whether an error line says of a harmed replica that it is damaged, or, while its group is
        harmed, that nobody can tell who is."""
        return any(
            f"'group': {group_id}," in error
            and (
                (error.startswith("state_diverged") and f"'node': {node_id}," in error)
                or error.startswith("scrub_in_doubt")
            )
            for node_id, group_id in self._ever_harmed
        )

    async def mended(self) -> None:
        """Return once nothing is harmed or lost any more. Raises InvariantError when it takes too
        long."""
        while not self._is_harm_mended() or not self._is_loss_mended():
            await asyncio.sleep(0.25)

    def _has_place(self, node: SimNode) -> bool:
        """Whether the directory that the node has now has been given its place, and has its part of
        the catalog. A node that is refused has no group, and nobody lacks it among four."""
        if node.node is None or node.node.host.catalog is None:
            return False
        for other in self.nodes:
            catalog = None if other.node is None else other.node.host.catalog
            if catalog is not None and catalog.group.is_serving:
                row = catalog.state.nodes.get(node.config.node_id)
                return row is not None and not row.is_replacing and row.ordinal > 0
        return False

    def _is_loss_mended(self) -> bool:
        """Whether the node that lost its disk is whole again. Raises InvariantError."""
        if self._lost is not None and self._has_place(self._lost) and self.not_whole() is None:
            self._lost = None
        if self._lost is not None and self.loop.time() > self._whole_by:
            raise InvariantError(
                f"a-lost-disk-is-replaced: node {self._lost.node_id} is not whole within "
                f"{FOUND_S} s: {self.not_whole()}"
            )
        return self._lost is None

    def _is_harm_mended(self) -> bool:
        """Whether the harmed replica was made anew from the others, or holds again what they hold,
        because what was harmed has been trimmed. Raises InvariantError."""
        harmed = self._harmed
        if harmed is None:
            return True
        held = self._held(harmed.node, harmed.group_id)
        if held is None:
            is_mended = self._is_destroyed(harmed)
        elif held[0] != harmed.generation:
            is_mended = True
        else:
            others = [self._held(n, harmed.group_id) for n in self.nodes if n is not harmed.node]
            is_mended = any(other is not None and other[1:] == held[1:] for other in others)
        if is_mended:
            self._harmed = None
        elif self.loop.time() > harmed.deadline:
            raise InvariantError(f"harm-is-found: not within {FOUND_S} s: {harmed.what}")
        return is_mended

    def _is_destroyed(self, harmed: _Harmed) -> bool:
        """Whether the basin was deleted or has moved away, and the harmed replica with it."""
        host = None if harmed.node.node is None else harmed.node.node.host
        if host is None or host.catalog is None or host.replica(harmed.group_id) is not None:
            return False
        if host.catalog.group.engine.recovery:
            return False
        record = host.catalog.state.basins_by_group.get(harmed.group_id)
        return record is None or harmed.node.node_id not in record.replicas

    def _held(self, node: SimNode, group_id: GroupId) -> tuple[int, int, int] | None:
        """Generation, applied index, and the digest of the content; None while it is repaired."""
        replica = None if node.node is None else node.node.host.replica(group_id)
        if replica is None or replica.group.is_given_up:
            return None
        generation = replica.group.generation
        found = whole(content_of(group_id), PrefixedReader(node.state, generation))
        return int(generation), replica.group.applied_index, found.digest

    @property
    def is_patient(self) -> bool:
        """Whether something is rotten or harmed: until it is whole, no member changes either."""
        return any(each is not None for each in (self._harmed, self._rotten, self._lost))

    def _is_mended(self) -> bool:
        """Whether nothing is rotten, harmed or lost, or no longer."""
        if not self._is_harm_mended() or not self._is_loss_mended():
            return False
        if self._rotten is not None and self.not_whole() is None:
            self._rotten = None
        return self._rotten is None

    def _fault_gateway_crash(self, rng: random.Random) -> None:
        gateway = rng.choice(self.gateways)
        if gateway.alive:
            gateway.crash()
            self.loop.call_later(rng.uniform(0.01, 2), gateway.start)

    def heal(self) -> None:
        """No fault from now on; what was broken comes back."""
        self.trace.fact("heal")
        self.network.heal_all()
        self.network.profile = NetworkProfile()
        self.network.lift_limits()
        self._free_disks()
        for node in self.nodes:
            node.disk.switches.extra_latency_s = 0.0
            node.disk.switches.fail_next_sync = False
            self._end_stall(node)
        self._expected_fatal.clear()
        for node in self.nodes:
            if not node.alive and node.node_id not in self._restarts:
                self._restart(node)
