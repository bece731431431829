"""Two streams share payload files, one is trimmed: what the disk and the page of metrics show."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.cli.processes.node_metrics import NodeMetrics
from svc_cluster.codec import rpc
from svc_cluster.model.record import StoredBatch
from svc_cluster.storage.holes import makes_holes
from svc_cluster.storage.payload.payload_settings import PayloadSettings
from tests.at_once import build_batch
from tests.integration.conversation import Pair, pair
from tests.integration.test_conversations import one_record
from tests.integration.test_memory import metrics_of

KIB = 1024
RECORD_BYTES = 30 * KIB
COUNT = 40
PAYLOAD = PayloadSettings(
    writes=True, file_bytes=512 * KIB, dead_share_max=0.0, dead_files_max=0, bulk_bytes_min=16 * KIB
)


async def append(two: Pair, stream: str, batch: StoredBatch) -> None:
    def fill(request: pb.Request) -> None:
        rpc.append_to_pb(request.append, stream, batch, None, None)

    (group_id,) = two.node.host.basins
    response = await two.session.call(group_id, 5000, fill)
    assert response.WhichOneof("result") == "append", response


async def until(two: Pair, shown: NodeMetrics, is_so: Callable[[str], bool]) -> str:
    """The page of metrics, once it is so; the store is flushed meanwhile."""
    async with asyncio.timeout(30):
        while True:
            text = shown.expose().decode()
            if is_so(text):
                return text
            two.node.housekeeper.flush()
            await asyncio.sleep(0.02)


def sample(text: str, name: str) -> float:
    return float(next(row.split()[1] for row in text.splitlines() if row.startswith(f"{name} ")))


def test_space_of_a_trimmed_stream_comes_back_beside_one_that_is_kept(tmp_path: Path) -> None:
    """Every second batch goes: the full files hold what is needed and no more, by their own blocks
    too, and svc_payload_live_bytes, svc_payload_dead_bytes and svc_payload_hole_bytes_total say
    so."""
    if not makes_holes(tmp_path):
        pytest.skip("the file system makes no holes")
    trim = build_batch([(None, ((b"", b"trim"),), COUNT.to_bytes(8, "big"))])

    async def body() -> None:
        async with pair(tmp_path, payload=PAYLOAD) as two:
            await two.stream("basin-one", "kept")
            await two.stream("basin-one", "trimmed")
            _, shown, reads = metrics_of(two, tmp_path)
            for _ in range(COUNT):
                await append(two, "kept", one_record(bytes(RECORD_BYTES)))
                await append(two, "trimmed", one_record(bytes(RECORD_BYTES)))
            files, holes = two.node.wal.payloads, two.node.store.holes
            full = files.closed_numbers()
            assert len(full) >= 4
            await append(two, "trimmed", trim)
            dead, live = "svc_payload_dead_bytes", "svc_payload_live_bytes"
            await until(two, shown, lambda text: sample(text, dead) > 0)
            text = await until(
                two,
                shown,
                lambda text: (
                    not (sample(text, dead) or holes.is_busy)
                    and sample(text, live) < 1.5 * COUNT * RECORD_BYTES
                ),
            )
            assert sample(text, live) > 0.8 * COUNT * RECORD_BYTES * (1 - 1 / len(full))
            given = sample(text, "svc_payload_hole_bytes_total")
            assert given == len(full) * PAYLOAD.file_bytes - sample(text, live)
            names = [tmp_path / f"payload-{number:08d}.segment" for number in full]
            blocks = sum(os.stat(name).st_blocks * 512 for name in names)
            assert blocks <= sample(text, live) + 64 * KIB
            reads.close()

    asyncio.run(body())
