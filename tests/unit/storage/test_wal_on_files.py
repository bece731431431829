"""The WAL on real files: what a closed or killed process leaves is recovered."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from svc_cluster.base.ids import GroupId
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.wal import Wal, WalSettings
from tests.unit.storage.wal_driver import TAG, create, entries, indexes, log_of

SETTINGS = WalSettings(segment_bytes=256 * 1024, reserve_bytes=0)

KILLED = """
import asyncio, os, sys
from pathlib import Path
from svc_cluster.base.ids import GroupId
from svc_cluster.storage.disk import RealDisk
from tests.unit.storage.test_wal_on_files import SETTINGS, TAG, Wal, create, entries

async def main():
    loop = asyncio.get_running_loop()
    wal = Wal.open(RealDisk(Path(sys.argv[1]), loop), TAG, SETTINGS)
    wal.append(GroupId(1), [create()], None)
    for log_index in range(1, 10_000):
        synced = loop.create_future()
        wal.append(GroupId(1), [entries(1, log_index, 1, size=3000)],
                   lambda f=synced: f.set_result(None))
        await synced
        print(log_index, flush=True)

asyncio.run(main())
"""


def test_a_closed_log_is_recovered_and_grows(tmp_path: Path) -> None:
    """Three lives of one directory, each over several segments."""

    async def life(first: int) -> None:
        disk = RealDisk(tmp_path, asyncio.get_running_loop())
        wal = Wal.open(disk, TAG, SETTINGS)
        if first == 1:
            wal.append(GroupId(1), [create()], None)
        else:
            assert indexes(log_of(wal, 1)) == list(range(1, first))
            assert not log_of(wal, 1).damaged
        for log_index in range(first, first + 200):
            wal.append(GroupId(1), [entries(1, log_index, 1, size=3000)], None)
        await wal.close()
        disk.close()

    for first in (1, 201, 401):
        asyncio.run(life(first))


def test_a_killed_process_loses_no_acknowledged_entry(tmp_path: Path) -> None:
    """SIGKILL between and during syncs: everything that was reported durable is there."""
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = 0
        for line in process.stdout:
            acknowledged = int(line)
            if acknowledged == 300:
                process.kill()

    async def check() -> list[int]:
        disk = RealDisk(tmp_path, asyncio.get_running_loop())
        wal = Wal.open(disk, TAG, SETTINGS)
        found = indexes(log_of(wal, 1))
        assert not log_of(wal, 1).damaged
        await wal.close()
        disk.close()
        return found

    found = asyncio.run(check())
    assert acknowledged >= 300
    assert found == list(range(1, len(found) + 1))
    assert len(found) >= acknowledged
