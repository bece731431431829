"""Rows of one replica change behind its back: one round of the scrub finds it, the others repair
it, and nothing of it is served afterwards."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from svc_cluster.replica.group import GroupReplica
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
            history = cluster.recorder.streams[number % 2]
            client = cluster.recorder.new_client()
            items = cluster.recorder.items(self.rng, client, 3, 500)
            append = await cluster.recorder.append(cluster.apis[0], history, client, items)
            assert append.outcome is Outcome.OK

    def group(self, node: SimNode) -> GroupReplica:
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
