"""Reads for which what is committed is enough ask no quorum, and say nothing that needs one."""

from __future__ import annotations

import asyncio
from itertools import product

import pytest

from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from svc_cluster.gateway.cluster.backend import ReadResult
from svc_cluster.model.read_bounds import ReadBounds, ReadStart, StartKind
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.read import ReadAnswer, ReadRequest
from svc_cluster.replica.retention_clock import CLOCK_FRESH_SECONDS
from tests.simulation.adapters import addresses_of
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.options import Options
from tests.simulation.workload import Item

BASIN = GroupId(CATALOG_GROUP + 1)
NAMES = ("basin-000", "stream-0")
MOMENT_S = 0.2
"""Less than a leader without a quorum takes to give up."""
ONE_BASIN = Options(gateways=1, http=False, basins=1, streams=1)


def _basin(node: SimNode) -> BasinReplica:
    assert node.node is not None, "nobody crashes here"
    return node.node.host.basins[BASIN]


def _request(start: int, *, committed: bool, wait_ms: int = 0, at_least: int = 0) -> ReadRequest:
    return ReadRequest(
        NAMES[1],
        ReadStart(StartKind.SEQ_NUM, start),
        ReadBounds(),
        refuse_at_tail=False,
        wait_ms=wait_ms,
        committed=committed,
        at_least=at_least,
    )


async def _cut_off(cluster: SimCluster) -> SimNode:
    """The leader of a stream of three records, which no other node hears or can be heard by."""
    await cluster.set_up()
    for number in range(3):
        await cluster.apis[0].append(*NAMES, [Item(f"{number}")])
    leader = next(node for node in cluster.nodes if _basin(node).group.is_serving)
    for other in cluster.nodes:
        if other is not leader:
            for one, another in product(addresses_of(leader.node_id), addresses_of(other.node_id)):
                cluster.network.cut(one, another)
    return leader


async def _at_once(node: SimNode, request: ReadRequest) -> ReadAnswer | None:
    """The answer; None: there is none in a moment."""
    try:
        async with asyncio.timeout(MOMENT_S):
            return await _basin(node).reader.read(request)
    except TimeoutError:
        return None


def test_what_is_committed_is_read_without_a_quorum() -> None:
    """By a leader that hears from nobody: records that it has applied, for as long as it is not
    told better. A read as of now waits for a quorum, as does one of what it does not have yet."""

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        leader = await _cut_off(cluster)
        found = await _at_once(leader, _request(1, committed=True))
        assert found is not None
        assert [batch.placement.first_seq_num for batch in found.batches] == [1, 2]
        assert found.tail.seq_num == 3
        assert await _at_once(leader, _request(1, committed=False)) is None
        assert await _at_once(leader, _request(4, committed=True)) is None
        assert await _at_once(leader, _request(1, committed=True, at_least=found.applied_index))
        later = _request(1, committed=True, at_least=found.applied_index + 1)
        assert await _at_once(leader, later) is None, "others may have gone on"
        watch.cancel()

    in_simulation(3, ONE_BASIN, main)


def test_a_tail_without_records_is_never_told_without_a_quorum() -> None:
    """The wait of one that leads no longer ends with a refusal, not with the tail that it knew."""

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        leader = await _cut_off(cluster)
        with pytest.raises(ServiceError):
            await _basin(leader).reader.read(_request(3, committed=True, wait_ms=100))
        watch.cancel()

    in_simulation(4, ONE_BASIN, main)


def test_who_does_not_lead_reads_nothing_unless_its_asker_says_what_it_has_seen() -> None:
    """Also not what it has applied: it would wait for records that it hears of late."""

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        leader = await _cut_off(cluster)
        follower = next(node for node in cluster.nodes if node is not leader)
        with pytest.raises(ServiceError):
            await _basin(follower).reader.read(_request(0, committed=True))
        watch.cancel()

    in_simulation(5, ONE_BASIN, main)


