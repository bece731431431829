"""Nodes and gateways as processes of one's own, started one by one, and what they say together.

Ends only what it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import yaml

from svc_cluster.cli.processes.process import MALLOC_ENVIRONMENT
from svc_cluster.http.client import ConnectionLostError
from svc_cluster.lab.own_cluster import Groups, get_json, leader_in
from tests.chaos.namespaces import Namespace
from tests.log_lines import whole_lines
from tests.service_process import ServiceProcess

NODES: Final = (1, 2, 3)
STOP_S: Final = 8.0


@dataclass(slots=True)
class Member:
    """One process, up or down."""

    name: str
    space: Namespace
    command: list[str]
    log: Path
    environment: dict[str, str]
    process: ServiceProcess | None = None
    stopped: bool = False
    exits: list[int] = field(default_factory=list)

    def start(self) -> None:
        assert self.process is None, f"{self.name} runs already"
        self.process = ServiceProcess(
            self.space.command(self.command),
            self.log,
            environment={**MALLOC_ENVIRONMENT, **os.environ, **self.environment},
            own_session=True,
        )
        self.process.start()

    @property
    def is_up(self) -> bool:
        """Also while it is stopped by SIGSTOP. Notes how it ended when it did."""
        if self.process is None:
            return False
        status = self.process.status
        if status is None:
            return True
        self.exits.append(status)
        self.process = None
        self.stopped = False
        return False

    def kill(self) -> None:
        if self.is_up and self.process is not None:
            self.process.kill()
            self.is_up  # noqa: B018 -- takes note of the exit
        self.stopped = False

    def pause(self) -> None:
        if self.is_up and self.process is not None:
            self.process.tell(signal.SIGSTOP)
            self.stopped = True

    def resume(self) -> None:
        if self.stopped and self.is_up and self.process is not None:
            self.process.tell(signal.SIGCONT)
        self.stopped = False


class Members:
    """Nodes and gateways under `directory`, by number. Use as an async context manager; whoever
    derives from it says in `set_up` which there are."""

    ready_s: ClassVar[float] = 60.0

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        self.nodes: dict[int, Member] = {}
        self.gateways: dict[int, Member] = {}
        self.urls: list[str] = []
        """Of the gateways, in their order."""
        self.admin_ports: dict[int, int] = {}

    async def set_up(self) -> None:
        """Add every member."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        try:
            await self.set_up()
            for member in self.members():
                member.start()
            await self.ready()
        except BaseException:
            print(self.log_tail())
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def members(self) -> list[Member]:
        return [*self.nodes.values(), *self.gateways.values()]

    def add_node(
        self, number: int, config: dict[str, Any], space: Namespace, environment: dict[str, str]
    ) -> None:
        self.nodes[number] = self._member("node", number, config, space, environment)

    def add_gateway(self, number: int, config: dict[str, Any], space: Namespace) -> None:
        self.gateways[number] = self._member("gateway", number, config, space, {})

    def _member(
        self,
        role: str,
        number: int,
        config: dict[str, Any],
        space: Namespace,
        environment: dict[str, str],
    ) -> Member:
        path = self.directory / f"{role}-{number}.yaml"
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        command = [sys.executable, "-m", "svc_cluster", role, "--config", str(path)]
        return Member(path.stem, space, command, path.with_suffix(".log"), environment)

    async def ready(self, deadline_s: float | None = None) -> None:
        """Until everyone is up and says that it is ready. Raises TimeoutError, and RuntimeError
        when one has ended by itself."""
        ports = [*self.admin_ports.values(), *(int(url.rpartition(":")[2]) for url in self.urls)]
        async with asyncio.timeout(deadline_s or self.ready_s):
            for port in ports:
                while not await _is_ready(port):
                    down = [member.name for member in self.members() if not member.is_up]
                    if down:
                        raise RuntimeError(f"ended by themselves: {down}\n{self.log_tail()}")
                    await asyncio.sleep(0.05)

    async def groups(self) -> Groups:
        """The Raft groups of every node that answers, by node id."""
        found: Groups = {}
        for node, port in self.admin_ports.items():
            if not self.nodes[node].is_up or self.nodes[node].stopped:
                continue
            with contextlib.suppress(ConnectionLostError):
                status, body = await get_json(port, "/debug/groups", timeout_s=1.0)
                if status == 200 and body is not None:
                    found[node] = body["groups"]
        return found

    async def wait_leader(self, basin: str | None, deadline_s: float = 20.0) -> int:
        """The node that leads the basin, or (None) the catalog. Raises TimeoutError."""
        async with asyncio.timeout(deadline_s):
            while (leader := leader_in(await self.groups(), basin)) is None:
                await asyncio.sleep(0.02)
            return leader

    async def close(self) -> None:
        for member in self.members():
            member.resume()
            if member.is_up and member.process is not None:
                member.process.tell(signal.SIGTERM)
        end = time.monotonic() + STOP_S
        for member in self.members():
            while member.is_up and time.monotonic() < end:
                await asyncio.sleep(0.02)
            member.kill()

    def log_tail(self, lines: int = 25) -> str:
        parts: list[str] = []
        for member in self.members():
            if member.log.exists():
                parts += [f"--- {member.name}", *whole_lines(member.log)[-lines:]]
        return "\n".join(parts)


async def _is_ready(port: int) -> bool:
    with contextlib.suppress(ConnectionLostError):
        return (await get_json(port, "/readyz"))[0] == 200
    return False
