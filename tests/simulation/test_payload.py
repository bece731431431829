"""Clusters whose entries stand in payload files: under faults, and with space that comes back."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2
from svc_cluster.base.ids import LogIndex
from svc_cluster.model.versions import PAYLOAD_DIRECTORY, PAYLOAD_FILES
from svc_cluster.replica.housekeeping import INTERVAL_SECONDS
from svc_cluster.replica.identity import _newest_slot
from svc_cluster.storage.payload.payload_frame import file_number
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.configs import PAYLOAD_FILE_BYTES
from tests.simulation.formation_scenario import part
from tests.simulation.node import Luck, SimNode
from tests.simulation.options import Options
from tests.simulation.workload import Item

NAMES = ("basin-000", "stream-0")
BODY_BYTES = 3_000
QUIET_S = 12.0
"""Retention, flushes, the log's base, and the steps in which files are freed."""


def numbers(node: SimNode) -> list[int]:
    """Of the payload files on the node's disk."""
    found = [file_number(name) for name in node.disk.files]
    return sorted(number for number in found if number is not None)


@pytest.mark.parametrize("seed", [114, 101])
def test_a_cluster_with_payload_files_holds_under_faults(seed: int) -> None:
    """Everything that the simulator checks, with nearly every entry in a payload file; files are
    freed and used again meanwhile, and each directory says that it may hold some."""
    drawn = Options.draw_unchanging(random.Random(f"{seed}/options"))
    options = replace(drawn, payload_bytes_min=64, safety_s=12.0)

    async def main(cluster: SimCluster) -> int:
        await cluster.run()
        again = 0
        for node in cluster.nodes:
            found = numbers(node)
            assert found, "each node has some"
            again += found[-1] - len(found)
            assert _format(node) == PAYLOAD_DIRECTORY
        return again

    assert in_simulation(seed, options, main) > 0, "no file was used again"


def test_payload_files_wait_for_their_active_version() -> None:
    """Until an operator raises it each directory can be given back to the release of before. Then
    the same processes write payload files, and a power cut finds the formats and the records."""
    options = Options(gateways=1, http=False, streams=1, payload_bytes_min=64)

    async def main(cluster: SimCluster) -> None:
        for node in cluster.nodes:
            node.begins_at_first = True
        cluster.start().cancel()
        await cluster.set_up()
        await _append(cluster, 20)
        assert [(numbers(node), _format(node)) for node in cluster.nodes] == [([], 2)] * 3
        lives = [node.node for node in cluster.nodes]
        await _raised(cluster)
        await asyncio.sleep(1.0)
        await _append(cluster, 20, 20)
        assert [node.node for node in cluster.nodes] == lives, "none has started again"
        assert all(numbers(node) for node in cluster.nodes)
        assert [_format(node) for node in cluster.nodes] == [PAYLOAD_DIRECTORY] * 3
        for node in cluster.nodes:
            node.crash(random.Random(1), Luck(log=False, store=0.5))
        for node in cluster.nodes:
            node.start()
        await asyncio.sleep(3.0)  # until there is a leader again
        await _append(cluster, 20, 40)
        assert [_format(node) for node in cluster.nodes] == [PAYLOAD_DIRECTORY] * 3
        page = await cluster.apis[0].read(*NAMES, 0, 1_000)
        assert [record.body.split("-")[0] for record in page.records] == [
            str(number) for number in range(60)
        ]

    in_simulation(15, options, main)


def _format(node: SimNode) -> int:
    """Of the data directory, as it says of itself."""
    slot = _newest_slot(node.disk)
    assert slot is not None
    return int(slot["format"])


async def _raised(cluster: SimCluster) -> None:
    def fill(request: replica_pb2.Request) -> None:
        request.raise_version.version = PAYLOAD_FILES

    while True:
        node = cluster.nodes[0].node
        assert node is not None
        answer = await node.ask_catalog(fill)
        if answer is not None and answer.WhichOneof("result") != "refusal":
            return
        await asyncio.sleep(0.2)


