"""Nodes of an older release beside newer ones: what they do not know stops them before it is
applied, is never skipped, and is applied once they are upgraded."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.replica import held
from svc_cluster.replica.group_replica import AnyGroup
from tests.linearizability.history import Outcome
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.cluster import LIVENESS_S, Report, SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.options import Options
from tests.simulation.recorder import Retries
from tests.simulation.releases import NEW, OLD, PARKED
from tests.simulation.workload import NoEffectError, WorkloadOptions

SEEDS = int(os.environ.get("MIXED_SEEDS", "6"))

BASIN = GroupId(CATALOG_GROUP + 1)
COMPARED_S = 45.0
"""Longer than two comparisons of states."""

CALM = Options(gateways=1, http=False, basins=1, streams=1, tick_seconds=0.05)
FAULTY = replace(
    CALM,
    gateways=2,
    faults=("crash_leader", "crash_any", "isolate_leader", "partition", "one_way"),
    fault_pause_s=3.0,
    safety_s=30.0,
    log_retention_seconds=2.0,
    flush_seconds=1.0,
    workload=WorkloadOptions(clients=4, retry_share=0.1, think_s=0.1),
)


def _group(node: SimNode) -> AnyGroup:
    assert node.node is not None
    return node.node.host.basins[BASIN].group


class Mixed:
    """A cluster whose first nodes are of the older release."""

    def __init__(self, cluster: SimCluster, old: int) -> None:
        self.cluster = cluster
        self.rng = random.Random(f"{cluster.seed}/mixed")
        self.old, self.new = cluster.nodes[:old], cluster.nodes[old:]
        for node in self.old:
            node.knows(OLD)

    async def begin(self) -> SimNode:
        """Everything is made, and a node of the newer release leads the basin."""
        cluster = self.cluster
        await cluster.set_up()
        await self.append(Outcome.OK)
        leader = self.new[0]
        await self.until(lambda: _group(leader).is_serving, self._to(leader))
        return leader

    def _to(self, leader: SimNode) -> list[AnyGroup]:
        return [_group(node) for node in self.cluster.nodes if node is not leader]

    async def until(self, done: object, give_away: Sequence[AnyGroup] = ()) -> None:
        assert callable(done)
        deadline = self.cluster.loop.time() + LIVENESS_S
        while not done():
            if self.cluster.loop.time() > deadline:
                raise InvariantError("liveness: it never came about")
            for group in give_away:
                if group.is_serving:
                    group.transfer_leadership(self.new[0].node_id)
            await asyncio.sleep(0.2)

    async def append(self, wanted: Outcome, token: str | None = None, stream: int = 0) -> None:
        """One append, whose outcome must be this; with a token it is of the kind that the older
        release does not know."""
        cluster = self.cluster
        history, client = cluster.recorder.streams[stream], cluster.recorder.new_client()
        items = cluster.recorder.items(self.rng, client, 3, 200)
        retries = None
        if token is not None:
            retries = Retries(token, cluster.apis, self.rng, 1)
        done = await cluster.recorder.append(
            cluster.apis[0], history, client, items, None, None, retries
        )
        if done.outcome is not wanted:
            raise NoEffectError(f"{done}, not {wanted}")

    async def whole(self) -> None:
        await self.until(lambda: self.cluster.not_whole() is None)
        self.cluster.compare_stores()
        self.cluster.look()

    async def judge(self) -> None:
        history = self.cluster.recorder.streams[0]
        self.cluster.judge(history, await self.cluster.read_all(history))

    async def upgrade(self, node: SimNode) -> None:
        node.knows(NEW)
        self.cluster.nemesis.crash(node, self.rng, 0.3)
        await asyncio.sleep(0.5)


def test_two_old_nodes_keep_what_they_cannot_apply_and_a_new_one_serves_it() -> None:
    """The newer leader acknowledges what the two others only log; while it is away nobody serves
    and everything is refused without effect; after the upgrade all three hold all of it."""

    async def main(cluster: SimCluster) -> None:
        mixed = Mixed(cluster, old=2)
        watch = cluster.start()
        leader = await cluster.guarded(mixed.begin(), watch)
        await cluster.guarded(mixed.append(Outcome.OK, "token-1"), watch)
        for _ in range(5):
            await cluster.guarded(mixed.append(Outcome.OK), watch)
        await asyncio.sleep(1.0)
        parked = [_group(node) for node in mixed.old]
        for group in parked:
            assert "keyed_write" in group.parked
            assert group.applied_index < _group(leader).applied_index
            assert group.engine.durable_index == _group(leader).engine.last_index
        await cluster.guarded(asyncio.sleep(COMPARED_S), watch)
        assert _group(leader).engine.recovery == 0
        cluster.nemesis.crash(leader, mixed.rng, 60.0)
        await asyncio.sleep(10.0)  # the gateway has noticed
        for _ in range(3):
            await cluster.guarded(mixed.append(Outcome.FAILED), watch)
            assert not any(_group(node).is_serving for node in mixed.old)
        await asyncio.sleep(60.0)
        await cluster.guarded(cluster.insist(lambda api: mixed.append(Outcome.OK)), watch)
        for node in mixed.old:
            await cluster.guarded(mixed.upgrade(node), watch)
            await cluster.guarded(mixed.append(Outcome.OK), watch)
        await cluster.guarded(mixed.whole(), watch)
        await cluster.guarded(asyncio.sleep(COMPARED_S), watch)
        await cluster.guarded(mixed.judge(), watch)
        watch.cancel()
        assert all(node.repaired == node.snapshots_installed == 0 for node in cluster.nodes)

    in_simulation(1, CALM, main, expected=PARKED)


def test_one_old_node_does_not_lead_and_the_two_new_ones_go_on() -> None:
    """The leader fails: the other newer node takes over at once, and what was acknowledged by the
    parked one's disk is there."""

    async def main(cluster: SimCluster) -> None:
        mixed = Mixed(cluster, old=1)
        watch = cluster.start()
        leader = await cluster.guarded(mixed.begin(), watch)
        await cluster.guarded(mixed.append(Outcome.OK, "token-1"), watch)
        await asyncio.sleep(1.0)
        (old,) = mixed.old
        assert _group(old).parked
        cluster.nemesis.crash(leader, mixed.rng, 30.0)
        await cluster.guarded(cluster.insist(lambda api: mixed.append(Outcome.OK)), watch)
        assert _group(mixed.new[1]).is_serving
        assert not _group(old).is_serving
        await cluster.guarded(mixed.upgrade(old), watch)
        await asyncio.sleep(30.0)
        await cluster.guarded(mixed.whole(), watch)
        await cluster.guarded(mixed.judge(), watch)
        watch.cancel()

    in_simulation(2, CALM, main, expected=PARKED)


