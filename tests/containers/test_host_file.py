"""`deploy/compose/host.yml`, one node and one gateway a machine: three of them form a cluster, and
one whose volume is gone is made whole by the others. Here the machines are three projects of one
engine, each with an address of its own, which meet on one network."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.http.client import ConnectionLostError, HttpClient
from tests.containers.compose import (
    COMMAND_S,
    READY_S,
    ROOT,
    ComposeError,
    compose_command,
    docker,
    engine,
)

NETWORK = "svc-cluster-hosts-test"
NODES = (1, 2, 3)
OWNER = 65532
PORT = 8443
pytestmark = pytest.mark.timeout(1200)


class Machine:
    """One machine: its files, its .env and its project."""

    def __init__(self, number: int, directory: Path, made: Path) -> None:
        self.number = number
        self.project = f"{NETWORK}-{number}"
        self.bind = f"127.0.9.{number}"
        self.directory = directory / f"host-{number}"
        files = self.directory / "files"
        files.mkdir(parents=True)
        for name, source in (("node", f"node-{number}"), ("gateway",) * 2, ("public",) * 2):
            subprocess.run(["cp", "-r", made / source, files / name], check=True)
        for path in (files, *files.rglob("*")):
            os.chown(path, OWNER, OWNER)
        release = next(
            line
            for line in (ROOT / ".env").read_text().splitlines()
            if "SVC_CLUSTER_VERSION" in line
        )
        nodes = {str(one): f"host-{one}:7000" for one in NODES}
        lines = [
            release,
            "CLUSTER_ID=hosts",
            f"NODE_ID={number}",
            f"ADVERTISE_ADDRESS=host-{number}:7000",
            f"NODES={json.dumps(nodes)}",
            f"FILES={files}",
            f"BIND={self.bind}",
            f"PUBLIC_PORT={PORT}",
        ]
        (self.directory / ".env").write_text("\n".join(lines) + "\n")
        (self.directory / "host.yml").write_text(
            (ROOT / "deploy" / "compose" / "host.yml").read_text()
        )
        # one engine stands for three machines: they meet here, and not by the published ports
        meets = {
            "services": {"node": {"networks": {"default": {"aliases": [f"host-{number}"]}}}},
            "networks": {"default": {"external": True, "name": NETWORK}},
        }
        (self.directory / "meet.json").write_text(json.dumps(meets))

    def run(self, *arguments: str, check: bool = True) -> str:
        """Raises ComposeError."""
        command = compose_command()
        assert command is not None
        done = subprocess.run(
            [*command, "-p", self.project, "-f", "host.yml", "-f", "meet.json", *arguments],
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        if check and done.returncode != 0:
            raise ComposeError(f"{' '.join(arguments)}: {done.stderr[-2000:]}")
        return done.stdout

    def url(self) -> str:
        return f"https://{self.bind}:{PORT}"

    def container(self, service: str) -> str:
        label = "label=com.docker.compose"
        return docker(
            *("ps", "--all", "--quiet", "--filter", f"{label}.project={self.project}"),
            *("--filter", f"{label}.service={service}"),
        ).strip()


class Machines:
    """All three, and what a client of theirs has."""

    def __init__(self, directory: Path) -> None:
        made = directory / "made"
        subprocess.run(
            [
                *(sys.executable, "-m", "svc_cluster", "admin", "bootstrap"),
                *("--out", made, "--ca", directory / "ca", "--nodes", "3"),
                *("--public-name", "localhost"),
            ],
            cwd=ROOT,
            check=True,
            capture_output=True,
            timeout=60,
        )
        self.all = [Machine(number, directory, made) for number in NODES]
        self.token = (made / "node-1" / "root-token").read_text().strip()
        self._tls = ssl.create_default_context(cafile=str(made / "node-1" / "ca.crt"))
        self._tls.check_hostname = False  # they are asked by their addresses

    async def ask(self, machine: Machine, method: str, path: str, body: Any = None) -> Any:
        """The JSON of a success, however long it takes to come. Raises ComposeError."""
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        headers |= {"svc-basin": "hosts-basin", "svc-format": "utf8"}
        if path.endswith("/records") and body is not None:
            headers["svc-request-token"] = body["records"][0]["body"]  # however often it is asked
        data = b"" if body is None else json.dumps(body).encode()
        end, last = SystemClock().monotonic() + READY_S, "nothing was asked"
        while SystemClock().monotonic() < end:
            try:
                async with HttpClient(machine.url(), self._tls) as client:
                    answer = await client.request(method, path, headers, data, timeout_s=10.0)
                if answer.status in (200, 201, 409):
                    return answer.json()
                last = f"{answer.status} {answer.body[:300]!r}"
            except (ConnectionLostError, OSError) as lost:
                last = repr(lost)
            await asyncio.sleep(0.5)
        said = "\n".join(one.run("logs", "--tail", "15", check=False) for one in self.all)
        raise ComposeError(f"{method} {path} at {machine.bind}: {last}\n{said}")

    async def append(self, machine: Machine, text: str) -> None:
        body = {"records": [{"body": text}]}
        await self.ask(machine, "POST", "/v1/streams/s/records", body)

    async def records(self, machine: Machine) -> list[str]:
        found = await self.ask(machine, "GET", "/v1/streams/s/records?seq_num=0&count=100")
        return [record["body"] for record in found["records"]]

    def remove(self) -> None:
        for machine in self.all:
            machine.run("down", "--volumes", "--timeout", "1", check=False)
        subprocess.run(["docker", "network", "rm", NETWORK], capture_output=True, check=False)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    missing = engine() or ("only root gives files away" if os.getuid() else None)
    if missing is not None:
        pytest.skip(f"{missing}: the file of one machine is not tried")
    found = Machines(tmp_path)
    found.remove()
    docker("network", "create", NETWORK)
    try:
        yield found
    finally:
        found.remove()


def test_three_machines_are_a_cluster_and_one_may_lose_its_volume(machines: Machines) -> None:
    """What is appended at one gateway is read at another; a machine may be away, and come back with
    nothing: it has everything again without a command."""

    async def play() -> None:
        first, second, third = machines.all
        for machine in machines.all:
            machine.run("up", "--detach", "--no-build")
        await machines.ask(first, "POST", "/v1/basins", {"basin": "hosts-basin"})
        await machines.ask(second, "POST", "/v1/streams", {"stream": "s"})
        await machines.append(first, "one")
        assert await machines.records(third) == ["one"]
        second.run("stop")
        await machines.append(third, "two")
        second.run("up", "--detach", "--no-build")
        await machines.append(second, "three")
        assert await machines.records(second) == ["one", "two", "three"]
        third.run("down", "--volumes", "--timeout", "30")
        third.run("up", "--detach", "--no-build")
        end = SystemClock().monotonic() + READY_S
        while not is_whole(third):
            assert SystemClock().monotonic() < end, third.run("logs", "--tail", "40", "node")
            await asyncio.sleep(0.5)
        await machines.append(third, "four")
        for machine in machines.all:
            assert await machines.records(machine) == ["one", "two", "three", "four"]

    asyncio.run(play())


def is_whole(machine: Machine) -> bool:
    """Whether its node says that it is ready."""
    command = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9090/readyz').status)"
    try:
        said = docker("exec", machine.container("node"), "python3", "-c", command)
    except ComposeError:
        return False
    return said.strip() == "200"