async def _append(cluster: SimCluster, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        await cluster.apis[0].append(*NAMES, [Item(f"{number}-" + "x" * BODY_BYTES)])


def test_space_of_what_has_expired_comes_back() -> None:
    """Long after everything has expired each node has a file or two, however many it began; what
    is appended next takes those."""
    options = Options(
        gateways=1,
        http=False,
        streams=1,
        flush_seconds=0.5,
        log_retention_seconds=0.5,
        payload_bytes_min=64,
    )

    async def main(cluster: SimCluster) -> None:
        cluster.start().cancel()
        await cluster.set_up()
        await cluster.apis[0].reconfigure(*NAMES, {"retention": 1})
        for turn in range(3):
            await _append(cluster, 60, 60 * turn)
            used = [len(numbers(node)) for node in cluster.nodes]
            assert min(used) * PAYLOAD_FILE_BYTES >= 60 * BODY_BYTES
            await asyncio.sleep(QUIET_S)
            for node in cluster.nodes:
                assert len(numbers(node)) <= 3, numbers(node)
                assert numbers(node)[-1] > 6 * (turn + 1)

    in_simulation(11, options, main)


@pytest.mark.parametrize("crashes", [False, True])
def test_space_comes_back_where_only_one_of_many_streams_expires(crashes: bool) -> None:
    """Each file holds something of a stream that is kept: the rest of it becomes holes, within the
    bound, over power cuts as well, and what is kept is read whole by all."""
    options = Options(
        gateways=1,
        http=False,
        streams=3,
        flush_seconds=0.5,
        log_retention_seconds=0.5,
        payload_bytes_min=64,
    )

    async def main(cluster: SimCluster) -> None:
        cluster.start().cancel()
        await cluster.set_up()
        for stream in ("stream-0", "stream-1"):
            await cluster.apis[0].reconfigure(NAMES[0], stream, {"retention": 1})
        for number in range(120):
            body = f"{number}-" + "x" * BODY_BYTES
            await cluster.apis[0].append(NAMES[0], f"stream-{number % 3}", [Item(body)])
        for turn in range(3 if crashes else 1):
            await asyncio.sleep(QUIET_S)
            for node in cluster.nodes if crashes else ():
                node.crash(random.Random(turn))
                node.start()
        await asyncio.sleep(QUIET_S)
        for node in cluster.nodes:
            assert node.node is not None
            files = node.node.store.holes.spaces()
            live = sum(file.live_bytes for file in files)
            dead = sum(file.dead_bytes for file in files)
            assert live >= 40 * BODY_BYTES * (1 - 1 / len(files))
            assert dead <= 0.25 * live + 2 * PAYLOAD_FILE_BYTES
            held = sum(
                file.held_bytes()
                for name, file in node.disk.files.items()
                if file_number(name) is not None
            )
            assert held <= live + dead + 4 * PAYLOAD_FILE_BYTES
            assert crashes or node.node.store.holes.hole_bytes > 0
        page = await cluster.apis[0].read(NAMES[0], "stream-2", 0, 1_000)
        assert [record.body.split("-")[0] for record in page.records] == [
            str(number) for number in range(2, 120, 3)
        ]

    in_simulation(14, options, main)


@pytest.mark.parametrize("kept", [False, True])
def test_a_power_cut_on_all_nodes_loses_nothing_that_was_acknowledged(kept: bool) -> None:
    """All nodes lose their unflushed rows, and all or nothing of what was under way: the log has
    the places, and every batch is read as it was appended."""
    options = Options(gateways=1, http=False, streams=1, payload_bytes_min=64)

    async def main(cluster: SimCluster) -> None:
        cluster.start().cancel()
        await cluster.set_up()
        for turn in range(3):
            await _append(cluster, 20, 20 * turn)
            for node in cluster.nodes:
                node.crash(random.Random(turn), Luck(log=kept, store=0.5 * turn))
            for node in cluster.nodes:
                node.start()
            page = None
            while page is None or len(page.records) < 20 * (turn + 1):
                await asyncio.sleep(0.5)
                page = await cluster.apis[0].read(*NAMES, 0, 1_000)
            assert [record.body.split("-")[0] for record in page.records] == [
                str(number) for number in range(20 * (turn + 1))
            ]

    in_simulation(12, options, main)


FLUSHING = Options(gateways=1, http=False, streams=1, flush_seconds=5.0, payload_bytes_min=64)


async def _retaining_little(cluster: SimCluster) -> SimNode:
    """The leader, where more than RETAINED_BYTES are flushed early."""
    cluster.start().cancel()
    await cluster.set_up()
    await _append(cluster, 1)
    await asyncio.sleep(2.0)  # the cluster comes to the version of payload files
    for node in cluster.nodes:
        assert node.node is not None
        object.__setattr__(node.node.wal._settings, "retain_bytes", RETAINED_BYTES)
    return next(node for node in cluster.nodes if _led(node))


def test_payload_that_is_applied_is_flushed_early() -> None:
    """A restart would apply it once more: of that there is never much."""

    async def main(cluster: SimCluster) -> None:
        leader = await _retaining_little(cluster)
        before = _flushes(leader)
        for turn in range(4):
            await _append(cluster, 10, 100 * turn)
            await asyncio.sleep(INTERVAL_SECONDS + 0.1)
        assert _flushes(leader) - before >= 3, "what is applied is flushed without waiting"

    in_simulation(13, FLUSHING, main)


def test_payload_that_cannot_be_applied_causes_no_flush_after_flush() -> None:
    """The leader is cut off with much in its payload files that no majority has: flushes would do
    nothing for that, and come as seldom as ever."""

    async def main(cluster: SimCluster) -> None:
        leader = await _retaining_little(cluster)
        part(cluster, leader)
        lost = cluster.loop.create_task(_append(cluster, 1, 1000))
        await asyncio.sleep(1.0)
        assert _unflushed(leader) > RETAINED_BYTES
        before = _flushes(leader)
        await asyncio.sleep(20.0)
        assert _unflushed(leader) > RETAINED_BYTES
        assert _flushes(leader) - before <= 5, "one each five seconds"
        await asyncio.gather(lost, return_exceptions=True)

    in_simulation(13, FLUSHING, main)


RETAINED_BYTES = 1_000


def _led(node: SimNode) -> bool:
    assert node.node is not None
    return any(basin.group.is_serving for basin in node.node.host.basins.values())


def _flushes(node: SimNode) -> int:
    assert node.node is not None
    return node.node.housekeeper.flushes


def _unflushed(node: SimNode) -> int:
    """Bytes in payload files that are not in the node's flushed state."""
    assert node.node is not None
    return node.node.wal._ledger.unflushed_payload_bytes(lambda _: LogIndex(2**62))
