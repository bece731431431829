"""A node whose memory is full: what clients see, what is committed, what the metrics show."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.memory import MIB
from svc_cluster.base.metrics import Metrics
from svc_cluster.cli.processes.node_metrics import NodeMetrics
from svc_cluster.codec import rpc
from svc_cluster.replica.memory_budget import PIECES_BYTES_MAX
from svc_cluster.replica.peer_conversation import PeerLink
from svc_cluster.replica.peers import LinkPeers
from svc_cluster.replica.snapshot_stream import PIECE_BYTES, send_snapshot
from svc_cluster.replica.transfers import SnapshotPace
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.read_pool import ReadPool, ReadPoolSettings
from svc_cluster.storage.state_store import StoreBusyError
from tests.integration.conversation import Pair, pair
from tests.integration.test_conversations import one_record


class HeldDisk:
    """Keeps a disk from writing: what is submitted waits until the test lets it through."""

    def __init__(self, disk: RealDisk) -> None:
        self._submit = disk.submit
        self._waiting: list[tuple[Any, ...]] = []
        disk.submit = self._keep  # type: ignore[method-assign, assignment]
        self._disk = disk

    def _keep(self, *submission: Any) -> None:
        self._waiting.append(submission)

    def let_through(self) -> None:
        self._disk.submit = self._submit  # type: ignore[method-assign]
        for submission in self._waiting:
            self._submit(*submission)


def no_link(*_: object) -> PeerLink:
    raise AssertionError("there are no peers")


def metrics_of(two: Pair, directory: Path, **pool: int) -> tuple[Metrics, NodeMetrics, ReadPool]:
    metrics = Metrics()
    loop = asyncio.get_running_loop()
    links = LinkPeers(loop=loop, peers=(), clock=lambda: None, open_link=no_link)
    reads = ReadPool(loop, ReadPoolSettings(**pool))
    return metrics, NodeMetrics(metrics, two.node, directory, links, two.disk, reads), reads


def test_reads_that_wait_for_the_disk_and_those_that_find_no_place_are_shown(
    tmp_path: Path,
) -> None:
    """One at the disk, one that waits, one that is refused; then none waits."""

    async def body() -> None:
        async with pair(tmp_path) as two:
            _, shown, reads = metrics_of(two, tmp_path, threads=1, waiting_max=1)
            begun, ends = threading.Event(), threading.Event()

            def at_the_disk() -> None:
                begun.set()
                assert ends.wait(20)

            asked = [reads.submit(at_the_disk)]
            assert begun.wait(20)
            asked.append(reads.submit(lambda: None))
            with pytest.raises(StoreBusyError):
                _ = reads.submit(lambda: None)
            page = shown.expose().decode().splitlines()
            assert "svc_store_reads_waiting 1.0" in page
            assert "svc_store_reads_refused_total 1.0" in page
            ends.set()
            await asyncio.gather(*asked)
            assert "svc_store_reads_waiting 0.0" in shown.expose().decode().splitlines()
            reads.close()

    asyncio.run(body())


async def append(two: Pair, group_id: GroupId, size: int) -> pb.Response:
    def fill(request: pb.Request) -> None:
        rpc.append_to_pb(request.append, "s", one_record(bytes(size)), None, None)

    return await two.session.call(group_id, 5000, fill)


def test_a_full_node_refuses_appends_without_effect_and_shows_it(tmp_path: Path) -> None:
    """The refusal is definite, nothing is committed, other requests are served, the metrics tell
    each part; and what is admitted again when the part has let go."""

    async def body() -> None:
        async with pair(tmp_path) as two:
            await two.stream("basin-one", "s")
            host = two.node.host
            (group_id,) = host.basins
            metrics, shown, reads = metrics_of(two, tmp_path)
            assert (await append(two, group_id, 1000)).WhichOneof("result") == "append"
            hoard = host.memory.bytes_max
            host.memory.add("hoard", lambda: hoard)
            host.memory.look()
            last = host.basins[group_id].group.engine.last_index
            refused = await append(two, group_id, 1000)
            assert refused.refusal.code == "unavailable"
            assert not refused.refusal.may_have_taken_effect
            assert host.basins[group_id].group.engine.last_index == last
            assert (await two.client.check_tail("basin-one", "s")).seq_num == 1
            shown.expose()
            value = metrics.registry.get_sample_value
            assert value("svc_memory_refused_total", {"part": "requests"}) == 1
            assert value("svc_memory_held_bytes", {"part": "hoard"}) == hoard
            assert value("svc_memory_max_bytes") == host.memory.bytes_max
            assert (value("svc_memory_held_bytes", {"part": "log"}) or 0) > 1000
            hoard = 0
            host.memory.look()
            assert (await append(two, group_id, 1000)).append.start.seq_num == 1
            assert host.memory.held()["requests"] == 0, "what was answered holds nothing"
            reads.close()

    asyncio.run(body())


def test_an_append_is_measured_by_its_records(tmp_path: Path) -> None:
    """One that does not fit is refused although a smaller one does."""

    async def body() -> None:
        async with pair(tmp_path) as two:
            await two.stream("basin-one", "s")
            host = two.node.host
            (group_id,) = host.basins
            host.memory.add("hoard", lambda: host.memory.bytes_max - MIB // 2)
            host.memory.look()
            assert (await append(two, group_id, 900_000)).refusal.code == "unavailable"
            assert (await append(two, group_id, 1000)).append.start.seq_num == 0

    asyncio.run(body())


def test_what_waits_for_the_disk_is_part_of_the_budget(tmp_path: Path) -> None:
    """A disk that writes nothing: appends wait in the log until the node holds as much as it may;
    one more is a definite refusal. Once the disk writes, all that was admitted is acknowledged,
    nothing is left, and what is new is admitted again."""

    async def body() -> None:
        async with pair(tmp_path) as two:
            await two.stream("basin-one", "s")
            host = two.node.host
            (group_id,) = host.basins
            metrics, shown, reads = metrics_of(two, tmp_path)
            host.memory.bytes_max = 4 * MIB
            host.memory.look()
            disk = HeldDisk(two.disk)
            waiting = [asyncio.ensure_future(append(two, group_id, 500_000)) for _ in range(3)]
            try:
                async with asyncio.timeout(30):
                    while host.memory.held()["wal"] < 1_500_000:
                        await asyncio.sleep(0)
                host.memory.look()
                refused = await append(two, group_id, 900_000)
                shown.expose()
            finally:
                disk.let_through()
            assert refused.refusal.code == "unavailable"
            assert not refused.refusal.may_have_taken_effect
            value = metrics.registry.get_sample_value
            assert 1_500_000 < (value("svc_memory_held_bytes", {"part": "wal"}) or 0) < 1_700_000
            assert value("svc_memory_refused_total", {"part": "requests"}) == 1
            acks = await asyncio.gather(*waiting)
            assert sorted(ack.append.start.seq_num for ack in acks) == [0, 1, 2]
            async with asyncio.timeout(30):
                while host.memory.held()["wal"]:
                    await asyncio.sleep(0)
            host.memory.look()
            assert (await append(two, group_id, 900_000)).append.start.seq_num == 3
            reads.close()

    asyncio.run(body())


def test_pieces_of_snapshots_have_room_of_their_own(tmp_path: Path) -> None:
    """While they take all of it, a piece that comes is refused, definitely and before it is
    decoded, and counted; a sender reads nothing until there is room. Then both go on. Appends are
    refused only for what the node holds as a whole."""

    async def body() -> None:
        async with pair(tmp_path) as two:
            await two.stream("basin-one", "s")
            host = two.node.host
            (group_id,) = host.basins
            metrics, shown, reads = metrics_of(two, tmp_path)
            host.memory.pieces.take(PIECES_BYTES_MAX)

            async def offer() -> str:
                reply = await host.receiver.chunk(NodeId(2), b"not a chunk")
                return str(pb.SnapshotResult.FromString(reply).reason)

            assert await offer() == "the node holds as many pieces of snapshots as it may"
            sent: list[pb.SnapshotChunk] = []

            async def call(chunk: bytes) -> bytes:
                sent.append(pb.SnapshotChunk.FromString(chunk))
                assert host.memory.held()["transfers"] >= PIECE_BYTES or not sent[-1].keys
                return pb.SnapshotResult(accepted=True).SerializeToString()

            group = host.basins[group_id].group
            sending = asyncio.ensure_future(
                send_snapshot(
                    group,
                    host.services,
                    7,
                    call,
                    host.memory.pieces,
                    SnapshotPace(host.services.clock, lambda: False),
                    by_pieces=True,
                )
            )
            for _ in range(20):
                await asyncio.sleep(0)
            assert not any(chunk.keys for chunk in sent) and host.memory.pieces.waiting == 1
            assert (await append(two, group_id, 1000)).append.start.seq_num == 0
            shown.expose()
            value = metrics.registry.get_sample_value
            part = {"part": "transfers"}
            assert value("svc_memory_held_bytes", part) == PIECES_BYTES_MAX
            assert value("svc_memory_refused_total", part) == 1
            host.memory.pieces.give_back(PIECES_BYTES_MAX)
            pairs = (await sending).pairs
            assert sum(len(chunk.keys) for chunk in sent[1:]) == pairs > 0 and sent[-1].last
            assert await offer() == "not a snapshot chunk"
            assert host.memory.held()["transfers"] == 0
            reads.close()

    asyncio.run(body())
