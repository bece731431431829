"""A data directory with payload files, as this release leaves one behind when it is killed, and
what its clients read from it. Made once, by

    python -m tests.compatibility.keep_payload

and made anew only with a format that this release does not have.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import signal
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

from svc_cluster.lab.api_client import ApiClient, AppendRecord, decode_batch
from tests.compatibility.fleet import Fleet
from tests.compatibility.keep import BASIN, BYTES_MAX, CLOCK, DEADLINE_S, KEPT, anonymous
from tests.compatibility.programs import NOW

PLACE: Final = KEPT / "payload"
STREAMS: Final = ("flushed", "flushed and trimmed", "in the log alone")
BATCHES: Final = 6
TRIMMED: Final = 30
"""The first record that is left of the stream that is trimmed."""
SMALL: Final = AppendRecord(b"small")
"""An append of its own behind the large ones: it stands in the log and the state store."""
FLUSHED_S: Final = 8.0
"""Longer than the pause between flushes."""


def batches(stream: str) -> list[list[AppendRecord]]:
    """Batches of 20 KiB that can be made again, and of bytes that nothing makes smaller."""
    rng = random.Random(stream)
    return [[AppendRecord(rng.randbytes(2_048)) for _ in range(10)] for _ in range(BATCHES)]


async def _fill(api: ApiClient, stream: str) -> None:
    await api.make(CLOCK, BASIN, stream, DEADLINE_S)
    for batch in [*batches(stream), [SMALL]]:
        answer = await api.append(BASIN, stream, batch)
        assert answer.status == 200, answer.body


async def fill(url: str, fleet: Fleet) -> None:
    """Everything that the directory holds."""
    api = ApiClient(url)
    try:
        await api.make(CLOCK, BASIN, None, DEADLINE_S)
        async with asyncio.timeout(DEADLINE_S):
            while not (await fleet.figures(1))["svc_payload_size_bytes"]:
                await asyncio.sleep(0.1)
        for stream in STREAMS[:2]:
            await _fill(api, stream)
        trim = AppendRecord(TRIMMED.to_bytes(8, "big"), [(b"", b"trim")])
        answer = await api.append(BASIN, STREAMS[1], [trim])
        assert answer.status == 200, answer.body
        await asyncio.sleep(FLUSHED_S)
        await _fill(api, STREAMS[2])
    finally:
        api.close()


async def content(url: str) -> dict[str, Any]:
    """What a client reads: every record of each stream, as one digest."""
    api = ApiClient(url)
    out: dict[str, Any] = {}
    try:
        for stream in STREAMS:
            tail = (await api.check_tail(BASIN, stream)).json()["tail"]["seq_num"]
            at = TRIMMED if stream == STREAMS[1] else 0
            rows: list[tuple[int, int, str]] = []
            while at < tail:
                page = await api.read(BASIN, stream, f"seq_num={at}&count=1000")
                assert page.status == 200, page.body
                rows += [
                    (one.seq_num, one.timestamp, one.body.hex()) for one in decode_batch(page.body)
                ]
                at = rows[-1][0] + 1
            digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
            out[stream] = {"tail": tail, "records": len(rows), "sha256": digest}
        return out
    finally:
        api.close()


async def keep(directory: Path) -> None:
    fleet = Fleet(directory, nodes=1)
    try:
        fleet.start_node(1, NOW)
        fleet.start_gateway(NOW)
        await fleet.ready(1)
        await fill(fleet.url, fleet)
        found = await content(fleet.url)
        fleet.stop("node-1", signal.SIGKILL)
    finally:
        fleet.end()
    PLACE.mkdir(parents=True, exist_ok=True)
    (PLACE / "content.json").write_text(json.dumps(found, indent=1) + "\n")
    with tarfile.open(PLACE / "node-1.tar.xz", "w:xz", preset=9) as archive:
        archive.add(directory / "node-1", "node-1", filter=anonymous)
    size = (PLACE / "node-1.tar.xz").stat().st_size
    assert size < BYTES_MAX, size
    print(f"{PLACE}: {size} bytes")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(keep(Path(name) / "fleet"))
