"""A gateway of several processes beside a cluster of one node, and clients that count."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.tasks import start_task
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.http.client import ConnectionLostError, HttpClient, HttpResponse
from svc_cluster.lab.own_cluster import OwnCluster
from tests.integration.processes import wait_page
from tests.log_lines import json_lines
from tests.service_process import ServiceProcess, service

SECONDS: Final = 60.0
JSON: Final = {"content-type": "application/json"}

RETRY_S: Final = 0.1
"""How long a client waits before its one further attempt, as S2's do: what has begun to die may be
connected to until the kernel has ended its last thread."""


class Group:
    """One gateway that asks for access tokens."""

    def __init__(
        self, own: OwnCluster | Mapping[str, Any], place: Path, processes: int, **changes: Any
    ) -> None:
        """`own`: the cluster, or what the settings of all its processes have. `changes`: of the
        gateway's own."""
        self.processes = processes
        held = HeldPorts(1)
        self.port = held.numbers[0]
        held.close()
        settings = {
            **(common_of(own) if isinstance(own, OwnCluster) else own),
            "port": self.port,
            "authentication": True,
            **changes,
        }
        self.config = place.with_suffix(".yaml")
        self.config.write_text(yaml.safe_dump(settings))
        self.log = place.with_suffix(".log")
        self.directory = place.with_suffix(".tmp")
        self.directory.mkdir(exist_ok=True)
        self.process = self.parent()

    def impatient(self) -> ServiceProcess:
        """Return its parent, not started, as one that takes processes for hanging soon."""
        command = [sys.executable, "-m", "tests.integration.impatient_gateway", "gateway"]
        return ServiceProcess(
            [*command, "--config", str(self.config), "--processes", str(self.processes)],
            self.log,
            environment={"TMPDIR": str(self.directory)},
        )

    def parent(self, *more: str) -> ServiceProcess:
        """Return its parent, not started."""
        return service(
            "gateway",
            self.config,
            self.log,
            "--processes",
            str(self.processes),
            *more,
            environment={"TMPDIR": str(self.directory)},
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def pids(self) -> dict[int, int]:
        """The process id of each that has said that it listens, the latest of each number."""
        return {line["process"]: line["pid"] for line in self.lines("process_started")}

    def lines(self, event: str) -> list[dict[str, Any]]:
        return [line for line in json_lines(self.log) if line["event"] == event]

    async def ready(self) -> None:
        """Return once every process serves. Raises AssertionError."""
        words = f"{self.processes} of {self.processes} processes answer"
        await wait_page(self.port, "/readyz?verbose", 200, words)

    async def samples(self) -> dict[str, float]:
        """The metrics of whichever process answers."""
        async with HttpClient(self.url) as client:
            page = await client.request("GET", "/metrics", timeout_s=SECONDS)
        lines = [line.rpartition(" ") for line in page.body.decode().split("\n")]
        return {name: float(value) for name, _, value in lines if name and name[0] != "#"}


def common_of(own: OwnCluster) -> dict[str, Any]:
    """Return what the settings of every gateway of this cluster have."""
    facts = json.loads((own.directory / "local.json").read_text())
    nodes = {str(row["id"]): f"127.0.0.1:{row['rpc_port']}" for row in own.file()["nodes"]}
    secret = str(own.directory / "cluster.secret")
    return {"cluster_id": facts["cluster_id"], "nodes": nodes, "secret_file": secret}


@contextlib.asynccontextmanager
async def running(group: Group) -> AsyncIterator[Group]:
    """Started and ready; stopped in order, which must end with status 0."""
    with group.process:
        await group.ready()
        yield group


class Clients:
    """Clients that each ask over a new connection, again and again, and try once more, RETRY_S
    later, where the connection was refused or gave no answer."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.headers = {"authorization": f"Bearer {token}"}
        self.answered = 0
        self.failures: list[str] = []
        self._is_over = False

    async def once(self, path: str) -> HttpResponse:
        """Raises ConnectionLostError."""
        async with HttpClient(self.url) as client:
            return await client.request("GET", path, self.headers, timeout_s=SECONDS)

    async def ask(self, path: str) -> None:
        """One request, and one more in its place. Whatever else happens is a failure."""
        try:
            answer = await self.once(path)
        except ConnectionLostError as first:
            await asyncio.sleep(RETRY_S)
            try:
                answer = await self.once(path)
            except ConnectionLostError as second:
                self.failures.append(f"{first}, and {RETRY_S} s later {second}")
                return
        if answer.status == 200:
            self.answered += 1
        else:
            self.failures.append(f"{answer.status} {answer.body!r}")

    @contextlib.asynccontextmanager
    async def going_on(self, at_once: int, path: str) -> AsyncIterator[None]:
        async def go_on() -> None:
            while not self._is_over:
                await self.ask(path)

        tasks = [start_task(go_on(), "client") for _ in range(at_once)]
        try:
            yield
        finally:
            self._is_over = True
            await asyncio.gather(*tasks)

    async def answers(self, count: int) -> None:
        """Return once so many more have been answered. Raises AssertionError."""
        wanted = self.answered + count
        await until(lambda: self.answered >= wanted or bool(self.failures))


async def until(holds: Any) -> None:
    """Return once it holds. Raises AssertionError."""
    end = SystemClock().monotonic() + SECONDS
    while not holds():
        assert SystemClock().monotonic() < end, "it does not come to hold"
        await asyncio.sleep(0.02)


def lives(pid: int) -> bool:
    """Whether there is such a process, which is not over and only waits to be looked at."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (OSError, IndexError):
        return False
    return state != "Z" and os.path.exists(f"/proc/{pid}")
