"""A kept data directory with payload files is taken over."""

from __future__ import annotations

import asyncio
import json
import tarfile
from pathlib import Path

from svc_cluster.lab.api_client import ApiClient, AppendRecord
from svc_cluster.model.versions import PAYLOAD_DIRECTORY, PAYLOAD_FILES
from svc_cluster.storage.payload.payload_frame import file_number
from tests.compatibility.fleet import Fleet
from tests.compatibility.keep import BASIN, BYTES_MAX
from tests.compatibility.keep_payload import PLACE, STREAMS, batches, content
from tests.compatibility.programs import NOW

LARGE = AppendRecord(b"x" * 20_480)


async def appended(url: str, tail: int) -> None:
    """One large record behind what is there."""
    api = ApiClient(url)
    try:
        answer = await api.append(BASIN, STREAMS[0], [LARGE], match_seq_num=tail)
        assert answer.status == 200, answer.body
    finally:
        api.close()


def test_a_directory_with_payload_files_is_taken_over(tmp_path: Path) -> None:
    """A client reads what it read then, byte for byte, of what was flushed, trimmed, or in the log
    alone; more goes into payload files behind it, and all of it is there after another start."""
    kept = json.loads((PLACE / "content.json").read_text())
    assert (PLACE / "node-1.tar.xz").stat().st_size < BYTES_MAX
    fleet = Fleet(tmp_path / "fleet", nodes=1)
    with tarfile.open(PLACE / "node-1.tar.xz") as archive:
        archive.extractall(fleet.directory, filter="data")
    wal = fleet.directory / "node-1" / "wal"
    files = {number: path for path in wal.iterdir() if (number := file_number(path.name))}
    before = set(files)
    apart = files[min(files)].read_bytes()
    for stream in STREAMS:
        assert batches(stream)[0][0].body in apart, "it stands in a payload file"
    said = (wal / "identity").read_bytes()
    assert b'"format": %d' % PAYLOAD_DIRECTORY in said
    assert b'"active_version": %d' % PAYLOAD_FILES in said

    async def main() -> None:
        fleet.start_node(1, NOW)
        fleet.start_gateway(NOW)
        await fleet.ready(1)
        assert await content(fleet.url) == kept
        await appended(fleet.url, kept[STREAMS[0]]["tail"])
        fleet.stop("node-1")
        fleet.start_node(1, NOW)
        await fleet.ready(1)
        after = await content(fleet.url)
        assert after.pop(STREAMS[0])["records"] == kept[STREAMS[0]]["records"] + 1
        assert after == {name: kept[name] for name in STREAMS[1:]}
        now = {number for path in wal.iterdir() if (number := file_number(path.name))}
        assert now - before, "what came behind went into a file of its own"

    try:
        asyncio.run(main())
    except BaseException:
        print(fleet.log("node-1")[-3000:])
        raise
    finally:
        fleet.end()
