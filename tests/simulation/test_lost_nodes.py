"""A node that comes back empty becomes whole without an operator; two that do are left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.replica.former import ASKING_SECONDS
from svc_cluster.replica.lost_nodes import AGAIN_SECONDS, LOOKS
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.replacement_scenario import EXPECTED, OPTIONS, Replacing

AGAIN_S = 60.0
HEALED_S = 40.0
UNASKED = replace(
    OPTIONS, replace_lost_nodes=True, constants=(("lost_nodes.AGAIN_SECONDS", AGAIN_S),)
)


def replaced(cluster: SimCluster) -> int:
    """Replacements that were made unasked, by the processes that run."""
    running = (node.node for node in cluster.nodes)
    return sum(one._lost_nodes.replaced for one in running if one is not None)


async def healed(replacing: Replacing, victim: SimNode, cluster: SimCluster) -> None:
    """Raises AssertionError."""
    end = cluster.loop.time() + HEALED_S
    while not replacing.is_whole(victim):
        assert cluster.loop.time() < end, "it became whole by itself"
        await asyncio.sleep(0.1)


def catalog_leader(cluster: SimCluster) -> SimNode:
    for node in cluster.nodes:
        catalog = None if node.node is None else node.node.host.catalog
        if catalog is not None and catalog.group.is_serving:
            return node
    raise AssertionError("somebody leads the catalog")


async def one_is_lost(cluster: SimCluster) -> None:
    """Whoever it is, the catalog's leader too; and what was written is there."""
    replacing = Replacing(cluster, 0)
    watch = await replacing.begin()
    victim = catalog_leader(cluster)
    replacing.lose(victim)
    await cluster.guarded(healed(replacing, victim, cluster), watch)
    assert replaced(cluster) == 1
    watch.cancel()


async def two_are_lost(cluster: SimCluster) -> None:
    """Of five: neither gets its place, however long they ask, until one has its directory back;
    then the other one heals."""
    replacing = Replacing(cluster, 0)
    watch = await replacing.begin()
    leader = catalog_leader(cluster)
    first, second = [node for node in cluster.nodes if node is not leader][:2]
    old = replacing.lose(first)
    replacing.lose(second)
    await cluster.guarded(asyncio.sleep(30.0), watch)
    assert replaced(cluster) == 0
    replacing.power_off(first)
    old.put_into(cluster, first)
    await cluster.guarded(healed(replacing, second, cluster), watch)
    assert replaced(cluster) == 1
    watch.cancel()


async def one_is_lost_and_one_is_away(cluster: SimCluster) -> None:
    """Of five: the lost one waits until the other is back and whole."""
    replacing = Replacing(cluster, 0)
    watch = await replacing.begin()
    leader = catalog_leader(cluster)
    first, away = [node for node in cluster.nodes if node is not leader][:2]
    held = replacing.power_off(away)
    replacing.lose(first)
    await cluster.guarded(asyncio.sleep(30.0), watch)
    assert replaced(cluster) == 0
    held.put_into(cluster, away)
    await cluster.guarded(healed(replacing, first, cluster), watch)
    watch.cancel()


async def one_is_lost_again(cluster: SimCluster) -> None:
    """At once: somebody has time to find out why, and then it heals as before."""
    replacing = Replacing(cluster, 0)
    watch = await replacing.begin()
    leader = catalog_leader(cluster)
    victim = next(node for node in cluster.nodes if node is not leader)
    replacing.lose(victim)
    await cluster.guarded(healed(replacing, victim, cluster), watch)
    replacing.lose(victim)
    await cluster.guarded(asyncio.sleep(AGAIN_S / 2), watch)
    assert replaced(cluster) == 1
    await cluster.guarded(asyncio.sleep(AGAIN_S / 2), watch)
    await cluster.guarded(healed(replacing, victim, cluster), watch)
    watch.cancel()