def test_an_old_node_takes_no_state_that_a_newer_release_may_have_made() -> None:
    """It was away while the log was trimmed behind an entry that it does not know: a snapshot would
    carry it over that. It waits where it is, the others go on, and the upgrade lets it follow."""

    async def main(cluster: SimCluster) -> None:
        mixed = Mixed(cluster, old=1)
        watch = cluster.start()
        leader = await cluster.guarded(mixed.begin(), watch)
        (old,) = mixed.old
        await mixed.until(lambda: _group(old).applied_index == _group(leader).applied_index)
        for node in mixed.new:
            cluster.nemesis.cut(old.node_id, node.node_id, both=True)
        stood = _group(old).applied_index
        await cluster.guarded(mixed.append(Outcome.OK, "token-1"), watch)
        unknown = _group(leader).engine.last_index
        for _ in range(5):
            await cluster.guarded(mixed.append(Outcome.OK), watch)
        await mixed.until(lambda: _group(leader).engine.base_index > unknown)
        cluster.network.heal_all()
        await asyncio.sleep(15.0)
        assert _group(old).applied_index == stood
        assert old.installs[BASIN] == 0
        assert not _group(old).is_serving
        await cluster.guarded(mixed.append(Outcome.OK), watch)
        await cluster.guarded(mixed.upgrade(old), watch)
        await cluster.guarded(mixed.whole(), watch)
        await cluster.guarded(mixed.judge(), watch)
        watch.cancel()
        assert old.installs[BASIN] == 1

    trimmed = replace(CALM, log_retention_seconds=2.0, flush_seconds=1.0)
    in_simulation(4, trimmed, main)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("old", [1, 2])
