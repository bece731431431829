"""`cluster.json` is written as soon as the disk lets it be, whoever changed it last."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from svc_cluster.cli.cluster_file import RETRY_SECONDS, ClusterFile

DEADLINE_S = 30.0
RETRIED_S = 10 * RETRY_SECONDS


def test_what_could_not_be_written_is_written_later_without_another_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says that it is out of date; the file then has what is true at that moment."""
    told: list[str] = []

    async def main() -> None:
        facts = {"gateway": 1}
        file = ClusterFile(tmp_path, lambda: dict(facts))
        in_the_way = tmp_path / "cluster.tmp"
        in_the_way.mkdir()
        running = asyncio.create_task(file.run())
        file.changed()
        async with asyncio.timeout(DEADLINE_S):
            while not (said := capsys.readouterr().out):
                await asyncio.sleep(0.01)
        told.append(said)
        facts["gateway"] = 2
        in_the_way.rmdir()
        async with asyncio.timeout(RETRIED_S):
            while not (tmp_path / "cluster.json").exists():
                await asyncio.sleep(0.01)
        running.cancel()

    asyncio.run(main())
    assert "out of date until it can be written" in told[0]
    assert json.loads((tmp_path / "cluster.json").read_text()) == {"gateway": 2}
