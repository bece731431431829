"""Basins move from node to node while clients append to them, nodes crash and links are cut."""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import replace

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.administration import cluster_calls
from svc_cluster.base.ids import GroupId
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.catalog.own_group import CatalogGroup
from svc_cluster.replica.change_driver import WISHED_SECONDS
from tests.linearizability.history import Outcome
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.mover import BASIN, NAME, Mover, free_nodes
from tests.simulation.moves_scenario import (
    OPTIONS,
    STEPS_SEED,
    play_move,
    play_wandering,
)
from tests.simulation.node import Luck, SimNode

STEPS_EVERY = int(os.environ.get("MOVE_STEPS_EVERY", "30"))
FOUND_S = 2.5
"""More than an election takes, and less than a request's deadline."""
SEEDS = range(1, 1 + int(os.environ.get("MOVE_SEEDS", "2")))


async def begun(
    cluster: SimCluster,
) -> tuple[Mover, asyncio.Task[None], BasinRecord | CatalogGroup]:
    """Who moves the basin, the watch of the checkers, and where the basin is at first."""
    mover = Mover(cluster)
    watch = await mover.begin()
    row = mover.record()
    assert row is not None
    return mover, watch, row


def test_a_basin_moves_away_and_back_under_load() -> None:
    """One replica at a time, until two are elsewhere; then all the way back. Nothing is lost, and
    who is no member any more keeps nothing."""

    async def run(cluster: SimCluster) -> None:
        mover, watch, row = await begun(cluster)
        first = [*map(int, row.replicas)]
        writers = [cluster.loop.create_task(mover.load(n)) for n in range(2)]
        free = free_nodes(mover)

        async def moves() -> None:
            await mover.move(first[0], first[1], free[0])
            await mover.move(first[0], free[1], free[0])
            await mover.move(first[0], free[1], first[2])
            await mover.move(*first)

        await cluster.guarded(moves(), watch, *writers)
        mover.stopping = True
        for writer in writers:
            await cluster.guarded(asyncio.wait_for(writer, 20.0), watch)
        await cluster.guarded(mover.finish(), watch)
        last = mover.record()
        assert last is not None
        assert (last.configuration, last.replicas) == (4, tuple(first))
        assert mover.acked > 20
        watch.cancel()

    in_simulation(1, OPTIONS, run)


@pytest.mark.parametrize("role", ["new", "leaves", "stays"])
def test_a_node_that_crashes_at_any_step_of_a_move_delays_it_only(role: str) -> None:
    """Power fails right behind an effect on its disk or store: the move goes through, every record
    that was acknowledged is there, and only the members have a copy."""
    steps = play_move(STEPS_SEED, role)
    assert steps.configurations == 1
    assert {"log submit", "log durable", "store write"} <= {*steps.effects}
    for number in range(0, len(steps.effects), STEPS_EVERY):
        luck = Luck(number % 2 == 0, 0.0 if number % 2 else 1.0)
        played = play_move(STEPS_SEED, role, number, luck)
        assert played.hit, f"step {number} was not reached"
        assert played.configurations >= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_basins_that_move_under_faults_lose_nothing(seed: int) -> None:
    """Moves that are begun and given up again and again; then one goes through."""
    assert play_wandering(seed).configurations >= 2


def leads(cluster: SimCluster, group_id: GroupId, wanted: SimNode) -> bool:
    """Whether this node leads the group; who leads it instead is asked to hand it over."""
    for node in cluster.nodes:
        basin = None if node.node is None else node.node.host.basins.get(group_id)
        if basin is not None and basin.group.is_serving:
            if node is wanted:
                return True
            basin.group.transfer_leadership(wanted.node_id)
    return False


def test_a_gateway_that_knows_where_a_basin_was_finds_it_when_its_leader_dies() -> None:
    """It was on three nodes, and two of them have left the group since. The third leads it, which
    was enough to know, and dies: the others are found within an election, not at a deadline."""

    async def run(cluster: SimCluster) -> None:
        mover, watch, row = await begun(cluster)
        first = [*map(int, row.replicas)]
        api, history = cluster.apis[0], cluster.recorder.streams[0]
        client = cluster.recorder.new_client()

        async def append() -> float:
            begun = cluster.loop.time()
            items = cluster.recorder.items(mover.rng, client, 1, 10)
            done = await cluster.recorder.append(api, history, client, items)
            assert done.outcome is Outcome.OK
            return cluster.loop.time() - begun

        async def play() -> None:
            await append()
            free = free_nodes(mover)
            for replicas in ((first[0], first[1], free[0]), (first[0], free[1], free[0])):
                await mover.move(*replicas)
            leader = next(node for node in cluster.nodes if int(node.node_id) == first[0])
            await mover.until("it leads", lambda: leads(cluster, row.group_id, leader))
            await append()
            cluster.nemesis.crash(leader, random.Random(1), 20.0)
            await asyncio.sleep(0.01)  # what is under way at the death is not known to be done
            assert await append() < FOUND_S

        await cluster.guarded(play(), watch)
        await cluster.guarded(mover.finish(), watch)
        watch.cancel()

    in_simulation(2, OPTIONS, run)


