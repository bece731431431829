"""The program of `test_slow_reads`: reads one stream, whose batches are in files alone, while the
event loop ticks; `python -m tests.unit.storage.slow_reads DIRECTORY LIBRARY`."""

from __future__ import annotations

import asyncio
import ctypes
import json
import sys
from pathlib import Path

from svc_cluster.base.ids import Generation, SeqNum, StreamId, TimestampMs
from svc_cluster.base.write_set import WriteSet
from svc_cluster.model.read_bounds import ReadBounds
from svc_cluster.model.record import BatchPlacement, TimestampingMode
from svc_cluster.model.stream_config import StreamConfig
from svc_cluster.replica.prefixed import generation_prefix
from svc_cluster.replica.store_reads import StoreReads
from svc_cluster.storage.rocks_store import RocksStore
from svc_cluster.stream import keys
from svc_cluster.stream.batch_row import encode_batch
from svc_cluster.stream.rows import StreamState
from svc_cluster.stream.scan import look_up_batches

BATCHES = 400
RECORDS = 10
BATCH_BYTES = 20_000
"""More than a block of a file holds: each batch takes a read of its own."""
GENERATION = Generation(1)
NOW = TimestampMs(1)
STREAM = StreamState(
    StreamId(1),
    "cold",
    StreamConfig(),
    NOW,
    tail_seq_num=SeqNum(BATCHES * RECORDS),
    last_timestamp_ms=NOW,
    metered_bytes_appended=BATCHES,
)


def fill(directory: Path, loop: asyncio.AbstractEventLoop) -> None:
    """Write the stream and close the store, which flushes it."""
    store = RocksStore(directory, loop)
    for number in range(BATCHES):
        first = SeqNum(number * RECORDS)
        placement = BatchPlacement(
            first, RECORDS, 1, NOW, NOW, NOW, TimestampingMode.ARRIVAL, False, None
        )
        write_set = WriteSet()
        key = keys.batch_key(STREAM.stream_id, first + RECORDS - 1)
        write_set.put(
            generation_prefix(GENERATION) + key,
            encode_batch(placement, number, number.to_bytes(4, "big") * (BATCH_BYTES // 4)),
        )
        store.write(write_set)
    store.close()


async def main(directory: Path, library: str) -> None:
    loop = asyncio.get_running_loop()
    fill(directory, loop)
    store = RocksStore(directory, loop)
    made = ctypes.c_long.in_dll(ctypes.CDLL(library), "slow_reads_made")
    before = made.value
    lookups = look_up_batches(STREAM, 0, ReadBounds(), now_ms=NOW, max_bytes=BATCHES * BATCH_BYTES)
    scan = asyncio.ensure_future(StoreReads(store, GENERATION).run(lookups))
    late: list[float] = []
    begun = loop.time()
    while not scan.done():
        asked = loop.time()
        await asyncio.sleep(0.001)
        late.append(1000 * (loop.time() - asked) - 1)
    print(
        json.dumps(
            {
                "batches": len(scan.result()[0].batches),
                "reads": made.value - before,
                "took_ms": 1000 * (loop.time() - begun),
                "ticks": len(late),
                "held": sum(one > 4 for one in late),
                "worst_ms": max(late),
            }
        )
    )
    store.close()


if __name__ == "__main__":
    sys.setswitchinterval(0.0001)  # as a node does
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
