"""The processes that come and go, and an operator who has `svc-cluster admin` and nothing else."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.http.client import ConnectionLostError, HttpClient
from svc_cluster.lab.own_cluster import get_json
from tests.compatibility.programs import Program
from tests.own_nodes import OwnNodes
from tests.service_process import ServiceProcess

FIRST: Final = (1, 2, 3)
GATEWAYS: Final = ("gateway", "gateway-2")
STEP_S: Final = 600.0
"""Within this everything that an operator waits for has come."""
PAUSE_S: Final = 0.5
"""Between two looks: each starts a process on the machine that is measured."""
DRAIN_S: Final = 5.0
"""How long a gateway that is told to end goes on with connections that are open."""
PAGE_TOLD: Final = 400
"""Characters of a page that a failure shows."""


class ElasticCluster(OwnNodes):
    """Three nodes and two gateways on loopback; further nodes come with join tokens."""

    def __init__(self, directory: Path, earlier: Program | None = None) -> None:
        """The processes run the `earlier` release until each is `upgraded`."""
        super().__init__(directory)
        self._second = HeldPorts(1)
        for name, port in zip(GATEWAYS, (self.http, self._second.numbers[0]), strict=True):
            settings = {"nodes": self.first, "port": port, "drain_seconds": DRAIN_S}
            self._put(name, "gateway", settings)
        self.urls = [f"http://127.0.0.1:{self.settings[name]['port']}" for name in GATEWAYS]
        self.commands = 0
        """How often the operator has asked."""
        self._now = dict(self.processes)
        for name in self._now if earlier is not None else ():
            assert earlier is not None
            kind = "gateway" if name in GATEWAYS else "node"
            self.processes[name] = ServiceProcess(
                [*earlier.command, kind, "--config", str(directory / f"{name}.yaml")],
                directory / f"{name}.log",
                environment=earlier.environment,
                directory=directory,
            )

    def upgraded(self, name: str) -> None:
        """From its next start on it runs the release of this checkout."""
        self.processes[name] = self._now[name]

    # -- the operator

    def _asked(self, without: int) -> int:
        """A node that runs, to which the operator goes; `without` is the one that it is about."""
        return next(
            node for node in FIRST if node != without and self.processes[f"node-{node}"].is_running
        )

    async def tell(self, *words: str, about: int = 0, at: int = 0) -> tuple[int, str]:
        """Status and output of one `svc-cluster admin`, asked of a node that runs."""
        node = at or self._asked(about)
        address = self.settings[f"node-{node}"]["admin_rpc_address"]
        command = [sys.executable, "-m", "svc_cluster", "admin", *words, "--address", address]
        self.commands += 1

        def run() -> tuple[int, str]:
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=STEP_S, check=False
            )
            return ended.returncode, ended.stdout + ended.stderr

        return await asyncio.to_thread(run)

    async def insist(self, *words: str, about: int = 0, at: int = 0, quiet: bool = False) -> str:
        """The output of a command, once it succeeds: some refuse while others are under way.
        Raises AssertionError with the last refusal."""
        tries, begun = 0, time.monotonic()
        while True:
            tries += 1
            status, text = await self.tell(*words, about=about, at=at)
            if status == 0:
                break
            waited = time.monotonic() - begun
            assert waited < STEP_S, f"{' '.join(words)} after {waited:.0f} s: {text}"
            await asyncio.sleep(PAUSE_S)
        seconds = time.monotonic() - begun
        print(f"  $ svc-cluster admin {' '.join(words)}   ({tries} x, {seconds:.1f} s)", flush=True)
        return text

    async def answer(self, *words: str, about: int = 0) -> dict[str, Any]:
        """The JSON of a question that a node answers, whatever its status says of it."""
        begun = time.monotonic()
        while True:
            _, text = await self.tell(*words, about=about)
            if text.startswith("{"):
                found: dict[str, Any] = json.loads(text.splitlines()[0])
                return found
            waited = time.monotonic() - begun
            assert waited < STEP_S, f"{' '.join(words)} after {waited:.0f} s: {text}"
            await asyncio.sleep(PAUSE_S)

    async def rows(self, about: int = 0) -> dict[int, dict[str, Any]]:
        """What `member list` says of the nodes, by id."""
        found = await self.answer("member", "list", "--json", about=about)
        return {row["node_id"]: row for row in found["members"]}

    async def copies(self) -> dict[int, int]:
        """Replicas of basins on each node that is there, without that of the catalog."""
        found = await self.answer("cluster", "status", "-o", "json")
        rows = [row for row in found["nodes"] if row["state"] != "removed"]
        return {row["node_id"]: row["groups"] - 1 for row in rows}

    # -- processes

    async def comes(self, node: int, token: Path) -> None:
        """A node that is told of the first ones and of its token, and of nothing else."""
        place = f"127.0.0.1:{self.ports[node - 1][0]}"
        nodes = {**self.first, str(node): place}
        self.add(node, node_id=node, nodes=nodes, join_token_file=str(token))
        self.start(f"node-{node}")

    def destroy(self, node: int) -> None:
        """kill -9, and the disk is gone."""
        process = self.processes[f"node-{node}"]
        process.tell(signal.SIGKILL)
        process.end()
        shutil.rmtree(self.settings[f"node-{node}"]["data_dir"])

    async def ready(self, url: str) -> None:
        """Until it says that it is. Raises AssertionError with what it says instead."""
        last = "nothing was asked"

        async def is_ready() -> bool:
            nonlocal last
            try:
                async with HttpClient(url) as client:
                    page = await client.request("GET", "/readyz?verbose", timeout_s=5.0)
            except (ConnectionLostError, OSError, TimeoutError) as lost:
                last = str(lost)
                return False
            last = page.body.decode(errors="replace")[-PAGE_TOLD:]
            return page.status == 200

        await comes_true(is_ready, lambda: f"{url} is not ready: {last}")

    async def groups(self, node: int) -> list[dict[str, Any]]:
        """What the page of a node says of its replicas; nothing where it does not answer."""
        port = self.ports[node - 1][1]
        try:
            status, body = await get_json(port, "/debug/groups")
        except ConnectionLostError:
            return []
        return body["groups"] if status == 200 and body is not None else []

    async def node_ready(self, node: int) -> None:
        """Until a node's own page says that it is."""
        await self.ready(f"http://{self.settings[f'node-{node}']['admin_address']}")


async def comes_true(look: Callable[[], Awaitable[bool]], why: Callable[[], str]) -> None:
    """Until it holds. Raises AssertionError with the reason when the time is over."""
    end = time.monotonic() + STEP_S
    while not await look():
        assert time.monotonic() < end, why()
        await asyncio.sleep(PAUSE_S)
