"""One replica falls behind, gets a snapshot, and something happens at a chosen step of that.

Everything is the same in every run up to the chosen step, so that the steps can be counted in a
run without trouble and then be hit one by one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId, Term
from svc_cluster.link.calls import Verb
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.group import Role
from tests.linearizability.history import Outcome
from tests.simulation.adapters import addresses_of
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.node import Luck, SimNode
from tests.simulation.options import Options

CHUNK_BYTES = 24 * 1024
APPENDS = 20
RECORDS = 5
PADDING_MAX = 20_000
"""1 MB in all: about thirty chunks."""

CHANGED_MAX = 3
"""Chunks of a state that differ behind a change of the leader: the first rows tell what was applied
last, the last ones what was counted, and one may be cut in two."""

DOWN_S = 0.3
BASIN = GroupId(CATALOG_GROUP + 1)

OPTIONS = Options(
    gateways=1,
    http=False,
    basins=1,
    streams=1,
    tick_seconds=0.05,
    flush_seconds=0.5,
    log_retention_seconds=0.5,
    constants=(("snapshot_stream.CHUNK_BYTES", CHUNK_BYTES),),
)


class Brought(NamedTuple):
    """A Brought is one chunk that the receiver took: in which of its lives, of which node, and the
    pairs."""

    life: int
    sender: NodeId
    pairs: tuple[tuple[bytes, bytes], ...]


@dataclass(slots=True)
class Steps:
    """What was counted in a run. Effects are the receiver's, from the first chunk's arrival to the
    end of the first install."""

    effects: list[str] = field(default_factory=list)
    chunks: int = 0
    installs: int = 0
    hit: bool = False
    """Whether the chosen step was reached."""

    hits: int = 0
    brought: list[Brought] = field(default_factory=list)
    """What the chunks of the basin's snapshots held, in the order in which they were taken."""

    repaired: int = 0
    """Of the receiver's replicas, those that could not be believed and were made whole again."""

    promises: list[tuple[Term, NodeId | None]] = field(default_factory=list)
    """The receiver's term and vote in the basin's group: before the install, behind it, and behind
    a power failure after that."""


Trouble = Callable[["Scenario"], None]


