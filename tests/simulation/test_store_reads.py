"""Reads of the state store that have to wait for the disk: nobody else waits with them, and what
goes meanwhile is missed by nobody."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from svc_cluster.base.ids import CATALOG_GROUP, GroupId, SeqNum, StreamId
from svc_cluster.base.write_set import WriteSet
from svc_cluster.codec.rpc import NotLeaderHereError
from svc_cluster.model.read_bounds import ReadBounds, ReadStart, StartKind
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.keeper import StreamKeeper
from svc_cluster.replica.prefixed import generation_prefix
from svc_cluster.replica.read import ReadRequest
from svc_cluster.stream import keys
from tests.simulation.api import GoneError, NoEffectError, UnknownOutcomeError
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.options import Options
from tests.simulation.workload import Item

COLD, OTHER = GroupId(CATALOG_GROUP + 1), GroupId(CATALOG_GROUP + 2)
COLD_NAMES, OTHER_NAMES = ("basin-000", "stream-0"), ("basin-001", "stream-0")
DISK_READ_S = 0.005
BATCHES = 60
SCANNERS = 3
WRITERS = 4
LOAD_S = 8.0


def _scheduled(keeper: StreamKeeper) -> int:
    """Streams that have a due time."""
    return len(keeper._timetable) + len(keeper._soon)


def _basin(node: SimNode, group_id: GroupId) -> BasinReplica:
    assert node.node is not None, "nobody crashes here"
    return node.node.host.basins[group_id]


def _leader(cluster: SimCluster, group_id: GroupId) -> SimNode:
    return next(node for node in cluster.nodes if _basin(node, group_id).group.is_serving)


def _batches_of(node: SimNode, group_id: GroupId) -> Callable[[bytes], bool]:
    """Whether a key is that of a batch of the only stream of this basin."""
    basin = _basin(node, group_id)
    prefix = generation_prefix(basin.group.generation)
    (stream,) = basin.state.list_streams("", "", 9)[0]
    low, high = keys.batches_range(stream.stream_id)
    return lambda key: prefix + low <= key < prefix + high


async def _while_scanned(cluster: SimCluster, read_s: float) -> tuple[list[float], int, int]:
    """Milliseconds of the appends to one basin while another is read over and over, whose batches
    are on the disk alone; how many records were read; how often leadership changed."""
    cluster.start().cancel()
    await cluster.set_up()
    api, loop = cluster.apis[0], cluster.loop
    for number in range(BATCHES):
        await api.append(*COLD_NAMES, [Item(f"{number}-{one}-" + "x" * 4_000) for one in range(5)])
    for node in cluster.nodes:
        node.store.on_disk = _batches_of(node, COLD)
        node.store.read_s = read_s
    terms = [_basin(node, one).group.engine.term for node in cluster.nodes for one in (COLD, OTHER)]
    took: list[float] = []
    read = 0

    end = loop.time() + LOAD_S

    async def scan() -> None:
        nonlocal read
        at = 0
        while loop.time() < end:
            page = await api.read(*COLD_NAMES, at, 1_000)
            at = (at + len(page.records)) % (5 * BATCHES)
            read += len(page.records)
            # the disk has something to do all the time, however fast it is
            await asyncio.sleep(0.005)

    async def write() -> None:
        while loop.time() < end:
            begun = loop.time()
            await api.append(*OTHER_NAMES, [Item("other")])
            took.append(1000 * (loop.time() - begun))

    await asyncio.gather(*(scan() for _ in range(SCANNERS)), *(write() for _ in range(WRITERS)))
    after = [_basin(node, one).group.engine.term for node in cluster.nodes for one in (COLD, OTHER)]
    return sorted(took), read, sum(map(int.__sub__, after, terms))


def test_who_appends_elsewhere_does_not_wait_for_a_disk_that_others_read() -> None:
    """Three scans at a time of a stream that no cache holds, on a disk that takes 5 ms for each
    batch: nobody is elected, and the p99 of the appends to another basin is at most twice that
    with a disk that takes no time."""
    options = Options(gateways=1, http=False, basins=2, streams=1)

    def run(read_s: float) -> tuple[list[float], int, int]:
        return in_simulation(7, options, lambda cluster: _while_scanned(cluster, read_s))

    slow, read, elections = run(DISK_READ_S)
    usual, _, _ = run(0.0)
    assert elections == 0
    assert read > 10 * BATCHES
    assert min(len(slow), len(usual)) > 1_000
    assert _p99(slow) <= 2 * _p99(usual)


def _p99(ascending: list[float]) -> float:
    return ascending[len(ascending) * 99 // 100]


def test_retention_asks_the_disk_without_keeping_anybody() -> None:
    """A new leader looks at the first batch of each of its streams, all of which are on the disk
    alone: each has a due time soon, and the event loop was kept for not a moment."""
    options = Options(gateways=1, http=False, basins=1, streams=40)

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        await cluster.set_up()
        for number in range(40):
            names = "basin-000", f"stream-{number}"
            await cluster.apis[0].reconfigure(*names, {"retention": 3600})
            await cluster.apis[0].append(*names, [Item("old")])
        leader = _leader(cluster, COLD)
        basin = _basin(leader, COLD)
        prefix = generation_prefix(basin.group.generation) + keys.batch_key(StreamId(0), 0)[:1]
        leader.store.on_disk = lambda key: key.startswith(prefix)
        leader.store.read_s = DISK_READ_S
        basin.keeper.leadership_changed()
        assert _scheduled(basin.keeper) == 0
        end = cluster.loop.time() + 5.0
        while _scheduled(basin.keeper) < 40:
            assert cluster.loop.time() < end
            await asyncio.sleep(0.01)
        await asyncio.sleep(1.0)
        assert _scheduled(basin.keeper) == 40
        assert cluster.loop.kept_s == 0
        watch.cancel()

    in_simulation(1, options, main)


async def _raced(cluster: SimCluster) -> tuple[int, int]:
    """How many reads were answered and how many records were trimmed, while one stream is written,
    trimmed, deleted and made again, and its records expire."""
    await cluster.set_up()
    rng = random.Random(f"{cluster.seed}/races")
    api, loop = cluster.apis[0], cluster.loop
    names = COLD_NAMES
    await api.reconfigure(*names, {"retention": 1})
    for node in cluster.nodes:
        node.store.cold_share = rng.choice((0.5, 1.0))
        node.store.fetch_ms = (1.0, 120.0)
    end = loop.time() + 25.0
    answered = trimmed = 0

    async def write() -> None:
        nonlocal trimmed
        tail = 0
        while loop.time() < end:
            with suppress(NoEffectError, UnknownOutcomeError):
                items = [Item(f"{tail}-{n}") for n in range(rng.choice((1, 1, 2, 7, 40)))]
                if rng.random() < 0.3:
                    trimmed += 1
                    items.append(Item.trimming(rng.randint(max(tail - 60, 0), tail)))
                tail = (await api.append(*names, items)).tail
            await asyncio.sleep(rng.uniform(0.001, 0.06))

    async def read() -> None:
        nonlocal answered
        while loop.time() < end:
            at = 0
            with suppress(NoEffectError, UnknownOutcomeError):
                tail = await api.check_tail(*names)
                at = rng.choice((0, max(tail - rng.randint(0, 80), 0)))
                page = await api.read(*names, at, rng.choice((1, 30, 1_000)))
                numbers = [record.seq_num for record in page.records]
                assert (
                    numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else 1
                )
                answered += 1
            await asyncio.sleep(rng.uniform(0.001, 0.02))

    async def delete() -> None:
        while loop.time() < end - 9:
            await asyncio.sleep(rng.uniform(2, 6))
            with suppress(NoEffectError, UnknownOutcomeError):
                await api.delete_stream(*names)
            made = False
            while not made and loop.time() < end:
                await asyncio.sleep(0.3)
                with suppress(NoEffectError, UnknownOutcomeError, GoneError):
                    await api.create_stream(*names)
                    made = True

    await asyncio.gather(write(), delete(), *(read() for _ in range(4)))
    for node in cluster.nodes:
        assert node.node is not None
        assert node.node.host.divergences == 0
    return answered, trimmed


@pytest.mark.parametrize("seed", range(1, 7))
def test_what_goes_while_it_is_read_is_no_hole(seed: int) -> None:
    """Trims, expiry and deletions race with reads that wait for the disk for up to 120 ms at a
    time: no replica is taken for damaged, no error line is logged, no read has a gap."""
    options = Options(gateways=1, http=False, basins=1, streams=1, tick_seconds=0.05)

    async def main(cluster: SimCluster) -> tuple[int, int]:
        watch = cluster.start()
        try:
            return await _raced(cluster)
        finally:
            watch.cancel()

    answered, trimmed = in_simulation(seed, options, main)
    assert answered > 50
    assert trimmed > 20


@pytest.mark.parametrize("seed", [1, 2])
def test_who_waited_for_the_disk_reads_nothing_of_a_state_that_was_given_up(seed: int) -> None:
    """A read waits for the disk; meanwhile another one finds records missing, and the replica is
    given over to repair: the first is refused, whatever the disk has told it."""
    options = Options(gateways=1, http=False, basins=1, streams=1, tick_seconds=0.05)

    async def main(cluster: SimCluster) -> None:
        cluster.start().cancel()  # error lines are expected here
        await cluster.set_up()
        api = cluster.apis[0]
        for number in range(3):
            await api.append(*COLD_NAMES, [Item(f"{number}")])
        victim = _leader(cluster, COLD)
        basin, store = _basin(victim, COLD), victim.store
        store.cold_share, store.fetch_ms = 1.0, (500.0, 500.0)
        reading = asyncio.ensure_future(basin.reader.read(_request(0, 1)))
        while not store.fetching:
            await asyncio.sleep(0.001)
        store.cold_share = 0.0
        gone = WriteSet()
        (stream,) = basin.state.list_streams("", "", 9)[0]
        prefix = generation_prefix(basin.group.generation)
        gone.delete(prefix + keys.batch_key(stream.stream_id, SeqNum(2)))
        store.write(gone)
        with suppress(Exception):
            await basin.reader.read(_request(0, 9))
        assert basin.group.is_given_up
        with pytest.raises(NotLeaderHereError):
            await reading

    in_simulation(seed, options, main, expected=["state_diverged"])


def _request(start: int, count: int) -> ReadRequest:
    return ReadRequest(
        COLD_NAMES[1],
        ReadStart(StartKind.SEQ_NUM, start),
        ReadBounds(count),
        refuse_at_tail=False,
        wait_ms=0,
    )