async def _apart(cluster: SimCluster, records: int = 3) -> tuple[SimNode, SimNode, ReadAnswer]:
    """The leader of a stream, a node that follows it and hears nobody any more, and a read of the
    whole stream by the leader, which that node has applied as far."""
    await cluster.set_up()
    for number in range(records):
        await cluster.apis[0].append(*NAMES, [Item(f"{number}")])
    leader = next(node for node in cluster.nodes if _basin(node).group.is_serving)
    follower = next(node for node in cluster.nodes if node is not leader)
    seen = await _basin(leader).reader.read(_request(0, committed=False))
    while _basin(follower).state.applied_index < seen.applied_index:
        await asyncio.sleep(0.01)
    for other in cluster.nodes:
        if other is not follower:
            pairs = product(addresses_of(follower.node_id), addresses_of(other.node_id))
            for one, another in pairs:
                cluster.network.cut(one, another)
    return leader, follower, seen


def test_who_follows_reads_below_what_its_asker_has_seen() -> None:
    """Without a word to anybody: what it has applied is committed. The answer is the leader's."""

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        _, follower, seen = await _apart(cluster)
        assert 0 < seen.applied_index == _basin(follower).state.applied_index
        at_least = seen.applied_index
        found = await _at_once(follower, _request(1, committed=True, at_least=at_least))
        assert found is not None
        assert found.batches == seen.batches[1:]
        assert (found.tail, found.stream_id) == (seen.tail, seen.stream_id)
        assert found.applied_index == seen.applied_index
        watch.cancel()

    in_simulation(6, ONE_BASIN, main)


def test_who_follows_reads_nothing_that_might_be_older_than_what_was_seen() -> None:
    """One entry behind, at its own tail, which only who leads knows, or not asked as of an entry:
    it refuses, as it does a read that wants what is there now. Who cannot tell what has expired
    refuses too."""

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        leader, follower, seen = await _apart(cluster)
        at_least = seen.applied_index
        refused = [
            _request(1, committed=True, at_least=at_least + 1),
            _request(3, committed=True, at_least=at_least),
            _request(3, committed=True, at_least=at_least, wait_ms=100),
            _request(1, committed=False, at_least=at_least),
            _request(1, committed=True),
        ]
        for request in refused:
            with pytest.raises(ServiceError):
                await _basin(follower).reader.read(request)
        cluster.network.heal_all()
        await cluster.apis[0].append(*NAMES, [Item("3")])
        again = await _basin(leader).reader.read(_request(0, committed=False))
        assert again.applied_index > at_least, "it tells what it has seen"
        await asyncio.sleep(CLOCK_FRESH_SECONDS / 2)
        for other in cluster.nodes:
            for one, another in product(
                addresses_of(follower.node_id), addresses_of(other.node_id)
            ):
                if other is not follower:
                    cluster.network.cut(one, another)
        await asyncio.sleep(CLOCK_FRESH_SECONDS + 1.0)
        with pytest.raises(ServiceError):
            await _basin(follower).reader.read(_request(1, committed=True, at_least=at_least))
        watch.cancel()

    in_simulation(7, ONE_BASIN, main)


def test_a_gateway_asks_all_replicas_in_turn_and_the_leader_where_one_refuses() -> None:
    """A node that is cut off has nothing new: the answer is of now all the same."""

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        _, follower, seen = await _apart(cluster)
        (gateway,) = cluster.gateways

        async def read(behind: int) -> ReadResult:
            return await gateway.ask(
                lambda process: process.backend.read(
                    *NAMES,
                    ReadStart(StartKind.SEQ_NUM, 1),
                    ReadBounds(),
                    refuse_at_tail=False,
                    wait_ms=0,
                    committed=True,
                    behind=behind,
                )
            )

        def answers() -> list[int]:
            return [_basin(node).reader.reads for node in cluster.nodes]

        before = answers()
        for _ in range(6):
            found = await read(seen.applied_index)
            assert list(found.batches) == seen.batches[1:]
            assert found.seen == seen.applied_index
        grown = [now - then for now, then in zip(answers(), before, strict=True)]
        assert grown == [2, 2, 2]
        await cluster.apis[0].append(*NAMES, [Item("3")])
        newest = await read(0)
        assert newest.seen > seen.applied_index
        before = answers()
        for _ in range(6):
            found = await read(newest.seen)
            assert found.batches == newest.batches and len(found.batches) == 3
        grown = [now - then for now, then in zip(answers(), before, strict=True)]
        assert grown[cluster.nodes.index(follower)] == 0
        assert sum(grown) == 6
        watch.cancel()

    in_simulation(8, ONE_BASIN, main)
