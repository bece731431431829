"""What is kept of a release: a data directory that it left behind when it was killed, what its
clients read from it, and bytes of its conversations. Made once, by

    python -m tests.compatibility.keep 0.2

and never again: what a release wrote does not change.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import sys
import tarfile
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from svc_cluster.base.clock import SystemClock
from svc_cluster.http.client import HttpResponse
from svc_cluster.lab.api_client import ApiClient, AppendRecord, decode_batch
from tests.compatibility.fleet import Fleet
from tests.compatibility.programs import Program, build

KEPT: Final = Path(__file__).parent / "kept"
BYTES_MAX: Final = 2 * 1024 * 1024
BASIN: Final = "kept-basin"
STREAMS: Final = ("plain", "with/headers", "trimmed and fenced")
RECORDS: Final = 200
DEADLINE_S: Final = 60.0
CLOCK: Final = SystemClock()


def bodies(stream: str) -> list[AppendRecord]:
    """Records that can be made again, of any sizes, some of no bytes."""
    out = []
    for number in range(RECORDS):
        seed = hashlib.sha256(f"{stream}/{number}".encode()).digest()
        headers = [(b"number", b"%d" % number), (b"seed", seed)] if "headers" in stream else []
        out.append(AppendRecord(seed * (seed[0] % 8), [] if not seed[1] % 4 else headers))
    return out


async def _insist(
    api: ApiClient, call: Callable[[], Awaitable[HttpResponse]], *statuses: int
) -> HttpResponse:
    return await api.insist(CLOCK, call, accept=frozenset(statuses), deadline_s=DEADLINE_S)


async def fill(url: str) -> None:
    """Everything that the directory holds, by way of the interface."""
    api = ApiClient(url)
    try:
        await api.make(CLOCK, BASIN, None, DEADLINE_S)
        for stream in (*STREAMS, "deleted"):
            await api.make(CLOCK, BASIN, stream, DEADLINE_S)
            records = bodies(stream)
            for at in range(0, len(records), 20):
                part = records[at : at + 20]
                made = partial(api.append, match_seq_num=at, request_token=str(at))
                await _insist(api, partial(made, BASIN, stream, part), 200)
        commands = [
            AppendRecord(b"the-fence", [(b"", b"fence")]),
            AppendRecord((50).to_bytes(8, "big"), [(b"", b"trim")]),
        ]
        await _insist(api, partial(api.append, BASIN, STREAMS[2], commands), 200)
        path, named = "/v1/streams/deleted", {"svc-basin": BASIN}
        await _insist(api, partial(api.http.request, "DELETE", path, named), 200, 202, 204)
    finally:
        api.close()


async def content(url: str) -> dict[str, Any]:
    """What a client reads: tail, fence and every record of each stream, and the streams' names."""
    api = ApiClient(url)
    out: dict[str, Any] = {}
    try:
        for stream in STREAMS:
            tail = await _insist(api, partial(api.check_tail, BASIN, stream), 200)
            position = tail.json()["tail"]["seq_num"]
            at = 50 if stream == STREAMS[2] else 0
            rows: list[tuple[int, int, list[list[str]], str]] = []
            while at < position:
                query = f"seq_num={at}&count=1000"
                page = await _insist(api, partial(api.read, BASIN, stream, query), 200)
                for record in decode_batch(page.body):
                    heads = [[name.hex(), value.hex()] for name, value in record.headers]
                    rows.append((record.seq_num, record.timestamp, heads, record.body.hex()))
                at = rows[-1][0] + 1
            digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
            out[stream] = {"tail": tail.json(), "records": len(rows), "sha256": digest}
        named = {"svc-basin": BASIN}
        streams = await api.http.request("GET", "/v1/streams", named)
        names = {row["name"] for row in streams.json()["streams"]}
        out["streams"] = sorted(names - {"deleted"})  # until it is gone it is in the list
        return out
    finally:
        api.close()


async def keep(program: Program, directory: Path) -> None:
    fleet = Fleet(directory, nodes=1)
    try:
        fleet.start_node(1, program)
        fleet.start_gateway(program)
        await fleet.ready(1)
        await fill(fleet.url)
        found = await content(fleet.url)
        fleet.stop("node-1", signal.SIGKILL)
    finally:
        fleet.end()
    place = KEPT / program.release
    place.mkdir(parents=True)
    (place / "content.json").write_text(json.dumps(found, indent=1) + "\n")
    with tarfile.open(place / "node-1.tar.xz", "w:xz", preset=9) as archive:
        archive.add(directory / "node-1", "node-1", filter=anonymous)
    size = (place / "node-1.tar.xz").stat().st_size
    assert size < BYTES_MAX, size
    print(f"{place}: {size} bytes")


def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def main(release: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(keep(build(release, Path(name) / "program"), Path(name) / "fleet"))


if __name__ == "__main__":
    main(sys.argv[1])