class Scenario:
    """`at_effect` (from 0): the receiver's power fails right behind this step, and in its next life
    behind the step `again_at` of the next install. `at_chunk`: `trouble` happens when this chunk
    arrives, or with `answered` when its answer leaves; `every`: at each of so many."""

    def __init__(
        self,
        cluster: SimCluster,
        *,
        at_effect: int | None = None,
        again_at: int | None = None,
        luck: Luck = Luck(),
        at_chunk: int | None = None,
        every: int | None = None,
        answered: bool = False,
        trouble: Trouble | None = None,
    ) -> None:
        self.cluster = cluster
        self.steps = Steps()
        self.tasks: list[asyncio.Task[None]] = []
        """What the troubles have begun."""

        self.receiver = self.sender = cluster.nodes[0]
        self._crash_at = [at for at in (at_effect, again_at) if at is not None]
        self._luck = luck
        self._at_chunk = at_chunk
        self._every = every
        self._answered = answered
        self._trouble = trouble
        self._life = -1
        self._effects_of_life = 0
        self._crash_rng = random.Random(f"{at_effect}/{again_at}/{at_chunk}")

    async def run(self) -> Steps:
        cluster = self.cluster
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        await cluster.guarded(self._fall_behind(), watch)
        self._note_promise()
        cluster.network.on_call = self._on_call
        cluster.network.heal_all()
        await cluster.guarded(self._become_whole(), watch)
        cluster.network.on_call = None
        self._note_promise()
        self.steps.repaired = self.receiver.repaired
        history = cluster.recorder.streams[0]
        final = await cluster.guarded(cluster.read_all(history), watch)
        watch.cancel()
        cluster.judge(history, final)
        self.steps.installs = self.receiver.snapshots_installed
        cluster.nemesis.crash(self.receiver, self._crash_rng, DOWN_S)
        await asyncio.sleep(2 * DOWN_S)
        self._note_promise()
        return self.steps

    def _note_promise(self) -> None:
        if (node := self.receiver.node) is not None:
            group = node.host.basins[BASIN].group
            self.steps.promises.append((group.engine.term, group.voted_for))

    async def _fall_behind(self) -> None:
        cluster = self.cluster
        self.sender = next(node for node in cluster.nodes if _leads(node))
        self.receiver = next(node for node in reversed(cluster.nodes) if node is not self.sender)
        rng = random.Random(cluster.seed)
        history, client = cluster.recorder.streams[0], cluster.recorder.new_client()
        while _engine(self.receiver).base_index == 0:
            # so that its state cannot be made again from its log alone
            items = cluster.recorder.items(rng, client, RECORDS, PADDING_MAX)
            await cluster.recorder.append(cluster.apis[0], history, client, items)
            await asyncio.sleep(0.2)
        for node in cluster.nodes:
            if node is not self.receiver:
                cluster.nemesis.cut(self.receiver.node_id, node.node_id, both=True)
                # what is on its way in a connection that nobody knows to be broken would still
                # arrive
                for a, b in _both_ways(self.receiver, node):
                    cluster.network.reset(a, b)
        for _ in range(APPENDS):
            items = cluster.recorder.items(rng, client, RECORDS, PADDING_MAX)
            append = await cluster.recorder.append(cluster.apis[0], history, client, items)
            if append.outcome is not Outcome.OK:
                raise InvariantError(f"two of three nodes take writes: {append.outcome}")
        while not self._can_only_send_a_snapshot():
            await asyncio.sleep(0.1)

    def _can_only_send_a_snapshot(self) -> bool:
        last_index = _engine(self.receiver).last_index
        others = [node for node in self.cluster.nodes if node is not self.receiver]
        return _leads(self.sender) and all(_engine(one).base_index > last_index for one in others)

    async def _become_whole(self) -> None:
        """Within the same bound as after any other trouble."""
        cluster = self.cluster
        deadline = cluster.loop.time() + LIVENESS_S
        while (why := self._not_whole()) is not None:
            if cluster.loop.time() > deadline:
                raise InvariantError(f"liveness: after the install: {why}")
            await asyncio.sleep(0.1)
        cluster.compare_stores()

    def _not_whole(self) -> str | None:
        if not self.steps.effects:
            return "no snapshot was sent"
        if (why := self.cluster.not_whole()) is not None:
            return why
        for node in self.cluster.nodes:
            if strays := node.stray_generations():
                return f"node {node.node_id} still holds the generations {strays}"
        return None

    # The steps

    def _on_call(self, verb: Verb, node: int, answered: bool) -> None:
        if verb is not Verb.SNAPSHOT or node != self.receiver.node_id:
            return
        if self.receiver.incarnation != self._life and self.receiver.alive:
            self._life, self._effects_of_life = self.receiver.incarnation, 0
            self.receiver.on_effect(self._on_effect)
            self._spy()
        if answered is self._answered:
            number, self.steps.chunks = self.steps.chunks, self.steps.chunks + 1
            is_now = (number + 1) % self._every == 0 if self._every else number == self._at_chunk
            if is_now and self._trouble is not None:
                self.steps.hit = True
                self.steps.hits += 1
                self._trouble(self)

    def _spy(self) -> None:
        """Note what the receiver takes in this life."""
        assert self.receiver.node is not None, "a chunk has reached it"
        receiver, life = self.receiver.node.host.receiver, self._life
        take = receiver.chunk

        async def spied(sender: NodeId, data: bytes) -> bytes:
            answer = await take(sender, data)
            chunk = pb.SnapshotChunk.FromString(data)
            if chunk.group_id == BASIN and pb.SnapshotResult.FromString(answer).accepted:
                pairs = tuple(zip(chunk.keys, chunk.values, strict=True))
                self.steps.brought.append(Brought(life, sender, pairs))
            return answer

        receiver.chunk = spied  # type: ignore[method-assign]

    def _on_effect(self, kind: str) -> None:
        number, self._effects_of_life = self._effects_of_life, self._effects_of_life + 1
        if self.receiver.snapshots_before == 0:
            self.steps.effects.append(kind)
        if self.receiver.snapshots_installed:
            self.receiver.on_effect(None)
        if self._crash_at and self._crash_at[0] == number:
            self._crash_at.pop(0)
            self.steps.hit = True
            self.cluster.nemesis.crash(
                self.receiver, self._crash_rng, DOWN_S, luck=self._luck, look=False
            )


def chunks(steps: Steps) -> int:
    """How many of them brought something."""
    return sum(bool(brought.pairs) for brought in steps.brought)


def sent_again(steps: Steps) -> int:
    """Chunks that brought nothing but what the receiver had been given in the same life."""
    seen: set[tuple[int, tuple[bytes, bytes]]] = set()
    count = 0
    for brought in steps.brought:
        pairs = {(brought.life, pair) for pair in brought.pairs}
        count += bool(pairs) and pairs <= seen
        seen |= pairs
    return count


def _both_ways(a: SimNode, b: SimNode) -> list[tuple[str, str]]:
    one, other = addresses_of(a.node_id), addresses_of(b.node_id)
    return [(x, y) for x in one for y in other]


def _leads(node: SimNode) -> bool:
    basin = None if node.node is None else node.node.host.basins.get(BASIN)
    return basin is not None and basin.group.engine.role is Role.LEADER and basin.group.is_serving


def _engine(node: SimNode) -> EngineGroup:
    assert node.node is not None, "nobody has crashed yet"
    engine = node.node.host.basins[BASIN].group.engine
    assert isinstance(engine, EngineGroup)
    return engine


def play(
    *,
    seed: int = 1,
    at_effect: int | None = None,
    again_at: int | None = None,
    luck: Luck = Luck(),
    at_chunk: int | None = None,
    every: int | None = None,
    answered: bool = False,
    trouble: Trouble | None = None,
) -> Steps:
    """Run the scenario once. Raises SimulationFailedError."""

    async def main(cluster: SimCluster) -> Steps:
        return await Scenario(
            cluster,
            at_effect=at_effect,
            again_at=again_at,
            luck=luck,
            at_chunk=at_chunk,
            every=every,
            answered=answered,
            trouble=trouble,
        ).run()

    return in_simulation(seed, OPTIONS, main)