async def most_are_lost(cluster: SimCluster) -> None:
    """Two of three: no majority knows anything, so nothing is given away and nothing served."""
    replacing = Replacing(cluster, 0)
    watch = await replacing.begin()
    watch.cancel()
    for node in cluster.nodes[:2]:
        replacing.lose(node)
    await asyncio.sleep(30.0)
    assert replaced(cluster) == 0
    for node in cluster.nodes:
        assert node.node is not None
        assert not any(one.group.is_serving for one in node.node.host.replicas())
    for node in cluster.nodes[:2]:
        assert node.node is not None
        assert node.node.why_not_formed()


@pytest.mark.parametrize(
    ("nodes", "play"),
    [
        (3, one_is_lost),
        (5, two_are_lost),
        (5, one_is_lost_and_one_is_away),
        (3, one_is_lost_again),
        (3, most_are_lost),
    ],
    ids=["one", "two", "one-away", "again", "most"],
)
def test_lost_nodes_are_replaced_unasked(
    nodes: int, play: Callable[[SimCluster], Awaitable[None]]
) -> None:
    assert AGAIN_SECONDS == 600.0
    in_simulation(3, replace(UNASKED, nodes=nodes), play, expected=EXPECTED)


@pytest.mark.parametrize("looks", range(LOOKS))
def test_a_directory_that_is_gone_gets_no_place(looks: int) -> None:
    """A node ran on what was below its mount, and is stopped behind so many looks: while nothing
    runs nobody is given its place, unasked or by an operator. With the directory that it always had
    it takes part."""

    async def run(cluster: SimCluster) -> None:
        replacing = Replacing(cluster, 0)
        watch = await replacing.begin()
        leader = catalog_leader(cluster)
        victim = next(node for node in cluster.nodes if node is not leader)
        old = replacing.lose(victim)
        async with asyncio.timeout(10.0):
            while not (is_heard(leader, victim) and looked(leader) == looks):
                await asyncio.sleep(0.001)
        replacing.power_off(victim)
        assert replaced(cluster) == 0
        await cluster.guarded(asyncio.sleep(ASKING_SECONDS), watch)
        refused = await refusal_of(leader, victim)
        assert "is not there any more" in refused
        await cluster.guarded(asyncio.sleep(9.0), watch)
        assert replaced(cluster) == 0
        old.put_into(cluster, victim)
        await cluster.guarded(asyncio.sleep(5.0), watch)
        assert victim.node is not None
        assert victim.node.refusal() is None
        assert not victim.node.why_not_formed()
        assert victim.node.former.formation.record.ordinal == 0
        watch.cancel()

    in_simulation(11, UNASKED, run, expected=EXPECTED)


def is_heard(leader: SimNode, victim: SimNode) -> bool:
    """Whether the leader was told that the victim has come up empty."""
    return leader.node is not None and victim.config.node_id in leader.node.host.asking()


def looked(leader: SimNode) -> int:
    """Looks in a row at which somebody asked to be replaced."""
    assert leader.node is not None
    return leader.node._lost_nodes._looks


async def refusal_of(leader: SimNode, victim: SimNode) -> str:
    """What an operator is told who asks for the victim to be replaced."""

    def fill(request: pb.Request) -> None:
        request.replace_node.node_id = victim.node_id

    assert leader.node is not None
    response = await leader.node.ask_catalog(fill)
    assert response is not None
    return response.refusal.message


def test_without_the_setting_nobody_is_replaced_unasked() -> None:
    """It waits for an operator, as long as it takes."""

    async def run(cluster: SimCluster) -> None:
        replacing = Replacing(cluster, 0)
        watch = await replacing.begin()
        replacing.lose(cluster.nodes[2])
        await cluster.guarded(asyncio.sleep(30.0), watch)
        assert replaced(cluster) == 0
        await cluster.guarded(replacing.replace(cluster.nodes[2]), watch)
        watch.cancel()

    in_simulation(3, OPTIONS, run, expected=EXPECTED)
