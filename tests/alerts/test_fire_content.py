"""Alerts about replicas whose stores hold something else, fired by stores that are harmed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from pathlib import Path

import msgspec
import pytest

from svc_cluster.base.ids import StreamId
from svc_cluster.base.write_set import WriteSet
from svc_cluster.lab.own_cluster import OwnCluster
from svc_cluster.replica.prefixed import PREFIX_BYTES
from svc_cluster.storage.rocks_store import RocksStore
from svc_cluster.stream import keys
from tests.alerts.watch import Watch, watching
from tests.e2e.cluster import Load, running, same_applied, whole
from tests.e2e.load import set_up
from tests.e2e.prometheus import targets
from tests.integration.processes import flushed_nodes, wait_page
from tests.integration.test_scrub import _gone, _harm_store
from tests.integration.test_snapshot_install import BASIN, STREAM, write
from tests.service_process import service

SCENE = "content"
SETTINGS = {"flush_seconds": 0.3, "scrub_interval_seconds": 1.0}

pytestmark = pytest.mark.timeout(300)


def test_stores_that_differ_fire(binaries: Path, tmp_path: Path) -> None:
    """Rows vanish from one node's store, which a quorum convicts; then each of the three gets a row
    of its own, so that nobody can tell who is right."""
    environment = {"SVC_CLUSTER_LOCAL_OVERRIDES": json.dumps(SETTINGS)}

    async def main() -> None:
        directory = tmp_path / "cluster"
        async with running(directory, options=["--no-restart"], environment=environment) as cluster:
            await set_up(cluster.url, BASIN, [STREAM, "stream-0", "stream-1"])
            await write(cluster.url, 3)
            rows = {node: cluster.node(node) for node in (1, 2, 3)}
            stores = {node: directory / f"node-{node}" / "state" for node in rows}
            ports = {node: int(row["admin_port"]) for node, row in rows.items()}
            leader = await cluster.wait_leader(BASIN)
            victim = next(node for node in (3, 2, 1) if node != leader)
            jobs = targets(cluster)
            with watching(binaries, tmp_path, jobs, SCENE) as watch:
                await watch.scraped(jobs)
                await watch.quiet("SvcStateDivergence", "SvcScrubInDoubt")
                await _frozen(cluster, watch, victim)
                await same_applied(cluster, BASIN, 3)
                await flushed_nodes([ports[victim]])  # what is harmed must be flushed
                await _gone(cluster.kill_node(victim))
                assert _harm_store(stores[victim]) >= 6
                async with contextlib.AsyncExitStack() as again:

                    def start(node: int) -> None:
                        config, log = directory / f"node-{node}.yaml", tmp_path / f"{node}.log"
                        again.enter_context(service("node", config, log, environment=environment))

                    start(victim)
                    await watch.fires("SvcStateDivergence")
                    await watch.quiet("SvcScrubInDoubt")
                    await whole(cluster, BASIN, 3)
                    await same_applied(cluster, BASIN, 3)
                    await flushed_nodes(ports.values())
                for node in rows:
                    if node != victim:
                        await _gone(cluster.kill_node(node))
                for node, place in stores.items():
                    _mark(place, node)
                async with contextlib.AsyncExitStack() as again:
                    for node in rows:
                        start(node)
                    for port in ports.values():
                        await wait_page(port, "/readyz", 200)
                    await watch.fires("SvcScrubInDoubt")
                watch.complete()

    asyncio.run(main())


async def _frozen(cluster: OwnCluster, watch: Watch, follower: int) -> None:
    """A follower's process stands still while the others go on: it takes in nothing of the log, and
    no comparison is complete without it. Then it comes back, and catches up."""
    names = ("SvcFollowerLagging", "SvcScrubOverdue")
    await watch.quiet(*names)
    load = Load(cluster.url, BASIN, writers=2)
    cluster.kill_node(follower, signal.SIGSTOP)
    load.start()
    try:
        await watch.fires(*names)
    finally:
        cluster.kill_node(follower, signal.SIGCONT)
        await load.stop()
    await watch.ends(*names)


def _mark(place: Path, node: int) -> None:
    """Put a row into the basin's part of a store that no other node's has."""
    loop = asyncio.new_event_loop()
    store = RocksStore(place, loop)
    start, _ = keys.batches_range(StreamId(1))
    prefix = next(
        key[:PREFIX_BYTES]
        for key, _ in store.scan(b"", b"\xff" * PREFIX_BYTES)
        if key[PREFIX_BYTES:].startswith(start)
    )
    write_set = WriteSet()
    row = prefix + keys.IDEMPOTENCY_ROWS + b"k" * 32
    write_set.put(row, msgspec.msgpack.encode([node, b"answer"]))
    store.write(write_set)
    store.close()
    loop.close()
