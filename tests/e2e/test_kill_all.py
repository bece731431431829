"""kill -9 of every process of the cluster at once, under load."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.e2e.cluster import READY_S, Load, rounds, running
from tests.e2e.load import set_up

BASIN = "kill-all-basin"


@pytest.mark.timeout(3600)
def test_killing_everything_at_once_loses_nothing(tmp_path: Path) -> None:
    """Supervisor, gateway and nodes get SIGKILL together; the same directory is started again and
    holds everything acknowledged, once."""

    async def main() -> None:
        async with running(tmp_path / "cluster") as cluster:
            load = Load(cluster.url, BASIN, writers=4)
            await set_up(cluster.url, BASIN, [writer.stream for writer in load.writers])
            for _ in range(rounds("KILL_ALL_ROUNDS", 2)):
                load.start()
                await load.acknowledged(20)
                cluster.kill_all()
                await load.stop()
                started = time.monotonic()
                cluster.start()
                await cluster.wait_ready(READY_S)
                verdict = await load.verify()
                print(f"\nback after {time.monotonic() - started:.2f} s: {verdict}")
                assert verdict.clean, verdict
            load.start()
            await load.acknowledged(5)
            await load.stop()
            assert (await load.verify()).clean

    asyncio.run(main())
