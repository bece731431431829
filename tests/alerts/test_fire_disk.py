"""Alerts about room on disks, fired on a file system that is really full."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from svc_cluster.lab.api_client import ApiClient, AppendRecord
from tests.alerts.watch import watching
from tests.e2e.cluster import running
from tests.e2e.load import set_up
from tests.e2e.prometheus import targets
from tests.e2e.small_disk import MIB, free_bytes, mounted, unavailable

SCENE = "disk"
BASIN, STREAM = "small-disk-basin", "s"
DISK_MIB = 160
OVERRIDES = (
    '{"wal_segment_mib": 8, "disk_reserve_mib": 8, "flush_seconds": 1.0, "payload_files": false}'
)
"""Payload files take their room in steps of 64 MiB, and this disk has two of them."""
BODY = b"x" * 500_000

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    place = tmp_path / "disk"
    place.mkdir()
    why = unavailable(place)
    if why is not None:
        pytest.skip(f"nothing can be mounted here ({why}): no disk is really full")
    return place


def test_a_disk_that_fills_fires(binaries: Path, tmp_path: Path, small_disk: Path) -> None:
    """Appends fill it at a rate that leaves it no four hours; another file takes all but a twelfth
    of it; then all but less than the reserve, and appends are refused."""

    async def main(disk: Path) -> None:
        environment = {"SVC_CLUSTER_LOCAL_OVERRIDES": OVERRIDES}
        async with running(disk / "cluster", nodes=1, environment=environment) as cluster:
            await set_up(cluster.url, BASIN, [STREAM])
            jobs = targets(cluster)
            api = ApiClient(cluster.url)
            with watching(binaries, tmp_path, jobs, SCENE) as watch:
                await watch.scraped(jobs)
                await watch.quiet("SvcDiskWillFill", "SvcDiskLow", "SvcReadOnly")
                for _ in range(24):
                    answer = await api.append(BASIN, STREAM, [AppendRecord(BODY)])
                    assert answer.status == 200, answer.body
                    await asyncio.sleep(0.1)
                await watch.fires("SvcDiskWillFill")
                await watch.quiet("SvcDiskLow", "SvcReadOnly")
                await watch.fires("SvcDiskLow", while_doing=lambda: _leave(disk, 13))
                await watch.quiet("SvcReadOnly")
                await watch.fires("SvcReadOnly", while_doing=lambda: _leave(disk, 4))
                watch.complete()
            api.close()

    with mounted(small_disk, DISK_MIB) as disk:
        asyncio.run(main(disk))


def _leave(disk: Path, mib: int) -> None:
    """Take all of the disk but so many MiB, also what the node has given back meanwhile."""
    with (disk / "filler").open("ab", buffering=0) as filler:
        filler.write(bytes(max(free_bytes(disk) - mib * MIB, 0)))
