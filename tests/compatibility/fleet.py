"""A cluster whose processes are of different releases: nodes and one gateway, on loopback."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import yaml

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.http.client import ConnectionLostError, HttpClient
from tests.compatibility.programs import Program
from tests.log_lines import whole_text
from tests.service_process import ServiceProcess

READY_S = 90.0
SECRET = "s" * 64


class Fleet:
    """Each process is started with the program that it is to be of; data stays between."""

    def __init__(self, directory: Path, nodes: int = 3) -> None:
        self.directory = directory
        self._held = HeldPorts(3 * nodes + 1)
        ports = iter(self._held.numbers)
        self.gateway_port = next(ports)
        self.ids = range(1, nodes + 1)
        self._rpc = {node: next(ports) for node in self.ids}
        self.http = {node: next(ports) for node in self.ids}
        self.administration = {node: next(ports) for node in self.ids}
        self._processes: dict[str, ServiceProcess] = {}
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "secret").write_text(SECRET)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.gateway_port}"

    def _shared(self) -> dict[str, Any]:
        return {
            "cluster_id": "mixed",
            "nodes": {str(node): f"127.0.0.1:{port}" for node, port in self._rpc.items()},
            "secret_file": str(self.directory / "secret"),
        }

    def start_node(self, node: int, program: Program) -> None:
        settings = {
            **self._shared(),
            "node_id": node,
            "replication_factor": len(self.ids),
            "data_dir": str(self.directory / f"node-{node}"),
            "admin_address": f"127.0.0.1:{self.http[node]}",
            "admin_rpc_address": f"127.0.0.1:{self.administration[node]}",
        }
        self._start(f"node-{node}", "node", settings, program)

    def start_gateway(self, program: Program) -> None:
        self._start("gateway", "gateway", {**self._shared(), "port": self.gateway_port}, program)

    def _start(self, name: str, role: str, settings: dict[str, Any], program: Program) -> None:
        path = self.directory / f"{name}.yaml"
        path.write_text(yaml.safe_dump(settings))
        self._processes[name] = process = ServiceProcess(
            [*program.command, role, "--config", str(path)],
            self.log_path(name),
            environment=program.environment,
            directory=self.directory,
        )
        process.start()

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> int:
        """End a process and say with which status it did."""
        return self._processes.pop(name).stop(number)

    def ended(self, name: str) -> int:
        """The status of a process that ends by itself."""
        return self._processes.pop(name).end()

    def end(self) -> None:
        for process in self._processes.values():
            process.kill()

    def log_path(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def log(self, name: str) -> str:
        return whole_text(self.log_path(name))

    async def ready(self, *nodes: int) -> None:
        """Until these nodes and the gateway are ready. Raises AssertionError."""
        ports = [self.http[node] for node in nodes]
        ports += [self.gateway_port] if "gateway" in self._processes else []
        end = SystemClock().monotonic() + READY_S
        for port in ports:
            while (found := await _page(port, "/readyz"))[0] != 200:
                assert SystemClock().monotonic() < end, f"not ready: {found}"
                await asyncio.sleep(0.1)

    async def figures(self, node: int) -> dict[str, float]:
        """The metrics of a node without labels."""
        _, text = await _page(self.http[node], "/metrics")
        rows = (line.split() for line in text.splitlines() if line and line[0] != "#")
        return {row[0]: float(row[1]) for row in rows if "{" not in row[0]}

    def said(self, name: str, words: str) -> bool:
        """Whether a line of the process's log holds these words."""
        return any(words in line for line in self.log(name).splitlines())

    async def until_said(self, name: str, words: str) -> None:
        """Raises AssertionError, with the log's end, where it does not come to say so."""
        end = SystemClock().monotonic() + READY_S
        while not self.said(name, words):
            assert SystemClock().monotonic() < end, f"{words!r} not in\n{self.log(name)[-3000:]}"
            await asyncio.sleep(0.1)


async def _page(port: int, path: str) -> tuple[int, str]:
    try:
        async with HttpClient(f"http://127.0.0.1:{port}") as client:
            answer = await client.request("GET", path, timeout_s=5.0)
            return answer.status, answer.body.decode()
    except (ConnectionLostError, TimeoutError):
        return 0, ""


def admin(fleet: Fleet, node: int, program: Program, *arguments: str) -> tuple[int, str]:
    """The status of `svc-cluster admin` at a node, and all that it said."""
    address = f"127.0.0.1:{fleet.administration[node]}"
    done = subprocess.run(
        [*program.command, "admin", *arguments, "--address", address],
        cwd=fleet.directory,
        env=program.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=READY_S,
    )
    return done.returncode, done.stdout + done.stderr


def cluster_version(fleet: Fleet, node: int, program: Program) -> dict[str, Any]:
    """The JSON of `admin cluster version`."""
    status, told = admin(fleet, node, program, "cluster", "version", "-o", "json")
    assert status == 0, told
    found: dict[str, Any] = json.loads(told)
    return found
