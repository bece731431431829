"""Power loss on every node at once: all processes are killed and everything that no fsync covers
is taken back, with torn sectors. POWER_ROUNDS repeats it more often."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from tests.e2e.cluster import READY_S, Load, logs, rounds, running
from tests.e2e.load import Verdict, set_up
from tests.e2e.power import Ledger, build_shim, compiler
from tests.reliability import failure_recorded, record_if_asked

BASIN = "power-loss-basin"
SEED = random.SystemRandom().randrange(10**6) if os.environ.get("RECORD") == "1" else 20
"""What is torn in. A run that is recorded draws another one, and says which."""
ROW = {"kind": "power", "cycles": 1, "seed": SEED}

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="no C compiler: power cuts not tested"),
    pytest.mark.timeout(3600),
]


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_shim(tmp_path_factory.mktemp("shim"))


def test_power_loss_on_all_nodes_loses_nothing_acknowledged(shim: Path, tmp_path: Path) -> None:
    """Rounds of load, power cut, restart and a full read: no acknowledged record is missing, none
    is doubled, and an append in flight is there whole or not at all."""

    async def main() -> None:
        ledger = Ledger(shim, tmp_path / "disk", tmp_path / "ledger")
        rng = random.Random(SEED)
        taken = 0
        async with running(ledger.root / "cluster", environment=ledger.env()) as cluster:
            load = Load(cluster.url, BASIN, writers=4)
            await set_up(cluster.url, BASIN, [writer.stream for writer in load.writers])
            for number in range(rounds("POWER_ROUNDS", 2)):
                load.start()
                await load.acknowledged(rng.randint(5, 40), deadline_s=60)
                cluster.kill_all()
                await load.stop()
                report = ledger.cut_power(rng, spare=logs(cluster))
                took = report.undone_writes + len(report.undone_names)
                taken += took
                cluster.start()
                await cluster.wait_ready(READY_S)
                verdict = await load.verify()
                print(
                    f"\npower cut {number + 1}: {report.undone_writes} writes "
                    f"({report.undone_bytes} bytes) and {len(report.undone_names)} names taken "
                    f"back, {report.kept_sectors} sectors torn in; {verdict}"
                )
                missing, doubled = verdict.missing, verdict.duplicates
                fields = {"lost": missing, "doubled": doubled, "foreign": verdict.foreign}
                record_if_asked("kills", {**ROW, "cuts_that_took": int(took > 0), **fields})
                assert verdict.clean, verdict
            load.start()
            await load.acknowledged(3)
            await load.stop()
            assert (await load.verify()).clean
        assert taken > 0, "the cuts took nothing: the shim was not there"

    with failure_recorded("kills", lambda: {**ROW, "cycles": 0, "cuts_that_took": 0, "lost": 0}):
        asyncio.run(main())


def test_without_fsync_the_same_power_loss_loses_records(shim: Path, tmp_path: Path) -> None:
    """The control: with fsync made to do nothing, the same cut must lose acknowledged records, or
    the test above proves nothing."""

    async def main() -> None:
        ledger = Ledger(shim, tmp_path / "disk", tmp_path / "ledger")
        environment = ledger.env(ignore_sync=True)
        # A first life with real syncs, so that what is lost is records and not the whole cluster.
        async with running(ledger.root / "cluster", environment=ledger.env()) as cluster:
            load = Load(cluster.url, BASIN, writers=4)
            await set_up(cluster.url, BASIN, [writer.stream for writer in load.writers])
            load.start()
            await load.acknowledged(3)
            await load.stop()
            cluster.stop()
            cluster.environment = environment
            cluster.start()
            await cluster.wait_ready(READY_S)
            load.start()
            await load.acknowledged(20)
            cluster.kill_all()
            await load.stop()
            ledger.cut_power(random.Random(1), torn=False, spare=logs(cluster))
            cluster.environment = ledger.env()
            cluster.start()
            await cluster.wait_ready(READY_S)
            verdict: Verdict = await load.verify()
            print(f"\nwithout fsync: {verdict}")
            assert verdict.missing > 0

    asyncio.run(main())
