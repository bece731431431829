"""A disk that fails a sync, on one node of three."""

from __future__ import annotations

import asyncio
import random
import subprocess
from pathlib import Path

import pytest

from svc_cluster.storage.worker import EXIT_STORAGE
from tests.e2e.cluster import READY_S, Load, SameCommand, logs, running, whole
from tests.e2e.load import set_up
from tests.e2e.power import Ledger, build_shim, compiler
from tests.own_processes import node_pids

BASIN = "failed-sync-basin"

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler: no failing syncs")


def test_a_failed_sync_ends_the_node_and_loses_nothing(tmp_path: Path) -> None:
    """EIO from fsync: the node ends at once with its own exit status and never acknowledges on
    what the cache still shows. What it had not synced is then taken from its disk, as the kernel
    may; the others go on, and it comes back without it."""

    async def main() -> None:
        shim = build_shim(tmp_path)
        ledger = Ledger(shim, tmp_path / "disk", tmp_path / "ledger")
        directory = ledger.root / "cluster"
        options = ["--no-restart"]
        async with running(directory, options=options, environment=ledger.env()) as cluster:
            load = Load(cluster.url, BASIN, writers=3)
            await set_up(cluster.url, BASIN, [writer.stream for writer in load.writers])
            leader = await cluster.wait_leader(BASIN)
            by_hand = SameCommand(int(cluster.node(leader)["pid"]))
            data_dir = cluster.node(leader)["data_dir"]
            cluster.kill_node(leader)
            await cluster.wait_leader(BASIN)
            node = by_hand.start()
            try:
                await whole(cluster, BASIN, 3)
                load.start()
                await load.acknowledged(10)
                ledger.fail_syncs(str(data_dir))
                async with asyncio.timeout(10):
                    while node.poll() is None:
                        await asyncio.sleep(0.01)
                assert node.returncode == EXIT_STORAGE
                await load.acknowledged(20)
                await load.stop()
            finally:
                node.kill()
                node.communicate()
            assert (await load.verify()).clean
            cluster.kill_all()
            ledger.fail_syncs(None)
            ledger.cut_power(random.Random(3), torn=False, spare=logs(cluster))
            cluster.start()
            await cluster.wait_ready(READY_S)
            verdict = await load.verify()
            print(f"\n{verdict}")
            assert verdict.clean, verdict

    asyncio.run(main())


def test_the_shim_is_inherited_by_every_process(tmp_path: Path) -> None:
    """The fault tests prove nothing if a node does not run under the shim: each of them must have
    written a ledger of its own."""

    async def main() -> None:
        ledger = Ledger(build_shim(tmp_path), tmp_path / "disk", tmp_path / "ledger")
        async with running(ledger.root / "cluster", environment=ledger.env()) as cluster:
            await set_up(cluster.url, BASIN, ["s"])
            logs = {int(path.stem) for path in ledger.state.glob("*.undo")}
            assert set(node_pids(cluster).values()) <= logs

    asyncio.run(main())


def test_the_compiler_takes_the_shim_without_a_warning(tmp_path: Path) -> None:
    """The shim is built with -Wall -Wextra -Werror."""
    try:
        assert build_shim(tmp_path).exists()
    except subprocess.CalledProcessError as error:
        pytest.fail(str(error))
