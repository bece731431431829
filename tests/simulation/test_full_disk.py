"""A log on a full disk goes on as soon as there is room again, whoever made it."""

from __future__ import annotations

import asyncio
import random
from functools import partial

import pytest

from svc_cluster.base.ids import Generation, GroupId, LogIndex, Term
from svc_cluster.base.log_ops import AppendEntries, CreateReplica, LogEntry
from svc_cluster.replica.housekeeping import INTERVAL_SECONDS, STAND_ASIDE_SECONDS
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.storage.wal.wal_settings import WalSettings
from svc_cluster.storage.wal.writer import Wal
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.disk import SimDisk
from tests.simulation.loop import SimLoop, run
from tests.simulation.options import Options

GROUP = GroupId(1)
SETTINGS = WalSettings(segment_bytes=16 * 1024, reserve_bytes=1)
ENTRY = b"\x01" + bytes(3_000)
OPTIONS = Options(gateways=1, http=False, basins=1, streams=1)
FULL_SECONDS = 60.0
NODES = 3


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
        while not wal._pipeline._waiting:
            issued += 1
            entry = LogEntry(LogIndex(issued), Term(1), ENTRY)
            done = partial(durable.append, issued)
            wal.append(GROUP, [AppendEntries((entry,))], done)
            await asyncio.sleep(0.1)
        wal.mark_idle()
        await asyncio.sleep(1.0)
        assert wal._pipeline._waiting, "there is still no room"
        disk.switches.full = False
        wal.mark_idle()
        await asyncio.sleep(1.0)
        assert durable == list(range(1, issued + 1))

    run(main)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_where_all_disks_are_full_the_lead_is_not_passed_around(seed: int) -> None:
    """Each node offers its lead to others once in STAND_ASIDE_SECONDS, also where it comes back
    before the node has looked again; no flush begins that the disks have no room for."""

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        rng = random.Random(seed)
        for node in cluster.nodes[1:]:
            # from now on each looks at its disk at another moment than the others
            node.crash(rng)
            await asyncio.sleep(INTERVAL_SECONDS / NODES)
            node.start()
            await asyncio.sleep(2.0)
        nodes = [node.node for node in cluster.nodes if node.node is not None]
        for node in cluster.nodes:
            node.disk.switches.full = True
        await asyncio.sleep(2 * INTERVAL_SECONDS)
        terms, flushes = _terms(nodes), [node.housekeeper.flushes for node in nodes]
        await asyncio.sleep(FULL_SECONDS)
        offers = NODES * (FULL_SECONDS / STAND_ASIDE_SECONDS + 1)
        for group_id, term in _terms(nodes).items():
            assert term - terms[group_id] <= offers, (group_id, terms, _terms(nodes))
        assert [node.housekeeper.flushes for node in nodes] == flushes
        for simulated in cluster.nodes:
            simulated.disk.switches.full = False
        await asyncio.sleep(FULL_SECONDS)
        assert all(
            node.housekeeper.flushes > before for node, before in zip(nodes, flushes, strict=True)
        )
        watch.cancel()

    in_simulation(seed, OPTIONS, main)


def _terms(nodes: list[ReplicaNode]) -> dict[GroupId, int]:
    """The latest term of each group that any of the nodes knows."""
    found: dict[GroupId, int] = {}
    for node in nodes:
        for replica in node.host.replicas():
            engine = replica.group.engine
            found[engine.group_id] = max(found.get(engine.group_id, 0), engine.term)
    return found
