"""Alerts about nodes, gateways, their disks' speed, their clocks and their leaders, fired."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.alerts.nodes import BASINS, WatchedCluster, appending, fill
from tests.alerts.watch import Watch, watching
from tests.e2e.power import build_shim, compiler

SCENE = "nodes"
SEED = 14
SLOW_SYNC_US = 1_200_000
AWAY_NS = 300 * 10**9
STALL_S = 0.75
OLD_BACKUP_DAYS = 3

pytestmark = pytest.mark.timeout(420)


@pytest.mark.skipif(compiler() is None, reason="no C compiler: no shim for disks and clocks")
def test_what_befalls_nodes_and_gateways_fires(binaries: Path, tmp_path: Path) -> None:
    """A healthy cluster fires nothing but that its version waits to be finalized. Then one deed
    after the other, each of which fires what tells of it, and most of which are made good."""

    async def main() -> None:
        shim = build_shim(tmp_path)
        async with WatchedCluster(tmp_path / "cluster", shim, SEED, namespaces=False) as cluster:
            with watching(binaries, tmp_path, cluster.jobs, SCENE) as watch:
                await watch.scraped(cluster.jobs)
                await watch.fires("SvcUpgradeOutstanding")
                assert await asyncio.to_thread(watch.firing) == {"SvcUpgradeOutstanding"}
                await _stalled_gateway(cluster, watch)
                await cluster.command("admin", "upgrade", "finalize", "--yes")
                await watch.ends("SvcUpgradeOutstanding")
                await watch.quiet("SvcQuotaNearlyUsed")
                await fill(cluster)
                await watch.fires("SvcQuotaNearlyUsed")
                await _slow_disks(cluster, watch)
                await _clock(cluster, watch)
                await watch.quiet("SvcBackupStale")
                await _old_backup(cluster, tmp_path)
                await watch.fires("SvcBackupStale")
                await _lost_nodes(cluster, watch, tmp_path)
                watch.complete()

    asyncio.run(main())


async def _slow_disks(cluster: WatchedCluster, watch: Watch) -> None:
    """Every sync of every log takes more than a second."""
    await watch.quiet("SvcSlowSync", "SvcAppendLatencyHigh")
    for control in cluster.controls.values():
        control.put("sync_delay_us", SLOW_SYNC_US)
    async with appending(cluster.urls[0]):
        await watch.fires("SvcSlowSync", "SvcAppendLatencyHigh")
        for control in cluster.controls.values():
            control.ease()


async def _clock(cluster: WatchedCluster, watch: Watch) -> None:
    """The clock of a node that leads jumps by five minutes, and back."""
    await watch.quiet("SvcClockAway")
    leader = await cluster.wait_leader(BASINS[0])
    cluster.controls[leader].put("clock_offset_ns", AWAY_NS)
    await watch.fires("SvcClockAway")
    cluster.controls[leader].ease()
    await watch.ends("SvcClockAway")


async def _stalled_gateway(cluster: WatchedCluster, watch: Watch) -> None:
    """Its process is stopped most of the time, so that its loop is late again and again: soon after
    its start, since each look at the loop weighs as much."""
    await watch.quiet("SvcEventLoopBlocked")
    gateway = cluster.gateways[2]
    ended = asyncio.Event()

    async def stall() -> None:
        while not ended.is_set():
            gateway.pause()
            await asyncio.sleep(STALL_S)
            gateway.resume()
            await asyncio.sleep(STALL_S / 8)

    stalling = asyncio.create_task(stall())
    try:
        await watch.fires("SvcEventLoopBlocked")
    finally:
        ended.set()
        await stalling


async def _old_backup(cluster: WatchedCluster, place: Path) -> None:
    """One that was made three days ago, by the clock of the command that made it."""
    rest = ["--at", str(place / "backups"), "--key-file", str(place / "key")]
    await cluster.command("backup", "create", *rest, days_ago=OLD_BACKUP_DAYS)


async def _lost_nodes(cluster: WatchedCluster, watch: Watch, place: Path) -> None:
    """One killed, its volume lost, both back; two killed at once, and a gateway."""
    await watch.quiet("SvcNodeDown", "SvcNodeRefused", "SvcNotFormed", "SvcGatewayDown")
    await watch.quiet("SvcNodeLongAway")
    cluster.nodes[3].kill()
    await watch.fires("SvcNodeDown", "SvcNodeLongAway")
    data, aside = cluster.data(3), place / "the right volume"
    data.rename(aside)
    cluster.nodes[3].start()
    await watch.fires("SvcNodeRefused", "SvcNotFormed")
    cluster.nodes[3].kill()
    data.rename(place / "the empty volume")
    aside.rename(data)
    cluster.nodes[3].start()
    await cluster.ready()
    await watch.ends("SvcNodeDown", "SvcNodeLongAway", "SvcNodeRefused", "SvcNotFormed")
    cluster.gateways[2].kill()
    await watch.fires("SvcGatewayDown")
    await watch.quiet("SvcTooFewNodes", "SvcNoLeader", "SvcHighErrorRate", "SvcVeryHighErrorRate")
    for node in (2, 3):
        cluster.nodes[node].kill()
    async with appending(cluster.urls[0]):
        await watch.fires(
            "SvcTooFewNodes", "SvcNoLeader", "SvcHighErrorRate", "SvcVeryHighErrorRate"
        )
    for node in (2, 3):
        cluster.nodes[node].start()
    cluster.gateways[2].start()
    await cluster.ready()
    await watch.fires("SvcHighLeaderChanges")
    await watch.ends("SvcTooFewNodes", "SvcNoLeader", "SvcGatewayDown")
