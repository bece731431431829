"""Every scenario of `svc-cluster bench`, at a small size, against real processes that ask who it
is."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.lab.load.own_service import BASIN, OwnService
from svc_cluster.lab.load.run import LoadTarget, Run
from svc_cluster.lab.load.scenarios import SCENARIOS, Scenario
from tests.integration.processes import in_loop

SLOW = [one.name for one in SCENARIOS.values() if one.sync_delay_ms or one.read_delay_ms]
PLAIN = [name for name in SCENARIOS if name not in SLOW]
SECONDS = 0.5


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OwnService, LoadTarget]]:
    """A cluster that asks for access tokens."""
    import asyncio

    made = OwnService(tmp_path_factory.mktemp("bench"), SystemClock())
    try:
        yield made, asyncio.run(made.start())
    finally:
        made.stop()


def _small(name: str) -> Scenario:
    """A thousandth of the data, a twentieth of the connections, rates that any machine keeps."""
    scenario = SCENARIOS[name].scaled(0.05).changed({}, SECONDS)
    phases = tuple(
        tuple(
            part if part.rate is None else msgspec.structs.replace(part, rate=min(part.rate, 20.0))
            for part in phase
        )
        for phase in scenario.phases
    )
    return msgspec.structs.replace(scenario, phases=phases, fill_mib=min(4.0, scenario.fill_mib))


def _check(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert row["requests"] > 0, row
        assert row["errors"] == {}, row
        assert row["p50_ms"] is None or row["p50_ms"] > 0, row
    assert rows[0]["cpu_us_per_request"] >= 0
    assert rows[0]["rss_mib_max"] > 10
    assert all(row["generator_cores"] >= 0 for row in rows)


@pytest.mark.parametrize("name", PLAIN)
@in_loop
async def test_a_scenario_measures(own: tuple[OwnService, LoadTarget], name: str) -> None:
    """Every part of it has answers, and none was an error."""
    run = Run(_small(name), own[1], 0.5, SystemClock(), 7)
    await run.fill()
    rows = await run.measure()
    _check(rows)
    parts = [part for phase in SCENARIOS[name].phases for part in phase]
    assert [row["part"] for row in rows] == [part.name for part in parts]
    for part, row in zip(parts, rows, strict=True):
        assert (row["metered_mib_per_s"] > 0) == (
            part.kind in ("append", "session", "read")
        ) or part.kind == "read_one"
        assert (row["received_mib_per_s"] > 0) == (part.kind not in ("append", "session"))


@pytest.mark.skipif(shutil.which("strace") is None, reason="a slow disk is made with strace")
@pytest.mark.parametrize("name", SLOW)
@in_loop
async def test_a_slow_disk_is_slow(name: str, tmp_path: Path) -> None:
    """With 2 ms for each sync no append takes less, and each phase of cold reads measures."""
    service = OwnService(tmp_path, SystemClock())
    try:
        rows = await service.measure(_small(name), 0.5, 7)
    finally:
        service.stop()
    _check(rows)
    if SCENARIOS[name].sync_delay_ms:
        assert rows[0]["p50_ms"] >= SCENARIOS[name].sync_delay_ms
    assert all(row["elections"] >= 0 for row in rows)


def test_the_command_measures_with_a_token_file(
    own: tuple[OwnService, LoadTarget], tmp_path: Path
) -> None:
    """In both dialects, as JSON, with the disk's figures; without the token nothing is measured."""
    access = own[1].access
    assert access.token is not None
    token = tmp_path / "token"
    token.write_text(access.token + "\n")
    command = [sys.executable, "-m", "svc_cluster", "bench", "run", "unary-1", "read-one"]
    command += ["--url", access.url, "--seconds", "0.3", "--warm-up", "0.2", "--scale", "0.1"]
    assert own[1].directory is not None
    directory = ["--cluster-dir", str(own[1].directory), "--json", "--token-file"]
    for dialect in ("svc", "s2"):
        done = subprocess.run(
            [*command, "--dialect", dialect, *directory, str(token)],
            capture_output=True,
            check=True,
            text=True,
        )
        told = json.loads(done.stdout)
        assert told["disk_reference"]["syncs_per_s"] > 0
        assert [row["scenario"] for row in told["rows"]] == ["unary-1", "read-one"]
        _check(told["rows"][:1])
        assert f"`svc-cluster basin delete {BASIN}`" in done.stderr
    refused = subprocess.run(command, capture_output=True, check=False, text=True)
    assert refused.returncode == 1
    assert "cannot be measured: 401" in refused.stderr