def test_a_basin_at_rest_moves() -> None:
    """It wakes for that: at rest its members would not be heard, and the change waited for ever."""

    async def run(cluster: SimCluster) -> None:
        mover = Mover(cluster)
        watch = await mover.begin()

        def is_asleep() -> bool:
            hosts = [node.node.host for node in cluster.nodes if node.node is not None]
            copies = [host.basins[BASIN] for host in hosts if BASIN in host.basins]
            return len(copies) == 3 and all(copy.group.rest.asleep for copy in copies)

        await cluster.guarded(mover.until("it rests", is_asleep), watch)
        row = mover.record()
        assert row is not None
        begun = cluster.loop.time()
        to = (*map(int, row.replicas[:2]), free_nodes(mover)[0])
        await cluster.guarded(mover.move(*to), watch)
        assert cluster.loop.time() - begun < 5.0
        await cluster.guarded(mover.until("it rests again", is_asleep), watch)
        await cluster.guarded(mover.finish(), watch)
        watch.cancel()

    in_simulation(1, replace(OPTIONS, rest_seconds=1.0), run)


def test_a_copy_stays_until_the_one_that_takes_its_place_is_there() -> None:
    """The node that is to have the replica is down: the change waits, and three copies are left."""

    async def run(cluster: SimCluster) -> None:
        mover, watch, row = await begun(cluster)
        first = [*map(int, row.replicas)]
        away = free_nodes(mover)[0]
        victim = next(node for node in cluster.nodes if node.node_id == away)
        cluster.nemesis.crash(victim, random.Random(1), 60.0)
        await asyncio.sleep(1.0)
        await mover.ask(first[0], first[1], away)
        waited = 0
        while victim.node is None:
            await asyncio.sleep(0.1)
            waited += victim.node is None
            assert first[2] in mover.holders(), mover.told()
        assert waited > 200, "it was away for longer than anybody is waited for"
        watch.cancel()

    in_simulation(1, OPTIONS, run)


@pytest.mark.parametrize("is_allowed", [False, True])
def test_a_copy_that_is_damaged_before_it_is_a_member_goes_with_its_change(
    is_allowed: bool,
) -> None:
    """Nothing mends who is no member. The change is given up, whether its seal had leave already or
    not; the copy goes, and asked again the basin moves to a whole one under another number."""

    async def run(cluster: SimCluster) -> None:
        mover, watch, row = await begun(cluster)
        first = [*map(int, row.replicas)]
        new = free_nodes(mover)[0]
        node = next(one for one in cluster.nodes if one.node_id == new)
        assert node.node is not None
        lost = node.node.host.lost
        lost.settle = lambda: None  # type: ignore[method-assign]
        lost.are_possible = True  # its log has lost frames, and may have had the group
        await mover.ask(first[0], first[1], new)
        await mover.until("everybody knows of it", lambda: not mover.is_still())
        if is_allowed:
            await _allow(mover)
        replica_ids = set()

        def is_damaged() -> bool:
            assert node.node is not None
            row, copy = mover.record(), node.node.host.basins.get(BASIN)
            if row is not None and row.change is not None:
                replica_ids.add(row.change.replica_ids[-1])
            return copy is not None and bool(copy.group.engine.recovery)

        await mover.until("the copy is damaged", is_damaged)
        del lost.settle
        lost.settle()
        await mover.until("given up", mover.is_still)
        after = mover.record()
        assert after is not None
        assert [*map(int, after.replicas)] == first
        await asyncio.sleep(2 * WISHED_SECONDS)
        shown = await node.within(cluster_calls.basin(node.node, NAME))
        to = f"{first[0]}, {first[1]}, {new}"
        reason = f"the new replica on node {new} is damaged"
        assert shown.last_move == f"the move to {to} was given up: {reason}"
        assert not shown.HasField("move")
        await mover.until("the copy is gone", lambda: new not in mover.holders())
        await cluster.guarded(mover.move(first[0], first[1], new), watch)
        after = mover.record()
        assert after is not None
        shown = await node.within(cluster_calls.basin(node.node, NAME))
        assert shown.last_move == "", "another one was begun since"
        assert replica_ids
        assert not replica_ids & {*after.placements}
        await cluster.guarded(mover.finish(), watch)
        watch.cancel()

    in_simulation(1, OPTIONS, run, expected=("replica_recovering",))


async def _allow(mover: Mover) -> None:
    """A leader of the group has said that it would seal, and has leave since."""
    row = mover.record()
    assert row is not None
    assert row.change is not None
    change_id, replicas = row.change.change_id, row.replicas
    nodes = [node.node for node in mover.cluster.nodes if node.node_id in replicas]
    groups = [node.host.basins[BASIN].group for node in nodes if node is not None]
    term = max(group.engine.term for group in groups)

    def fill(request: pb.Request) -> None:
        said = request.report_change
        said.group_id, said.change_id, said.term = BASIN, change_id, term
        said.step = pb.CHANGE_STEP_READY

    assert nodes[0] is not None
    assert await nodes[0].ask_catalog(fill) is not None
    await mover.until("nobody seals without leave", lambda: mover.leave() == term)