def test_upgrade_of_a_mixed_cluster_under_faults_loses_nothing(seed: int, old: int) -> None:
    """Crashes and partitions while some nodes are of the older release, which are upgraded one
    after the other in the midst of it: no acknowledged record is lost, no refused one is found, no
    two replicas come apart, and the cluster becomes whole."""

    async def main(cluster: SimCluster) -> Report:
        mixed = Mixed(cluster, old)
        for number, node in enumerate(mixed.old, start=2):
            cluster.loop.call_later(number * FAULTY.safety_s / 4, _upgrade, cluster, node)
        return await cluster.run()

    report = in_simulation(1000 + seed, FAULTY, main, expected=PARKED)
    assert report.acked > 0


def _upgrade(cluster: SimCluster, node: SimNode) -> None:
    node.knows(NEW)
    cluster.nemesis.crash(node, random.Random(node.node_id), 0.5)


def test_what_a_parked_replica_holds_in_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound it stops, says so once, and takes no more; the two of the newer release are
    a quorum and go on; upgraded, it catches up."""
    monkeypatch.setattr(held, "PARKED_BYTES_MAX", 20_000)

    async def main(cluster: SimCluster) -> None:
        mixed = Mixed(cluster, old=1)
        watch = cluster.start()
        await cluster.guarded(mixed.begin(), watch)
        await cluster.guarded(mixed.append(Outcome.OK, "token-1"), watch)
        await asyncio.sleep(1.0)
        (old,) = mixed.old
        assert _group(old).parked
        for _ in range(200):
            await cluster.guarded(mixed.append(Outcome.OK), watch)
        await asyncio.sleep(1.0)
        assert _group(old).fault.startswith("ParkedTooLongError")
        stood = _group(old).engine.last_index
        assert _group(old).parked_bytes < 200_000
        for _ in range(20):
            await cluster.guarded(mixed.append(Outcome.OK), watch)
        assert _group(old).engine.last_index == stood
        await cluster.guarded(mixed.upgrade(old), watch)
        await cluster.guarded(mixed.whole(), watch)
        await cluster.guarded(mixed.judge(), watch)
        watch.cancel()

    in_simulation(3, CALM, main, expected=(*PARKED, "group_stopped"))


def _bytes_in_memory(group: AnyGroup) -> int:
    """Payload that is decided and not applied, wherever the replica still holds it."""
    engine = group.engine
    assert isinstance(engine, EngineGroup)
    held = {
        entry.log_index: len(entry.payload)
        for entry in (*group._to_apply, *engine._log.entries)
        if group.applied_index < entry.log_index <= group.engine.commit_index
    }
    return sum(held.values())


def test_many_parked_groups_together_stay_within_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five basins grow alike behind what an older node does not know: at every look the memory of
    all of them, stopped ones too, is within the bound; each stops in its turn, and all catch up."""
    bound, rounds = 10_000, 25
    monkeypatch.setattr(held, "PARKED_BYTES_MAX", bound)
    options = replace(CALM, basins=5, streams=1)

    async def main(cluster: SimCluster) -> None:
        mixed = Mixed(cluster, old=1)
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        (old,) = mixed.old
        assert old.node is not None
        groups = [basin.group for basin in old.node.host.basins.values()]
        streams = range(len(cluster.recorder.streams))
        assert len(groups) == len(streams) == options.basins
        await mixed.until(lambda: not any(group.is_serving for group in groups), groups)
        for stream in streams:
            await cluster.guarded(mixed.append(Outcome.OK, f"token-{stream}", stream), watch)
        await asyncio.sleep(1.0)
        assert all(group.parked for group in groups)
        most = 0
        for _ in range(rounds):
            for stream in streams:
                await cluster.guarded(mixed.append(Outcome.OK, None, stream), watch)
            await asyncio.sleep(2.0)
            now = [_bytes_in_memory(group) for group in groups]
            assert sum(now) <= bound
            assert all(not size for size, group in zip(now, groups, strict=True) if group.stopped)
            most = max(most, sum(now))
        assert all(group.fault.startswith("ParkedTooLongError") for group in groups)
        assert most > bound // 2
        await cluster.guarded(mixed.upgrade(old), watch)
        await cluster.guarded(mixed.whole(), watch)
        for history in cluster.recorder.streams:
            cluster.judge(history, await cluster.read_all(history))
        watch.cancel()

    in_simulation(5, options, main, expected=(*PARKED, "group_stopped"))
