"""Rows of one replica change behind its back: one round of the scrub finds it, the others repair
it, and nothing of it is served afterwards."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from svc_cluster.base.ids import CATALOG_GROUP, GroupId, StreamId
from svc_cluster.base.write_set import WriteSet
from svc_cluster.codec.entry_version import Known
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.prefixed import PrefixedReader, generation_prefix
from svc_cluster.stream import keys
from tests.linearizability.history import Outcome
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.harm import KINDS, harm
from tests.simulation.node import SimNode
from tests.simulation.options import Options

SEEDS = int(os.environ.get("SCRUB_SEEDS", "3"))
APPENDS = 12
BASIN = GroupId(CATALOG_GROUP + 1)
SMALL = (("scrub.CHUNK_BYTES_MAX", 1_500), ("scrub_reader.SLICE_BYTES", 1_024))
OPTIONS = Options(gateways=1, http=False, basins=1, streams=2, tick_seconds=0.05, constants=SMALL)
ROUND_S = 60.0
"""Longer than it takes until replicas know of each other that they take part, and two rounds."""


class Trial:
    """A cluster with some content, and what becomes of harm done to it."""

    def __init__(self, cluster: SimCluster, group_id: GroupId) -> None:
        self.cluster = cluster
        self.group_id = group_id
        self.rng = random.Random(f"{cluster.seed}/scrub/{group_id}")

    async def filled(self) -> None:
        cluster = self.cluster
        cluster.start().cancel()  # error lines are expected here
        await cluster.set_up()
        await self.append(APPENDS)
        await self.complete()

    async def append(self, count: int) -> None:
        cluster = self.cluster
        for number in range(count):
            history = cluster.recorder.streams[number % len(cluster.recorder.streams)]
            client = cluster.recorder.new_client()
            items = cluster.recorder.items(self.rng, client, 3, 500)
            append = await cluster.recorder.append(cluster.apis[0], history, client, items)
            assert append.outcome is Outcome.OK

    def group(self, node: SimNode) -> AnyGroup:
        assert node.node is not None
        replica = node.node.host.replica(self.group_id)
        assert replica is not None
        return replica.group

    def leader(self) -> SimNode:
        return next(node for node in self.cluster.nodes if self.group(node).is_serving)

    def round(self) -> int:
        """The one that runs, or that was the last."""
        scrubs = (
            node.node.scrubber._scrubs.get(self.group_id)
            for node in self.cluster.nodes
            if node.node is not None
        )
        return max((scrub.round_number for scrub in scrubs if scrub is not None), default=0)

    async def until(self, done: Callable[[], bool], why: str, limit_s: float = ROUND_S) -> None:
        deadline = self.cluster.loop.time() + limit_s
        while not done():
            if self.cluster.loop.time() > deadline:
                raise InvariantError(f"liveness: {why}: {self.cluster.errors}")
            await asyncio.sleep(0.05)

    async def complete(self) -> None:
        """One more round has found everything equal."""
        begun = self.round()

        def is_complete() -> bool:
            found = (
                node.node.scrubber._scrubs.get(self.group_id)
                for node in self.cluster.nodes
                if node.node is not None
            )
            return any(one is not None and one.completed_round > begun for one in found)

        await self.until(is_complete, "a complete round")

    async def found(self, victim: SimNode, what: str) -> None:
        """The victim said so, within the round that runs and the one behind it."""
        begun, said = self.round(), len(self.cluster.errors)
        await self.until(lambda: len(self.cluster.errors) > said, f"found: {what}")
        for line in self.cluster.errors[said:]:
            assert line.startswith("state_diverged"), (line, what)
            assert f"'node': {victim.node_id}" in line, (line, what)
        assert self.round() <= begun + 1, what
        assert not self.group(victim).is_serving

    async def whole(self, victim: SimNode, repaired: int) -> None:
        """Behind so many repairs of the victim."""
        cluster = self.cluster
        await self.until(lambda: victim.repaired >= repaired, "repaired", LIVENESS_S)
        await self.until(lambda: cluster.not_whole() is None, "after the harm", LIVENESS_S)
        cluster.compare_stores()
        for history in cluster.recorder.streams:
            cluster.judge(history, await cluster.read_all(history))


@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("group_id", [BASIN, CATALOG_GROUP], ids=["basin", "catalog"])
def test_harm_to_one_replica_is_found_in_one_round_and_repaired(
    group_id: GroupId, kind: str, seed: int
) -> None:
    """On the leader or on a follower, twice in a row: behind each time all replicas hold the same,
    and everything that is read then is what was written."""

    async def main(cluster: SimCluster) -> None:
        trial = Trial(cluster, group_id)
        await trial.filled()
        for number in range(2):
            leads = (seed + number) % 2 == 0
            others = [node for node in cluster.nodes if node is not trial.leader()]
            victim = trial.leader() if leads else trial.rng.choice(others)
            what = harm(victim, group_id, kind, trial.rng)
            repaired = victim.repaired + 1
            await trial.found(victim, what)
            await trial.whole(victim, repaired)
            await trial.append(2)
            await trial.complete()
        assert sum(node.node.scrubber.differences for node in cluster.nodes if node.node) == 2
        assert not any(node.node.scrubber.in_doubt for node in cluster.nodes if node.node)

    in_simulation(seed, OPTIONS, main)


@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_harm_is_found_by_whoever_leads_next(seed: int) -> None:
    """The leader is killed, and a link cut, while the round in which the harm lies is under way:
    it is found once all three can be asked, and nobody else is convicted."""

    async def main(cluster: SimCluster) -> None:
        trial = Trial(cluster, BASIN)
        await trial.filled()
        leader = trial.leader()
        others = [node for node in cluster.nodes if node is not leader]
        victim = trial.rng.choice(others)
        what = harm(victim, BASIN, trial.rng.choice(("rows", "swap", "added")), trial.rng)
        repaired = victim.repaired + 1
        await asyncio.sleep(trial.rng.uniform(0, 6.0))
        cluster.nemesis.crash(leader, trial.rng, trial.rng.uniform(0.5, 3.0), look=False)
        await trial.until(lambda: bool(cluster.errors), what, 2 * ROUND_S)
        await trial.whole(victim, repaired)
        for line in cluster.errors:
            if not line.startswith("scrub_in_doubt"):  # while there were only two
                assert line.startswith("state_diverged"), line
                assert f"'node': {victim.node_id}" in line, line

    in_simulation(seed, OPTIONS, main)


def _put(node: SimNode, key: bytes, value: bytes) -> None:
    assert node.node is not None
    write_set = WriteSet()
    generation = node.node.host.basins[BASIN].group.generation
    write_set.put(generation_prefix(generation) + key, value)
    node.store.write(write_set)


OTHER = keys.IDEMPOTENCY_ROWS + b"k" * 32
"""A row that no decoder refuses, whatever its value is an outcome of."""


def test_where_no_majority_is_right_nothing_is_repaired_and_it_is_said() -> None:
    """All three hold something else: one line a round, a count for the alert, and the group goes on
    serving. When two of them hold the same again, the third is repaired and the doubt is over."""

    async def main(cluster: SimCluster) -> None:
        trial = Trial(cluster, BASIN)
        await trial.filled()
        for number, node in enumerate(cluster.nodes):
            _put(node, OTHER, msgspec.msgpack.encode([number, b"answer"]))
        await trial.until(lambda: bool(cluster.errors), "in doubt")
        await asyncio.sleep(4.0)
        assert [line.split()[0] for line in cluster.errors] == ["scrub_in_doubt"]
        leader = trial.leader()
        assert leader.node is not None
        assert leader.node.scrubber.in_doubt == 1
        assert not any(node.repaired for node in cluster.nodes)
        await trial.append(2)
        odd = next(node for node in cluster.nodes if node is not leader)
        for node in cluster.nodes:
            if node is not odd:
                _put(node, OTHER, msgspec.msgpack.encode([7, b"answer"]))
        await trial.whole(odd, 1)
        await trial.complete()
        assert trial.leader().node is not None
        assert not any(node.node.scrubber.in_doubt for node in cluster.nodes if node.node)

    in_simulation(1, OPTIONS, main)


def test_a_replica_repaired_from_a_damaged_one_does_not_convict_the_last_whole_one() -> None:
    """The leader's damage is not found yet when another replica gets its state: those two are equal
    then, and the third, which is right, keeps what it has."""

    async def main(cluster: SimCluster) -> None:
        trial = Trial(cluster, BASIN)
        await trial.filled()
        leader = trial.leader()
        copy, right = (node for node in cluster.nodes if node is not leader)
        value = msgspec.msgpack.encode([7, b"answer"])
        for node in cluster.nodes:
            _put(node, OTHER, value)
        _put(leader, OTHER, msgspec.msgpack.encode([8, b"other"]))
        assert copy.node is not None
        copy.node.host._diverged(copy.node.host.basins[BASIN], "as if a read had found a gap")
        cluster.errors.clear()
        await trial.until(lambda: copy.repaired == 1, "repaired", LIVENESS_S)
        await trial.until(lambda: bool(cluster.errors), "in doubt", 2 * ROUND_S)
        assert {line.split()[0] for line in cluster.errors} == {"scrub_in_doubt"}
        await asyncio.sleep(3 * OPTIONS.scrub_seconds)
        assert right.repaired == 0
        assert not trial.group(right).engine.recovery

    in_simulation(1, OPTIONS, main)


@pytest.mark.parametrize("what", ["gap", "tail", "elsewhere"])
@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_a_damaged_leader_sends_no_snapshot(what: str, seed: int) -> None:
    """Batches are missing in its store, in the middle or at the end of a stream, or one lies where
    another belongs, when another replica needs its state: it looks at what it sends, and nobody
    installs it, while no scrub runs at all."""

    async def main(cluster: SimCluster) -> None:
        trial = Trial(cluster, BASIN)
        cluster.start().cancel()  # error lines are expected here
        await cluster.set_up()
        await trial.append(APPENDS)
        leader = trial.leader()
        copy = next(node for node in cluster.nodes if node is not leader)
        await trial.until(
            lambda: trial.group(leader).applied_index == trial.group(copy).applied_index, "equal"
        )
        generation = trial.group(leader).generation
        prefix, reader = generation_prefix(generation), PrefixedReader(leader.store, generation)
        found = list(reader.scan(*keys.batches_range(StreamId(1))))
        write_set = WriteSet()
        if what == "elsewhere":
            write_set.put(prefix + found[2][0], found[1][1])
        else:
            write_set.delete(prefix + found[2 if what == "gap" else -1][0])
        leader.store.write(write_set)
        assert copy.node is not None
        copy.node.host._diverged(copy.node.host.basins[BASIN], "as if a read had found a gap")
        cluster.errors.clear()
        await trial.until(lambda: bool(cluster.errors), "the leader saw it", LIVENESS_S)
        (line,) = cluster.errors
        assert line.startswith("state_diverged") and f"'node': {leader.node_id}" in line
        assert "a snapshot was not sent" in line
        assert not copy.repaired and not copy.installs[BASIN]

    in_simulation(seed, replace(OPTIONS, scrub_seconds=0.0), main)


def test_an_only_replica_says_what_it_sees_itself() -> None:
    """There is nobody to compare it with: a gap is found by itself, told once, and the rest is
    served."""

    async def main(cluster: SimCluster) -> None:
        trial = Trial(cluster, BASIN)
        await trial.filled()
        (node,) = cluster.nodes
        assert node.node is not None
        generation = trial.group(node).generation
        start, end = keys.batches_range(StreamId(1))
        found = [key for key, _ in PrefixedReader(node.store, generation).scan(start, end)]
        write_set = WriteSet()
        write_set.delete(generation_prefix(generation) + found[2])
        node.store.write(write_set)
        await asyncio.sleep(4 * OPTIONS.scrub_seconds)
        (line,) = cluster.errors
        assert line.startswith("state_diverged")
        assert "are missing" in line
        await trial.append(2)

    in_simulation(1, replace(OPTIONS, nodes=1), main)


@pytest.mark.parametrize("newer", [1, 2])
def test_replicas_of_different_encodings_convict_nobody(newer: int) -> None:
    """As a newer release would write rows otherwise: its nodes hold other content, and no round is
    complete."""

    async def main(cluster: SimCluster) -> None:
        trial = Trial(cluster, BASIN)
        for node in cluster.nodes[:newer]:
            node.knows(Known(encoding=2))
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        for node in cluster.nodes[:newer]:
            _put(node, OTHER, msgspec.msgpack.encode([7, b"answer"]))
        await cluster.guarded(trial.append(4), watch)
        await cluster.guarded(asyncio.sleep(ROUND_S), watch)
        scrubbers = [node.node.scrubber for node in cluster.nodes if node.node is not None]
        assert sum(scrubber.differences for scrubber in scrubbers) == 0
        assert sum(scrubber.rounds_complete for scrubber in scrubbers) == 0
        assert not any(scrubber.in_doubt for scrubber in scrubbers)
        watch.cancel()

    in_simulation(1, OPTIONS, main)


def test_replicas_that_take_no_part_are_asked_nothing() -> None:
    """A release without the scrub, or where it is turned off: nobody is asked, so that no message
    arrives that cannot be read; and nobody is convicted."""

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        await cluster.guarded(asyncio.sleep(ROUND_S), watch)
        for node in cluster.nodes:
            assert node.node is not None
            assert node.node.scrubber.read_bytes == 0
            assert node.node.scrubber.rounds_complete == node.node.scrubber.rounds_partial == 0
            assert not node.node.unread
        watch.cancel()

    in_simulation(1, replace(OPTIONS, scrub_seconds=0.0), main)
