"""A cluster of single processes whose settings a test changes: nodes that move, come and go."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import yaml

from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.http.client import ConnectionLostError, HttpClient
from tests.service_process import ServiceProcess, service

PLACES: Final = 9
"""Ports for nodes, each with three of them."""
WAIT_S: Final = 60.0
COMMAND_S: Final = 60.0


class OwnNodes:
    """Three nodes and a gateway in clear on loopback, and as many nodes more as are asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._held = HeldPorts(3 * PLACES + 1)
        numbers = iter(self._held.numbers)
        self.ports = [(next(numbers), next(numbers), next(numbers)) for _ in range(PLACES)]
        """(links, pages, administration) of each place; node n begins at place n - 1."""
        self.http = next(numbers)
        (directory / "secret").write_text("s" * 64)
        self.common = {"cluster_id": "own-nodes", "secret_file": str(directory / "secret")}
        self.first = {str(n): f"127.0.0.1:{self.ports[n - 1][0]}" for n in (1, 2, 3)}
        self.settings: dict[str, dict[str, Any]] = {}
        self.processes: dict[str, ServiceProcess] = {}
        for node in (1, 2, 3):
            self.add(node, node_id=node)
        self._put("gateway", "gateway", {"nodes": self.first, "port": self.http})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http}"

    def add(self, node: int, place: int | None = None, **settings: Any) -> None:
        """A node, which is not started yet, at a place."""
        _, page, admin = self.ports[node - 1 if place is None else place]
        told = {
            "nodes": self.first,
            "data_dir": str(self.directory / f"data-{node}"),
            "admin_address": f"127.0.0.1:{page}",
            "admin_rpc_address": f"127.0.0.1:{admin}",
            "log_format": "text",
            **settings,
        }
        self._put(f"node-{node}", "node", told)

    def add_gateway(self, name: str, place: int) -> str:
        """A further gateway, which is not started yet, at a place where no node is: its URL."""
        port = self.ports[place][0]
        self._put(name, "gateway", {"nodes": self.first, "port": port})
        return f"http://127.0.0.1:{port}"

    def _put(self, name: str, kind: str, settings: dict[str, Any]) -> None:
        self.settings[name] = {**self.common, **settings}
        config = self.directory / f"{name}.yaml"
        config.write_text(yaml.safe_dump(self.settings[name]))
        if name not in self.processes:
            self.processes[name] = service(kind, config, self.directory / f"{name}.log")

    def start(self, *names: str) -> None:
        for name in names or tuple(self.processes):
            self.processes[name].start()

    def end(self) -> None:
        for process in self.processes.values():
            if process.is_running:
                process.tell(signal.SIGKILL)
                process.end()

    def said(self) -> str:
        return "\n".join(
            f"== {name}\n{process.said()[-3000:]}"
            for name, process in self.processes.items()
            if process.log.exists()
        )

    async def admin(self, *words: str, node: int = 1) -> tuple[int, str]:
        """Status and output of `svc-cluster admin`, asked of a node."""
        address = self.settings[f"node-{node}"]["admin_rpc_address"]
        command = [sys.executable, "-m", "svc_cluster", "admin", *words, "--address", address]

        def run() -> tuple[int, str]:
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=COMMAND_S, check=False
            )
            return ended.returncode, ended.stdout + ended.stderr

        return await asyncio.to_thread(run)

    async def members(self, node: int = 1) -> dict[int, dict[str, Any]]:
        """What a node says of the nodes, by id; nothing where it does not answer."""
        status, text = await self.admin("member", "list", "--json", node=node)
        if status:
            return {}
        return {row["node_id"]: row for row in json.loads(text)["members"]}

    async def cluster(self) -> dict[int, dict[str, Any]]:
        """What the gateway says of the nodes, by id."""
        try:
            async with HttpClient(self.url) as client:
                page = await client.request("GET", "/v1/cluster", timeout_s=COMMAND_S)
        except (ConnectionLostError, OSError):
            return {}
        if page.status != 200:
            return {}
        return {row["node_id"]: row for row in json.loads(page.body)["nodes"]}


async def until(look: Callable[[], Any], seconds: float = WAIT_S) -> Any:
    """What an asynchronous look gives, as soon as that is something."""
    async with asyncio.timeout(seconds):
        while not (found := await look()):
            await asyncio.sleep(0.2)
    return found
