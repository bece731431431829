"""Alerts about faults of the program itself, which are planted into a real process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.alerts.watch import watching
from tests.e2e.cluster import running
from tests.e2e.load import set_up
from tests.e2e.prometheus import targets
from tests.integration.test_stopped_groups import MARK, OLDER, PLANTED, STREAM, one, with_patch

SCENE = "faults"
BROKEN, PARKED = "broken-basin", "parked-basin"

ESCAPING = """
import asyncio
import pathlib
from svc_cluster.cli.processes import loop_faults
hear = loop_faults.hear_loop_faults
def planted(metrics):
    hear(metrics)
    loop = asyncio.get_running_loop()
    def look():
        if pathlib.Path({place!r}).exists():
            raise ZeroDivisionError("planted")
        loop.call_later(0.2, look)
    look()
loop_faults.hear_loop_faults = planted
"""
"""What escapes to the loop once a file is there."""

pytestmark = pytest.mark.timeout(240)


def test_faults_of_the_program_fire(binaries: Path, tmp_path: Path) -> None:
    """A basin's entry that its machine stumbles over, one of a kind that the program does not know,
    and a callback that raises: each fires its own alert in one process that goes on."""
    order = tmp_path / "raise"

    async def main() -> None:
        patch = PLANTED + OLDER + ESCAPING.format(place=str(order))
        environment = with_patch(tmp_path / "patch", patch)
        directory = tmp_path / "cluster"
        async with running(directory, nodes=1, environment=environment) as cluster:
            for basin in (BROKEN, PARKED):
                await set_up(cluster.url, basin, [STREAM])
            jobs = targets(cluster)
            with watching(binaries, tmp_path, jobs, SCENE) as watch:
                await watch.scraped(jobs)
                await watch.quiet("SvcGroupStopped", "SvcGroupParked", "SvcLoopFault")
                await one(cluster.url, BROKEN, MARK)
                await watch.fires("SvcGroupStopped")
                await watch.quiet("SvcGroupParked", "SvcLoopFault")
                await one(cluster.url, PARKED, request_token="token-1")
                await watch.fires("SvcGroupParked")
                await watch.quiet("SvcLoopFault")
                order.touch()
                await watch.fires("SvcLoopFault")
                watch.complete()

    asyncio.run(main())
