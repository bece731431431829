"""Nodes whose disks are lost are replaced under load: nothing acknowledged is lost, no node votes
twice, no directory is heard behind the one that took its place, and each becomes whole."""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import replace

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.ids import NodeId
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec.peer_message import encode_envelope
from svc_cluster.link.calls import CallError, Verb, encode
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.handshake import NotYetError
from svc_cluster.model.places import Place, Places
from svc_cluster.model.stream_config import BasinConfig
from svc_cluster.replica.link_server import PeerCaller
from svc_cluster.replica.node_questions import FIGURES, overviews
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.node import Luck, SimNode
from tests.simulation.replacement_scenario import EXPECTED, OPTIONS, Replacing, replace_disks

SEEDS = int(os.environ.get("REPLACEMENT_SEEDS", "3"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_disks_are_lost_and_old_ones_return(seed: int) -> None:
    """Two replacements in a row, with crashes at random moments."""
    told = replace_disks(seed)
    assert told.replacements == 2 and told.acked > 10


def test_a_replaced_node_recovers_all_that_it_had_and_its_old_disk_is_refused() -> None:
    """Each of its replicas counts for nothing before a snapshot; only then is the replacement over.
    The old disk says that it is refused for ever, is not ready, and is so at its next start too."""

    async def run(cluster: SimCluster) -> None:
        replacing = Replacing(cluster, 0)
        watch = await replacing.begin()
        victim = cluster.nodes[2]
        old = replacing.lose(victim)
        task = cluster.loop.create_task(replacing.replace(victim))
        looks = 0
        while not (task.done() and replacing.is_whole(victim)):
            looks += _look_at(victim, is_over=task.done() and replacing.is_whole(victim))
            await cluster.guarded(asyncio.sleep(0.005), watch)
        await task
        assert looks > 10, "it was seen while it recovered"
        _look_at(victim, is_over=True)
        replacing.power_off(victim)
        for _ in range(2):
            old.put_into(cluster, victim)
            await cluster.guarded(asyncio.sleep(8.0), watch)
            assert victim.node is not None
            assert "refused for ever" in (victim.node.refusal() or "")
            assert not victim.node.readiness()["formed"]
            replacing.power_off(victim)
        assert victim.disk.files, "nothing of the old disk is taken away"
        watch.cancel()

    in_simulation(5, OPTIONS, run, expected=EXPECTED)


def _look_at(victim: SimNode, *, is_over: bool) -> bool:
    """Whether some replica recovers at this moment."""
    if victim.node is None or not victim.node.former.formation.is_open:
        return False
    groups = [replica.group for replica in victim.node.host.replicas()]
    for group in groups:
        assert group.engine.recovery or group.engine.base_index, "it began as one of nothing"
    recovers = any(group.engine.recovery for group in groups)
    assert not (is_over and recovers), "the replacement was over before"
    return recovers


def test_the_fence_is_on_the_disk_before_it_counts_and_ends_what_was_said_before() -> None:
    """A node that says that it knows of a place still does after its power failed. It talks to
    nobody who knows another list, in neither direction, and hears nothing more of a conversation
    that began before."""

    async def run(cluster: SimCluster) -> None:
        replacing = Replacing(cluster, 0)
        watch = await replacing.begin()
        first, second = cluster.nodes[:2]
        assert first.node is not None and second.node is not None
        caller = PeerCaller(first.node, second.node.speaker().identity, Nowhere(), Tasks())
        message = encode_envelope(encode(Verb.PEER, 0), [], None)
        caller.message(FrameKind.URGENT, message)
        before = second.node.speaker()
        first.node.check_raft(before)
        given: Places = (Place(NodeId(3), 1, "f" * 32),)
        first.node.former.learn(given)
        while first.node.speaker().places != given:
            await asyncio.sleep(0.0002)
        with pytest.raises(CallError):
            caller.message(FrameKind.URGENT, message)
        with pytest.raises(NotYetError):
            first.node.check_raft(before)
        knowing = first.node.speaker()
        if second.node.speaker().places != given:
            with pytest.raises(NotYetError):
                second.node.check_raft(knowing)
        first.crash(random.Random(1), Luck(log=False))
        first.start()
        assert first.node is not None and first.node.speaker().places == given
        while second.node.speaker().places != given:
            await cluster.guarded(asyncio.sleep(0.05), watch)
        second.node.check_raft(knowing)
        watch.cancel()

    in_simulation(6, OPTIONS, run, expected=EXPECTED)


class Nowhere:
    """A caller that waits for no answer."""

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None: ...

    def waiting_bytes(self, kind: FrameKind) -> int:
        return 0

    def give_up(self, reason: str) -> None:
        raise AssertionError(reason)

    def dealt_with(self, kind: FrameKind, size: int) -> None: ...


def test_basins_of_one_replica_that_are_lost_keep_nothing_from_going_on() -> None:
    """The operator who gives the place away is told which they are, and has to say so. Then they
    count as lost, and not as about to be whole: leads are evened and other nodes are replaced. They
    are deleted like others, though nobody leads them, and their names are free again."""

    async def run(cluster: SimCluster) -> None:
        replacing = Replacing(cluster, 0)
        watch = await replacing.begin()
        names = [f"alone-{number}" for number in range(3)]
        for name in names:
            await created_alone(cluster, name)
        leader = replacing.catalog_leader()
        victim = next(node for node in cluster.nodes if node is not leader)
        rows = replacing.catalog_of(leader).state.basins
        mine = [name for name in names if victim.node_id in rows[name].replicas]
        assert mine, "they are spread"
        replacing.lose(victim)
        refused = await replacing.given_away(victim)
        assert refused.refused
        assert list(refused.lost_basins) == mine
        told = await replacing.given_away(victim, also_lost=True)
        assert not told.refused
        await replacing.until(lambda: replacing.is_whole(victim), "whole")

        async def seen() -> pb.NodeOverview:
            asking = replacing.catalog_leader()
            assert asking.node is not None
            ask = asking.node.host.ask_any
            nodes = [NodeId(1), NodeId(2), NodeId(3)]
            found = await asking.within(overviews(ask, nodes, FIGURES))
            return found[victim.node_id]

        one = await seen()
        assert one.groups_lost == len(mine)
        assert not one.groups_recovering
        assert not one.groups_without_leader
        assert not one.failed_checks
        for name in mine:
            await cluster.insist(lambda api, name=name: api.delete_basin(name))

        def are_gone() -> bool:
            rows = replacing.catalog_of(replacing.catalog_leader()).state.basins
            return not any(name in rows for name in mine)

        await replacing.until(are_gone, "the lost basins are deleted")
        assert not (await seen()).groups_lost
        await created_alone(cluster, mine[0])
        await cluster.insist(lambda api: api.create_stream(mine[0], "again"))
        watch.cancel()

    expected = (*EXPECTED, "replica_cannot_recover")
    in_simulation(3, replace(OPTIONS, gateways=1), run, expected=expected)


async def created_alone(cluster: SimCluster, name: str) -> None:
    """A basin with one replica is there."""
    (gateway,) = cluster.gateways
    while True:
        try:
            await gateway.ask(
                lambda parts: parts.backend.create_basin(name, BasinConfig(), replication_factor=1)
            )
        except UnavailableError:
            await asyncio.sleep(0.2)
        else:
            return
