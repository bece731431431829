"""The cluster of the scene `nodes`: three nodes and two gateways, each node's disk and clock in the
hands of the test, with a quota that a test can use up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import yaml

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.http.client import ConnectionLostError
from svc_cluster.lab.api_client import ApiClient, AppendRecord
from tests.chaos.cluster import ChaosCluster
from tests.chaos.members import NODES
from tests.integration.test_stopped_groups import with_patch
from tests.older_formation import formed

BASINS_MAX: Final = 14
BASINS: Final = tuple(f"watched-basin-{number}" for number in range(BASINS_MAX - 1))
"""More than nine tenths of what there may be, and enough that a node leads four."""
STREAM: Final = "s"
COMMAND_S: Final = 90.0
EARLIER: Final = """
from svc_cluster.base.clock import SystemClock
wall_ms = SystemClock.wall_ms
SystemClock.wall_ms = lambda clock: wall_ms(clock) - {days} * 86_400_000
"""
"""Of a command alone: deadlines of gRPC are told by the machine's clock."""
APPENDERS: Final = 2
"""For each basin."""


class WatchedCluster(ChaosCluster):
    """Its nodes take commands on ports that are known."""

    async def set_up(self) -> None:
        await super().set_up()
        self._rpc = HeldPorts(len(NODES))
        directories: dict[int, Path] = {}
        cluster_id = ""
        for node, port in zip(NODES, self._rpc.numbers, strict=True):
            place = self.directory / f"node-{node}.yaml"
            settings = yaml.safe_load(place.read_text())
            settings |= {"basins_max": BASINS_MAX, "admin_rpc_address": f"127.0.0.1:{port}"}
            place.write_text(yaml.safe_dump(settings, sort_keys=False))
            directories[node], cluster_id = Path(settings["data_dir"]), settings["cluster_id"]
        # an upgrade waits to be finalized in it
        await formed(directories, cluster_id)

    @property
    def jobs(self) -> dict[str, list[str]]:
        nodes = [f"127.0.0.1:{port}" for port in self.admin_ports.values()]
        return {
            "svc-node": nodes,
            "svc-gateway": [url.removeprefix("http://") for url in self.urls],
        }

    def data(self, node: int) -> Path:
        """The directory of a node's data."""
        return self.ledgers[node].root / "data"

    async def command(self, *words: str, days_ago: int = 0) -> str:
        """What `svc-cluster` says to these words, asked of all nodes until it succeeds; by a clock
        that is so many days behind."""
        addresses = [f"--address=127.0.0.1:{port}" for port in self._rpc.numbers]
        if words[0] == "admin":
            addresses = addresses[:1]
        environment: Mapping[str, str] = {}
        if days_ago:
            environment = with_patch(self.directory / "patch", EARLIER.format(days=days_ago))

        def run() -> tuple[int, str]:
            done = subprocess.run(
                [sys.executable, "-m", "svc_cluster", *words, *addresses],
                env=os.environ | dict(environment),
                capture_output=True,
                text=True,
                timeout=COMMAND_S,
                check=False,
            )
            return done.returncode, done.stdout + done.stderr

        status, said = 1, ""
        end = SystemClock().monotonic() + COMMAND_S
        while status:
            assert SystemClock().monotonic() < end, said
            status, said = await asyncio.to_thread(run)
        return said


async def fill(cluster: WatchedCluster) -> None:
    """Every basin with its stream."""
    api = ApiClient(cluster.urls[0])
    try:
        for basin in BASINS:
            await api.make(SystemClock(), basin, None, COMMAND_S)
            await api.make(SystemClock(), basin, STREAM, COMMAND_S)
    finally:
        api.close()


@contextlib.asynccontextmanager
async def appending(url: str) -> AsyncIterator[None]:
    """Appends to every basin, one after the other, whatever they are answered."""
    stopping = False

    async def append(basin: str) -> None:
        api = ApiClient(url)
        try:
            while not stopping:
                with contextlib.suppress(ConnectionLostError):
                    await api.append(basin, STREAM, [AppendRecord(b"x")], timeout_s=20.0)
                await asyncio.sleep(0)
        finally:
            api.close()

    tasks = [asyncio.create_task(append(basin)) for basin in BASINS for _ in range(APPENDERS)]
    try:
        yield
    finally:
        stopping = True
        await asyncio.gather(*tasks)
