"""The project's docker-compose.yml as a test runs it: a project name and ports of its own, and
everything taken away at the end, also what an earlier run that was killed has left."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.http.client import ConnectionLostError, HttpClient
from svc_cluster.model.access_secret import SECRET_BYTES, secret_text

ROOT: Final = Path(__file__).resolve().parents[2]
PROJECT: Final = "svc-cluster-test"
DECLARED: Final = "declared-basin"
TOKEN_FILE: Final = "declared.token"
NODES: Final = ("svc-0", "svc-1", "svc-2")
GATEWAYS: Final = ("gateway-0", "gateway-1")
READY_S: Final = 420.0
COMMAND_S: Final = 420.0


class ComposeError(Exception):
    """A command did not do what it should."""


def engine() -> str | None:
    """None when a container engine and a compose command answer; otherwise what is missing."""
    if shutil.which("docker") is None:
        return "there is no docker command"
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode != 0:
        return "no container engine answers"
    if compose_command() is None:
        return "there is neither `docker compose` nor `docker-compose`"
    return None


def compose_command() -> list[str] | None:
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if plugin.returncode == 0:
        return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else None


class Compose:
    """The cluster of docker-compose.yml under a name of its own."""

    def __init__(self) -> None:
        command = compose_command()
        assert command is not None, "engine() was asked"
        self._command = command
        # The engine listens as every server here does, so the ports stay held all the while.
        self._held = HeldPorts(2 + 2 * len(NODES))
        self.port, self.prometheus_port, *ports = self._held.numbers
        admin, administration = ports[: len(NODES)], ports[len(NODES) :]
        # what the gateways declare at their start, beside the token's secret
        self.declared = tempfile.TemporaryDirectory()
        declare(Path(self.declared.name))
        self._environment = {
            **os.environ,
            "COMPOSE_PROJECT_NAME": PROJECT,
            "SVC_CLUSTER_INIT_DIR": self.declared.name,
            "SVC_CLUSTER_PORT": str(self.port),
            "PROMETHEUS_PORT": str(self.prometheus_port),
            # the usual ones lie where the kernel takes ports for outgoing connections from
            **{f"SVC_{node}_ADMIN_PORT": str(port) for node, port in enumerate(admin)},
            **{f"SVC_{node}_ADMIN_RPC_PORT": str(port) for node, port in enumerate(administration)},
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def run(self, *arguments: str) -> str:
        """A compose command's output. Raises ComposeError."""
        done = subprocess.run(
            [*self._command, *arguments],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        if done.returncode != 0:
            raise ComposeError(f"{' '.join(arguments)}: {done.stderr[-2000:]}")
        return done.stdout

    def container(self, service: str) -> str:
        """The id of a service's container, running or not."""
        ids = docker(
            "ps",
            "--all",
            "--quiet",
            "--filter",
            f"label=com.docker.compose.project={PROJECT}",
            "--filter",
            f"label=com.docker.compose.service={service}",
        ).split()
        if len(ids) != 1:
            raise ComposeError(f"{service} has {len(ids)} containers")
        return ids[0]

    def kill(self, service: str) -> None:
        """kill -9 of its processes; it stays down until `start`."""
        docker("update", "--restart=no", self.container(service))
        docker("kill", "--signal=KILL", self.container(service))

    def start(self, service: str) -> None:
        docker("start", self.container(service))

    def disconnect(self, service: str) -> None:
        docker("network", "disconnect", f"{PROJECT}_svc", self.container(service))

    def connect(self, service: str) -> None:
        docker("network", "connect", "--alias", service, f"{PROJECT}_svc", self.container(service))

    def read_file(self, service: str, path: str) -> str:
        return docker("exec", self.container(service), "cat", path)

    def describe(self, service: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(docker("inspect", self.container(service)))[0]
        return found

    async def wait_ready(self) -> None:
        """Until the gateway says that it is. Raises ComposeError."""
        clock = SystemClock()
        end = clock.monotonic() + READY_S
        last = "nothing was asked"
        while clock.monotonic() < end:
            try:
                async with HttpClient(self.url) as client:
                    answer = await client.request("GET", "/readyz", timeout_s=3.0)
                if answer.status == 200:
                    return
                last = f"{answer.status}"
            except ConnectionLostError as lost:
                last = str(lost)
            await asyncio.sleep(0.2)
        raise ComposeError(f"the gateway is not ready: {last}\n{self.run('logs', '--tail', '20')}")

    async def wait_healthy(self, *services: str) -> None:
        """Until the engine says so of each. Raises ComposeError."""
        clock = SystemClock()
        end = clock.monotonic() + READY_S
        for service in services:
            while self.describe(service)["State"]["Health"]["Status"] != "healthy":
                if clock.monotonic() > end:
                    raise ComposeError(f"{service} is not healthy:\n{self.run('logs', service)}")
                await asyncio.sleep(0.2)

    async def wait_said(self, service: str, words: str) -> str:
        """The log of a service, once it has these words. Raises ComposeError."""
        clock = SystemClock()
        end = clock.monotonic() + READY_S
        profiles = ("--profile", "scale", "--profile", "backup")
        while words not in (said := self.run(*profiles, "logs", "--no-color", service)):
            if clock.monotonic() > end:
                raise ComposeError(f"{service} does not say {words!r}:\n{said}")
            await asyncio.sleep(0.2)
        return said

    def remove(self) -> None:
        """Containers, networks and volumes of this project, whoever made them."""
        subprocess.run(
            [
                *self._command,
                *("--profile", "scale", "--profile", "observability", "--profile", "backup"),
                "down",
                "--volumes",
                "--remove-orphans",
                "--timeout",
                "1",
            ],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            timeout=COMMAND_S,
            check=False,
        )


def declare(directory: Path) -> None:
    """An init file with a basin, a stream and a token that reads them, and the token's secret."""
    scope = {"basins": {"exact": DECLARED}, "streams": {"prefix": ""}, "ops": ["list-streams"]}
    token = {"id": "declared", "secret_file": TOKEN_FILE, "scope": scope}
    basin = {"name": DECLARED, "streams": [{"name": "from-the-start"}]}
    (directory / "init.json").write_text(json.dumps({"basins": [basin], "access_tokens": [token]}))
    (directory / TOKEN_FILE).write_text(secret_text(os.urandom(SECRET_BYTES)))
    for path in (directory, *directory.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)


def docker(*arguments: str) -> str:
    """A docker command's output. Raises ComposeError."""
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, timeout=COMMAND_S, check=False
    )
    if done.returncode != 0:
        raise ComposeError(f"docker {' '.join(arguments)}: {done.stderr[-1000:]}")
    return done.stdout
