"""One node's wall clock is wrong by an hour or by ten years: nothing goes before its time."""

from __future__ import annotations

import asyncio
import random

import pytest

from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.stream.rows import StreamState
from tests.linearizability.history import Outcome
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.options import Options

BASIN = GroupId(CATALOG_GROUP + 1)
AGE_S = 30
EMPTY_S = 20
APPENDS = 5
RECORDS = 3
SLACK_S = 3.0
"""What expiry may take behind its time, in a basin that nobody uses."""

HOUR_MS = 3_600_000
TEN_YEARS_MS = 10 * 365 * 24 * HOUR_MS
OPTIONS = Options(gateways=1, http=False, basins=1, streams=1, tick_seconds=0.05)


class Trial:
    """Records that live for half a minute, an empty stream that lives for less, a deleted one."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.appended_at = 0.0

    def basin(self, node: SimNode) -> BasinReplica:
        assert node.node is not None, "nobody crashes here"
        return node.node.host.basins[BASIN]

    @property
    def leader(self) -> SimNode:
        return next(node for node in self.cluster.nodes if self.basin(node).group.is_serving)

    def other(self, than: SimNode) -> SimNode:
        return next(node for node in self.cluster.nodes if node is not than)

    def stream(self, node: SimNode, name: str = "stream-0") -> StreamState | None:
        return self.basin(node).state.stream_by_name(name)

    async def filled(self) -> None:
        cluster = self.cluster
        self.watch = cluster.start()
        right = cluster.gateways[0]._clock.wall_ms()
        for node in cluster.nodes:
            node.clock.step_wall(right - node.clock.wall_ms())
        await cluster.set_up()
        api, history = cluster.apis[0], cluster.recorder.streams[0]
        await api.reconfigure(history.basin, history.stream, {"retention": AGE_S})
        for name in ("empty", "deleted"):
            await api.create_stream(history.basin, name)
        rng, client = random.Random(cluster.seed), cluster.recorder.new_client()
        for _ in range(APPENDS):
            items = cluster.recorder.items(rng, client, RECORDS, 100)
            append = await cluster.recorder.append(api, history, client, items)
            assert append.outcome is Outcome.OK
        self.appended_at = cluster.loop.time()

    async def hand_to(self, node: SimNode) -> None:
        while not self.basin(node).group.is_serving:
            self.basin(self.leader).group.transfer_leadership(node.node_id)
            await asyncio.sleep(0.5)

    async def until_age(self, seconds: float) -> None:
        """The records' age then, while everything of them is there."""
        cluster = self.cluster
        while cluster.loop.time() < self.appended_at + seconds:
            await asyncio.sleep(0.5)
            await self.all_there()

    async def all_there(self) -> None:
        cluster = self.cluster
        for node in cluster.nodes:
            stream = self.stream(node)
            assert stream is not None
            assert stream.trim_point == 0, "expired early"
        basin, name = cluster.recorder.streams[0].basin, cluster.recorder.streams[0].stream
        page = await cluster.apis[0].read(basin, name, 0, 1_000)
        assert len(page.records) == APPENDS * RECORDS, "hidden early"

    async def all_gone(self) -> None:
        """On every node, within the slack; nobody has appended anything meanwhile."""
        await asyncio.sleep(max(0.0, self.appended_at + AGE_S - self.cluster.loop.time()))
        await asyncio.sleep(SLACK_S)
        for node in self.cluster.nodes:
            stream = self.stream(node)
            assert stream is not None
            assert stream.trim_point == stream.tail_seq_num == APPENDS * RECORDS

    def stopped(self, node: SimNode) -> int:
        assert node.node is not None
        return node.node.housekeeper.clock_watch.stopped

    async def follower_is_wrong(self, by_ms: int) -> None:
        await self.filled()
        self.other(self.leader).clock.step_wall(by_ms)
        await self.until_age(AGE_S - 1)
        await self.all_gone()

    async def leader_is_wrong(self, by_ms: int) -> None:
        """It expires nothing and says so; whoever leads after it does, at the right time."""
        await self.filled()
        cluster, basin = self.cluster, self.cluster.recorder.streams[0].basin
        wrong = self.leader
        await cluster.apis[0].reconfigure(basin, "empty", {"min_age": EMPTY_S})
        wrong.clock.step_wall(by_ms)
        await cluster.apis[0].delete_stream(basin, "deleted")
        await self.until_age(AGE_S + 10)
        assert self.leader is wrong
        assert self.stopped(wrong) > 0
        empty = self.stream(wrong, "empty")
        assert empty is not None
        assert empty.deleted_at_ms is None
        assert self.stream(wrong, "deleted") is None, "what its owner has deleted goes"
        await self.hand_to(self.other(wrong))
        await self.all_gone()
        empty = self.stream(self.leader, "empty")
        assert empty is None or empty.deleted_at_ms is not None
        assert self.stopped(self.leader) == 0

    async def wrong_becomes_leader(self, by_ms: int) -> None:
        await self.filled()
        wrong = self.other(self.leader)
        wrong.clock.step_wall(by_ms)
        await self.hand_to(wrong)
        await self.until_age(AGE_S + 5)
        assert self.stopped(wrong) > 0
        wrong.clock.step_wall(-by_ms)
        await self.all_gone()
        assert self.stopped(wrong) == 0

    async def nobody_tells(self) -> None:
        """The others are of a version that does not tell its clock."""
        for node in self.cluster.nodes:
            node.tells_its_clock = False
        await self.filled()
        await self.until_age(AGE_S + 5)
        assert self.stopped(self.leader) > 0

    async def one_is_gone(self) -> None:
        """Two clocks of three, which agree, are enough."""
        await self.filled()
        gone = self.other(self.leader)
        for node in self.cluster.nodes:
            if node is not gone:
                self.cluster.nemesis.cut(gone.node_id, node.node_id, both=True)
        await asyncio.sleep(AGE_S + SLACK_S)
        for node in self.cluster.nodes:
            stream = self.stream(node)
            assert stream is not None
            assert stream.trim_point == (0 if node is gone else APPENDS * RECORDS)


@pytest.mark.parametrize("by_ms", [HOUR_MS, TEN_YEARS_MS, -HOUR_MS])
@pytest.mark.parametrize("who", ["follower_is_wrong", "leader_is_wrong", "wrong_becomes_leader"])
def test_a_wrong_clock_lets_nothing_go_early_and_a_right_one_in_time(who: str, by_ms: int) -> None:
    """0 records expire early or are hidden, no empty stream is deleted; a basin in which nothing
    happens loses what is old as soon as a right clock leads it."""
    in_simulation(1, OPTIONS, lambda cluster: getattr(Trial(cluster), who)(by_ms))


def test_where_nobody_tells_the_time_nothing_expires() -> None:
    """An unknown clock is not one that agrees."""
    in_simulation(1, OPTIONS, lambda cluster: Trial(cluster).nobody_tells())


def test_two_clocks_of_three_are_enough() -> None:
    in_simulation(1, OPTIONS, lambda cluster: Trial(cluster).one_is_gone())
