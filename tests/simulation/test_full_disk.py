"""A log on a full disk goes on as soon as there is room again, whoever made it."""

from __future__ import annotations

import asyncio
import random
from functools import partial

from svc_cluster.base.ids import Generation, GroupId, LogIndex, Term
from svc_cluster.base.log_ops import AppendEntries, CreateReplica, LogEntry
from svc_cluster.storage.wal.settings import WalSettings
from svc_cluster.storage.wal.writer import Wal
from tests.simulation.disk import SimDisk
from tests.simulation.loop import SimLoop, run

GROUP = GroupId(1)
SETTINGS = WalSettings(segment_bytes=16 * 1024, reserve_bytes=1)
ENTRY = b"\x01" + bytes(3_000)


def test_log_goes_on_when_somebody_else_has_made_room() -> None:
    """The last segment is kept for what frees others; once the disk has room it is used, although
    no segment was freed."""

    async def main(loop: SimLoop) -> None:
        disk = SimDisk(loop, random.Random(1))
        wal = Wal.open(disk, 7, SETTINGS)
        wal.append(GROUP, [CreateReplica(Generation(1))], None)
        await asyncio.sleep(1.0)
        disk.switches.full = True
        durable: list[int] = []
        issued = 0
        while not wal.is_stalled:
            issued += 1
            entry = LogEntry(LogIndex(issued), Term(1), ENTRY)
            done = partial(durable.append, issued)
            wal.append(GROUP, [AppendEntries((entry,))], done)
            await asyncio.sleep(0.1)
        wal.mark_idle()
        await asyncio.sleep(1.0)
        assert wal.is_stalled, "there is still no room"
        disk.switches.full = False
        wal.mark_idle()
        await asyncio.sleep(1.0)
        assert durable == list(range(1, issued + 1))

    run(main)
