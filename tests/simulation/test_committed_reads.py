"""Reads for which what is committed is enough ask no quorum, and say nothing that needs one."""

from __future__ import annotations

import asyncio
from itertools import product

import pytest

from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from svc_cluster.model.read_bounds import ReadBounds, ReadStart, StartKind
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.read import ReadAnswer, ReadRequest
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


def _request(start: int, *, committed: bool, wait_ms: int = 0) -> ReadRequest:
    at = ReadStart(StartKind.SEQ_NUM, start)
    return ReadRequest(
        NAMES[1], at, ReadBounds(), refuse_at_tail=False, wait_ms=wait_ms, committed=committed
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


def test_who_does_not_lead_reads_nothing() -> None:
    """Also not what it has applied: it would wait for records that it hears of late."""

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        leader = await _cut_off(cluster)
        follower = next(node for node in cluster.nodes if node is not leader)
        with pytest.raises(ServiceError):
            await _basin(follower).reader.read(_request(0, committed=True))
        watch.cancel()

    in_simulation(5, ONE_BASIN, main)
